// O += P V for one block: o = +0; for keys ascending: o = fma(p, v, o); then O = fma(O, shrink, o).
// Value dims lie in the lanes, so that whole lines of V are used; P is broadcast from the transposed tile.
#pragma once

#include <type_traits>

#include "tile/elementary.h"
#include "tile/scratch.h"

namespace flashtile {
namespace {

/// kR rows × kC vectors of O in registers.
template <class V, int kR, int kC, class T = typename V::Scalar>
FT_INLINE void accumulate_registers(const T* weights, const T* values, Index width, Index begin, Index end, const T* shrink,
                                    bool first, T* out) {
  constexpr int L = V::kLanes;
  V sum[kR][kC];
  FT_UNROLL for (int r = 0; r < kR; ++r) FT_UNROLL for (int c = 0; c < kC; ++c) sum[r][c] = V::broadcast(0);
  const T* p = weights + begin * kTileQueries;
  const T* v = values + begin * width;
  for (Index j = begin; j < end; ++j, p += kTileQueries, v += width) {
    V value[kC];
    FT_UNROLL for (int c = 0; c < kC; ++c) value[c] = V::load(v + c * L);
    FT_UNROLL for (int r = 0; r < kR; ++r) {
      const V weight = V::broadcast(p[r]);
      FT_UNROLL for (int c = 0; c < kC; ++c) sum[r][c] = fma(weight, value[c], sum[r][c]);
    }
  }
  FT_UNROLL for (int r = 0; r < kR; ++r) {
    const V s = V::broadcast(shrink[r]);
    FT_UNROLL for (int c = 0; c < kC; ++c) {
      T* o = out + r * width + c * L;
      fma(first ? V::broadcast(0) : V::load(o), s, sum[r][c]).store(o);
    }
  }
}

/// body(n, r) for each group of n rows r … r + n − 1 that share registers.
template <class Isa, class Body>
FT_INLINE void by_row_groups(int rows, const Body& body) {
  constexpr int R = Geometry<Isa>::kRows;
  int r = 0;
  for (; rows - r >= R; r += R) body(std::integral_constant<int, R>{}, r);
  for (; rows - r >= 2; r += 2) body(std::integral_constant<int, 2>{}, r);
  if (r < rows) body(std::integral_constant<int, 1>{}, r);
}

/// A block into the first `rows` rows of O, row r over its keys ranges[r]: rows that share registers take the keys of all,
/// which adds +0 for the others, and no more: under a causal mask work ends a few keys behind the diagonal.
template <class Isa, class V, class T = typename V::Scalar>
FT_INLINE void accumulate(const T* weights, const T* values, Index width, int rows, const KeyRange* ranges, const T* shrink,
                          bool first, T* out) {
  constexpr int C = Geometry<Isa>::kColumns, L = V::kLanes;
  KeyRange keys[kTileQueries];  // at the first row of each group: what the group sees
  by_row_groups<Isa>(rows, [&](auto n, int r) {
    keys[r] = ranges[r];
    for (int i = 1; i < decltype(n)::value; ++i) keys[r] = covering(keys[r], ranges[r + i]);
  });
  const auto columns = [&](auto c, Index d) {
    constexpr int kC = decltype(c)::value;
    by_row_groups<Isa>(rows, [&](auto n, int r) {
      constexpr int kR = decltype(n)::value;
      const T *p = weights + r, *v = values + d;
      accumulate_registers<V, kR, kC>(p, v, width, keys[r].begin, keys[r].end, shrink + r, first, out + r * width + d);
    });
  };
  Index d = 0;
  for (; d + C * L <= width; d += C * L) columns(std::integral_constant<int, C>{}, d);
  for (; d < width; d += L) columns(std::integral_constant<int, 1>{}, d);
}

/// The same where V holds an Inf or NaN: hidden keys (weight −0, see softmax.h) are left out instead of multiplied by 0,
/// because 0 · NaN is NaN. Rows that see only finite values get the same bits either way.
template <class V, class T = typename V::Scalar>
FT_INLINE void accumulate_visible(const T* weights, const T* values, Index width, int rows, Index begin, Index end,
                                  const T* shrink, bool first, T* out) {
  for (int r = 0; r < rows; ++r)
    for (Index d = 0; d < width; d += V::kLanes) {
      V sum = V::broadcast(0);
      for (Index j = begin; j < end; ++j) {
        const T p = weights[j * kTileQueries + r];
        if (p == 0 && __builtin_signbit(p)) continue;
        sum = fma(V::broadcast(p), V::load(values + j * width + d), sum);
      }
      T* o = out + r * width + d;
      fma(first ? V::broadcast(0) : V::load(o), V::broadcast(shrink[r]), sum).store(o);
    }
}

}  // namespace
}  // namespace flashtile
