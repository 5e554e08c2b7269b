// The machine's own limit: independent fused multiply-adds from registers, as many as the kernels keep in flight, and the
// tile unit's products from its own registers.
#pragma once

namespace flashtile::bench {

/// Floating-point operations done by `rounds` rounds on this thread (a multiply and an add each), fp32.
using Peak = double (*)(long rounds);

double peak_scalar(long rounds);
#if defined(__x86_64__)
double peak_avx2(long rounds);
double peak_avx512(long rounds);
double peak_amx(long rounds);  // bf16
#endif
#if defined(__aarch64__)
double peak_neon(long rounds);
#endif

}  // namespace flashtile::bench
