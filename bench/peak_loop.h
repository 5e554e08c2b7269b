// The loop behind peak.h, for one instruction set.
#pragma once

#include "problem/inline.h"

namespace flashtile::bench {
namespace {

template <class Isa>
double peak(long rounds) {
  using V = typename Isa::F32;
  // As many sums as the score kernel keeps, enough to fill both FMA units for their latency. Two loops, since an unroll
  // mark covers 16 rounds; all start differently, or the compiler would compute equal ones once.
  constexpr int kRows = 3, kColumns = Isa::kRegisters >= 32 ? 8 : 4, kSums = kRows * kColumns;
  V sum[kRows][kColumns];
  FT_UNROLL for (int r = 0; r < kRows; ++r) FT_UNROLL for (int c = 0; c < kColumns; ++c) sum[r][c] =
      V::broadcast(static_cast<float>(r * kColumns + c));
  const V a = V::broadcast(1.0f), b = V::broadcast(0x1p-20f);
  for (long n = 0; n < rounds; ++n) {
    FT_UNROLL for (int r = 0; r < kRows; ++r) FT_UNROLL for (int c = 0; c < kColumns; ++c) sum[r][c] = fma(sum[r][c], a, b);
    asm volatile("");  // the compiler may not add the rounds up
  }
  V all = V::broadcast(0);
  FT_UNROLL for (int r = 0; r < kRows; ++r) FT_UNROLL for (int c = 0; c < kColumns; ++c) all = all + sum[r][c];
  float kept[V::kLanes];
  all.store(kept);
  asm volatile("" : : "r"(kept) : "memory");  // the sums are wanted
  return 2.0 * kSums * V::kLanes * static_cast<double>(rounds);
}

}  // namespace
}  // namespace flashtile::bench
