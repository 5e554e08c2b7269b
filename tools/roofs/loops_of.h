// The bodies behind loops.h, for one instruction set.
#pragma once

#include "isa/scalar.h"
#include "roofs/loops.h"
#include "tile/elementary.h"

namespace flashtile::roofs {
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

template <class Isa>
double weights(long rounds) {
  using V = typename Isa::F32;
  constexpr int kVectors = 3, L = V::kLanes;  // as many as the softmax kernel takes at once
  float logits[kVectors * L];
  for (int i = 0; i < kVectors * L; ++i) logits[i] = -0.75f * static_cast<float>(i % 7);
  V top[kVectors], sum[kVectors];
  FT_UNROLL for (int c = 0; c < kVectors; ++c) top[c] = sum[c] = V::broadcast(0);
  const V stabiliser = V::broadcast(1);
  for (long n = 0; n < rounds; ++n) {
    FT_UNROLL for (int c = 0; c < kVectors; ++c) {
      const V t = V::load(logits + c * L);
      top[c] = max_second(t, top[c]);
      sum[c] = sum[c] + exp2_shifted(t, stabiliser);
    }
    asm volatile("" : : "r"(logits) : "memory");  // they may be others now
  }
  FT_UNROLL for (int c = 0; c < kVectors; ++c)(top[c] + sum[c]).store(logits + c * L);
  asm volatile("" : : "r"(logits) : "memory");  // the sums are wanted
  return static_cast<double>(kVectors * L) * static_cast<double>(rounds);
}

template <class Isa, bool kAdd>
void stream(const float* from, float* to, std::int64_t n) {
  using V = typename Isa::F32;
  constexpr int kVectors = 4, L = V::kLanes;
  for (std::int64_t i = 0; i < n; i += kVectors * L) {
    V x[kVectors];
    FT_UNROLL for (int c = 0; c < kVectors; ++c) x[c] = V::load(from + i + c * L);
    if constexpr (kAdd) FT_UNROLL for (int c = 0; c < kVectors; ++c) x[c] = x[c] + V::load(to + i + c * L);
    FT_UNROLL for (int c = 0; c < kVectors; ++c) x[c].store(to + i + c * L);
    asm volatile("");  // no call of memcpy
  }
}

template <class Isa>
void softmax_row(float* row, std::int64_t n) {
  using V = typename Isa::F32;
  constexpr int L = V::kLanes;
  float lanes[L];
  V most = V::broadcast(Limits<V>::kEmpty);
  for (std::int64_t j = 0; j < n; j += L) most = max_second(V::load(row + j), most);
  most.store(lanes);
  float top = lanes[0];
  for (int i = 1; i < L; ++i) top = lanes[i] > top ? lanes[i] : top;

  const V stabiliser = ceil(V::broadcast(top));
  V sum = V::broadcast(0);
  for (std::int64_t j = 0; j < n; j += L) {
    const V p = exp2_shifted(V::load(row + j), stabiliser);
    p.store(row + j);
    sum = sum + p;
  }
  sum.store(lanes);
  float total = 0;
  for (int i = 0; i < L; ++i) total += lanes[i];
  const V share = V::broadcast(total > 0 ? 1 / total : 0);
  for (std::int64_t j = 0; j < n; j += L) (V::load(row + j) * share).store(row + j);
}

template <class Isa>
Loops make_loops() {
  return {peak<Isa>, weights<Isa>, stream<Isa, false>, stream<Isa, true>, softmax_row<Isa>};
}

}  // namespace
}  // namespace flashtile::roofs
