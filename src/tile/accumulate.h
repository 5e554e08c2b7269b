// O += P V for one block: o = +0; for keys ascending: o = fma(p, v, o); then O = fma(O, shrink, o).
// Value dims lie in the lanes, so that whole lines of V are used; P is broadcast from the transposed tile.
#pragma once

#include <type_traits>

#include "tile/elementary.h"
#include "tile/scratch.h"

namespace flashtile {
namespace {

/// A panel of kC vectors of value dims into groups of kR rows of O, from row `r` on as long as there are any; returns the
/// row behind them. The group that starts at row r takes the keys keys[r].
template <class V, int kR, int kC, class T = typename V::Scalar>
FT_NOINLINE int accumulate_rows(int r, int rows, const T* weights, const T* values, const KeyRange* keys, const T* shrink,
                                bool first, T* out, Index width) {
  constexpr int L = V::kLanes;
  for (; r + kR <= rows; r += kR) {
    const KeyRange seen = keys[r];
    V sum[kR][kC];
    FT_UNROLL for (int i = 0; i < kR; ++i) FT_UNROLL for (int c = 0; c < kC; ++c) sum[i][c] = V::broadcast(0);
    const T *p = weights + seen.begin * kTileQueries + r, *v = values + seen.begin * kC * L;
    for (const T* end = values + seen.end * kC * L; v < end; p += kTileQueries, v += kC * L) {
      V value[kC];
      FT_UNROLL for (int c = 0; c < kC; ++c) value[c] = in_register(V::load(v + c * L));
      FT_UNROLL for (int i = 0; i < kR; ++i) {
        const V weight = in_register(V::broadcast(p[i]));
        FT_UNROLL for (int c = 0; c < kC; ++c) sum[i][c] = fma(weight, value[c], sum[i][c]);
      }
    }
    T* o = out + r * width;
    FT_UNROLL for (int i = 0; i < kR; ++i, o += width) {
      const V s = V::broadcast(shrink[r + i]);
      FT_UNROLL for (int c = 0; c < kC; ++c) {
        T* at = o + c * L;
        fma(first ? V::broadcast(0) : V::load(at), s, sum[i][c]).store(at);
      }
    }
  }
  return r;
}

/// A block into the first `rows` rows of O, row r over its keys ranges[r]: rows that share registers take the keys of all,
/// which adds +0 for the others, and no more: under a causal mask work ends a few keys behind the diagonal.
template <class Isa, class V, class T = typename V::Scalar>
FT_INLINE void accumulate(const T* weights, const T* values, Index block_keys, Index width, int rows, const KeyRange* ranges,
                          const T* shrink, bool first, T* out) {
  constexpr int C = Geometry<Isa>::kColumns, L = V::kLanes;
  Index d = 0;
  const auto panels_of = [&](auto vectors) {
    constexpr int kC = decltype(vectors)::value, kR = Geometry<Isa>::rows(kC);
    if (d + kC * L > width) return;
    KeyRange keys[kTileQueries];  // at the first row of a group: what it sees
    int r = 0;
    const auto see = [&](int n) {
      for (; r + n <= rows; r += n) {
        keys[r] = ranges[r];
        for (int i = 1; i < n; ++i) keys[r] = covering(keys[r], ranges[r + i]);
      }
    };
    see(kR), see(4), see(1);
    for (; d + kC * L <= width; d += kC * L) {
      const T* v = values + d * block_keys;
      r = accumulate_rows<V, kR, kC>(0, rows, weights, v, keys, shrink, first, out + d, width);
      r = accumulate_rows<V, 4, kC>(r, rows, weights, v, keys, shrink, first, out + d, width);
      accumulate_rows<V, 1, kC>(r, rows, weights, v, keys, shrink, first, out + d, width);
    }
  };
  panels_of(std::integral_constant<int, C>{});
  if constexpr (C * L > padded_dim<T>(1)) {  // elsewhere every width is made of whole panels
    panels_of(std::integral_constant<int, 3>{});
    panels_of(std::integral_constant<int, 2>{});
    panels_of(std::integral_constant<int, 1>{});
  }
}

/// The same where V holds an Inf or NaN: hidden keys (weight −0, see softmax.h) are left out instead of multiplied by 0,
/// because 0 · NaN is NaN. Rows that see only finite values get the same bits either way.
template <class Isa, class V, class T = typename V::Scalar>
FT_INLINE void accumulate_visible(const T* weights, const T* values, Index block_keys, Index width, int rows, Index begin,
                                  Index end, const T* shrink, bool first, T* out) {
  for (int r = 0; r < rows; ++r)
    for (Index d = 0; d < width; d += V::kLanes) {
      const ValuePanel<Isa, V> panel(width, block_keys, d);
      V sum = V::broadcast(0);
      for (Index j = begin; j < end; ++j) {
        const T p = weights[j * kTileQueries + r];
        if (p == 0 && __builtin_signbit(p)) continue;
        sum = fma(V::broadcast(p), V::load(values + panel.at + j * panel.width), sum);
      }
      T* o = out + r * width + d;
      fma(first ? V::broadcast(0) : V::load(o), V::broadcast(shrink[r]), sum).store(o);
    }
}

}  // namespace
}  // namespace flashtile
