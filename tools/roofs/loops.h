// Loops that are built for each instruction set: the machine's limits, and the softmax of the unfused baseline.
#pragma once

#include <cstdint>

namespace flashtile::roofs {

struct Loops {
  /// Independent fused multiply-adds (on amx: products of tiles) from registers, as many as the kernels keep in flight.
  /// Returns the floating-point operations that `rounds` rounds did on this thread, a multiply and an add each.
  double (*peak)(long rounds) = nullptr;
  /// The arithmetic of the online softmax alone: a maximum, 2^(t − m) and a sum for each logit t of a few vectors at hand;
  /// no second reading and no storing. Returns the number of logits that `rounds` rounds did.
  double (*weights)(long rounds) = nullptr;
  /// to = from and to += from, `n` numbers, a multiple of 64: a stream read and one written, and one more read.
  void (*copy)(const float* from, float* to, std::int64_t n) = nullptr;
  void (*add)(const float* from, float* to, std::int64_t n) = nullptr;
  /// Softmax of a row of base-2 logits in place. `n` is a multiple of 16; −inf hides. A row of −inf alone becomes 0.
  void (*softmax)(float* row, std::int64_t n) = nullptr;
};

Loops loops_scalar();
#if defined(__x86_64__)
Loops loops_avx2();
Loops loops_avx512();
Loops loops_amx();  // bf16; the peak alone
#endif
#if defined(__aarch64__)
Loops loops_neon();
#endif

}  // namespace flashtile::roofs
