// Loops that are built for each instruction set: the machine's limit, and the softmax of the unfused baseline.
#pragma once

#include <cstdint>

namespace flashtile::roofs {

struct Loops {
  /// Independent fused multiply-adds (on amx: products of tiles) from registers, as many as the kernels keep in flight.
  /// Returns the floating-point operations that `rounds` rounds did on this thread, a multiply and an add each.
  double (*peak)(long rounds) = nullptr;
  /// Softmax of a row of base-2 logits in place. `n` is a multiple of 16; −inf hides. A row of −inf alone becomes 0.
  void (*softmax)(float* row, std::int64_t n) = nullptr;
};

Loops loops_scalar();
#if defined(__x86_64__)
Loops loops_avx2();
Loops loops_avx512();
Loops loops_amx();  // bf16; no softmax
#endif
#if defined(__aarch64__)
Loops loops_neon();
#endif

}  // namespace flashtile::roofs
