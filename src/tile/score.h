// S = Q Kᵀ for one tile, transposed: queries lie in the lanes, keys in the rows, so that softmax over keys is vertical.
// Each score is one chain: s = +0; for d ascending: s = fma(q[d], k[d], s); then times the row's factor.
#pragma once

#include "tile/scratch.h"

namespace flashtile {
namespace {

/// kQ vectors of queries × G keys in registers.
template <class Isa, class V, int kQ, class T = typename V::Scalar>
FT_NOINLINE void score_registers(const T* q, const T* k, Index head_dim, const T* factor, T* scores) {
  constexpr int G = Geometry<Isa>::kKeys, L = V::kLanes;
  V sum[G][kQ];
  FT_UNROLL for (int r = 0; r < G; ++r) FT_UNROLL for (int c = 0; c < kQ; ++c) sum[r][c] = V::broadcast(0);
  for (const T* end = q + head_dim * kPanelQueries<Isa, V>; q != end; q += kPanelQueries<Isa, V>, k += kPanelKeys<T>) {
    V query[kQ];
    FT_UNROLL for (int c = 0; c < kQ; ++c) query[c] = in_register(V::load(q + c * L));
    FT_UNROLL for (int r = 0; r < G; ++r) {
      const V key = in_register(V::broadcast(k[r]));
      FT_UNROLL for (int c = 0; c < kQ; ++c) sum[r][c] = fma(query[c], key, sum[r][c]);
    }
  }
  FT_UNROLL for (int c = 0; c < kQ; ++c) {
    const V scale = V::load(factor + c * L);
    FT_UNROLL for (int r = 0; r < G; ++r)(sum[r][c] * scale).store(scores + r * kTileQueries + c * L);
  }
}

/// Keys [begin, end) of a block for `vectors` vectors of queries, each for its own keys at least: seen[c] is what the rows
/// of vector c see of the block. Whole groups are computed; scores that no row sees may be left as they were.
template <class Isa, class V, class T = typename V::Scalar>
FT_INLINE void score(const T* queries, const T* keys, Index head_dim, const T* factor, int vectors, const KeyRange* seen,
                     Index begin, Index end, T* scores) {
  constexpr int G = Geometry<Isa>::kKeys, Q = Geometry<Isa>::kQueryVectors, L = V::kLanes;
  for (int panel = 0; panel < vectors; panel += Q)
    for (Index j = begin / G * G; j < end; j += G) {
      const auto unseen = [&](int c) { return seen[c].begin >= j + G || seen[c].end <= j; };
      int c = panel, last = smaller(vectors, panel + Q);
      while (c < last && unseen(c)) ++c;
      while (c < last && unseen(last - 1)) --last;
      const T* q = queries + panel * L * head_dim + (c - panel) * L;
      const T* k = keys + j / kPanelKeys<T> * kPanelKeys<T> * head_dim + j % kPanelKeys<T>;
      T* s = scores + j * kTileQueries + c * L;
      if (last - c == 3) score_registers<Isa, V, 3>(q, k, head_dim, factor + c * L, s);
      if (last - c == 2) score_registers<Isa, V, 2>(q, k, head_dim, factor + c * L, s);
      if (last - c == 1) score_registers<Isa, V, 1>(q, k, head_dim, factor + c * L, s);
    }
}

}  // namespace
}  // namespace flashtile
