// The online softmax of a row (Milakov & Gimelshein 2018; Dao et al. 2022) in base 2 with an integer stabiliser:
//
//   max     m, an integer ≥ every logit t seen (t in base 2: natural logit · log2 e); −2^127 before the first key
//   sum     l = Σ 2^(t − m)
//   out     o = Σ 2^(t − m) v
//
// so that rescaling to another m is exact. For statistics: top = max t, moment = Σ 2^(t − m)(t − m), and count, mean
// and sum of squared deviations of the visible t (merged as Chan, Golub, LeVeque 1979). A hidden key has t = −inf:
// weight +0. `shift` (0, or kOverflowShift for a row that is done again because out overflowed) makes every weight
// 2^−shift smaller.
#pragma once

#include <type_traits>

#include "tile/elementary.h"
#include "tile/scratch.h"

namespace flashtile {
namespace {

/// No row has 2^32 keys, so with weights of at most 2^−32 the sum of weighted values stays below the largest value.
inline constexpr int kOverflowShift = 32;

template <class V, class T = typename V::Scalar>
FT_INLINE void start(RowStates<T> s, int rows_padded) {
  for (int r = 0; r < rows_padded; ++r) {
    s.max[r] = Limits<V>::kEmpty, s.sum[r] = 0;
    if (s.rounded != nullptr) s.rounded[r] = 0;
    if (s.top != nullptr) s.top[r] = -Limits<V>::kInfinity, s.moment[r] = s.count[r] = s.mean[r] = s.square[r] = 0;
  }
}

/// Distances to the stabiliser beyond this belong to weights that are 0 in any format; it keeps 0 · ∞ from arising.
inline constexpr int kFarBelow = -4096;

/// Logits as mean and deviation see them: what lies beyond ±2^45 (fp64: ±2^450) counts as that, so that sums of squares
/// over 2^31 keys stay finite when masks add finfo.min. Hidden keys count as 0 and not at all.
template <class V>
FT_INLINE V bounded_logit(V t) {
  const V most = V::broadcast(sizeof(typename V::Scalar) == 4 ? 0x1p45 : 0x1p450);
  return max_second(V::broadcast(0) - most, min_second(most, t));
}

/// Statistics of two disjoint sets of keys into the first: count, mean, squared deviations.
template <class V>
FT_INLINE void merge_moments(V& count, V& mean, V& square, V other_count, V other_mean, V other_square) {
  const V one = V::broadcast(1);
  const V all = count + other_count;
  const V delta = other_mean - mean;
  const V share = other_count / max_second(one, all);
  mean = fma(delta, share, mean);
  square = square + fma(delta * delta, count * share, other_square);
  count = all;
}

/// N vectors of queries: S → P in place for keys [begin, end) of a block, state updated, shrink = 2^(old m − new m).
/// kMark: weights of hidden keys become −0, which adds nothing and can be told from a weight that is merely 0.
template <class V, int N, bool kStatistics, bool kMark, class T = typename V::Scalar>
FT_INLINE void softmax_registers(T* scores, Index begin, Index end, RowStates<T> state, const T* shift, T* shrink) {
  constexpr int L = V::kLanes;
  const V hidden = V::broadcast(-Limits<V>::kInfinity), zero = V::broadcast(0);
  V top[N], old_max[N], stabiliser[N], sum[N], moment[N];
  FT_UNROLL for (int c = 0; c < N; ++c) top[c] = hidden;
  for (Index j = begin; j < end; ++j)
    FT_UNROLL for (int c = 0; c < N; ++c) top[c] = max_second(V::load(scores + j * kTileQueries + c * L), top[c]);
  FT_UNROLL for (int c = 0; c < N; ++c) {
    old_max[c] = V::load(state.max + c * L);
    const V max = max_second(ceil(top[c]), old_max[c]);
    max.store(state.max + c * L);
    exp2_shifted(old_max[c], max).store(shrink + c * L);
    stabiliser[c] = max + V::load(shift + c * L);
    sum[c] = moment[c] = zero;
  }

  V count[N], mean[N], square[N];
  if constexpr (kStatistics) {
    FT_UNROLL for (int c = 0; c < N; ++c) count[c] = mean[c] = square[c] = zero;
    for (Index j = begin; j < end; ++j) FT_UNROLL for (int c = 0; c < N; ++c) {
        const V t = V::load(scores + j * kTileQueries + c * L);
        const auto is_hidden = equal(t, hidden);
        count[c] = count[c] + select(is_hidden, zero, V::broadcast(1));
        mean[c] = mean[c] + select(is_hidden, zero, bounded_logit(t));
      }
    FT_UNROLL for (int c = 0; c < N; ++c) mean[c] = mean[c] / max_second(V::broadcast(1), count[c]);
  }

  for (Index j = begin; j < end; ++j) FT_UNROLL for (int c = 0; c < N; ++c) {
      T* at = scores + j * kTileQueries + c * L;
      const V t = V::load(at);
      V p = exp2_shifted(t, stabiliser[c]);
      sum[c] = sum[c] + p;
      if constexpr (kStatistics) {
        moment[c] = fma(p, max_second(t - V::load(state.max + c * L), V::broadcast(kFarBelow)), moment[c]);
        const V deviation = select(equal(t, hidden), zero, bounded_logit(t) - mean[c]);
        square[c] = fma(deviation, deviation, square[c]);
      }
      if constexpr (kMark) p = select(equal(t, hidden), V::broadcast(T{-0.0}), p);
      p.store(at);
    }

  FT_UNROLL for (int c = 0; c < N; ++c) {
    const V s = V::load(shrink + c * L), old_sum = V::load(state.sum + c * L);
    fma(old_sum, s, sum[c]).store(state.sum + c * L);
    if constexpr (kStatistics) {
      max_second(top[c], V::load(state.top + c * L)).store(state.top + c * L);
      const V rise = max_second(old_max[c] - V::load(state.max + c * L), V::broadcast(kFarBelow));
      const V moved = fma(rise, old_sum, V::load(state.moment + c * L));
      fma(moved, s, moment[c]).store(state.moment + c * L);
      V all = V::load(state.count + c * L), average = V::load(state.mean + c * L), squares = V::load(state.square + c * L);
      merge_moments(all, average, squares, count[c], mean[c], square[c]);
      all.store(state.count + c * L), average.store(state.mean + c * L), squares.store(state.square + c * L);
    }
  }
}

template <class V, bool kStatistics, bool kMark, class T = typename V::Scalar>
FT_INLINE void softmax_tile(T* scores, int vectors, Index begin, Index end, RowStates<T> state, const T* shift, T* shrink) {
  constexpr int L = V::kLanes;
  int c = 0;
  const auto step = [&](auto n) {
    RowStates<T> s = state.from(c * L, 0);
    softmax_registers<V, decltype(n)::value, kStatistics, kMark>(scores + c * L, begin, end, s, shift + c * L,
                                                                 shrink + c * L);
    c += decltype(n)::value;
  };
  while (vectors - c >= 3) step(std::integral_constant<int, 3>{});
  while (vectors - c >= 1) step(std::integral_constant<int, 1>{});
}

/// S → P for keys [begin, end) of a block.
template <class V, class T = typename V::Scalar>
FT_INLINE void softmax(T* scores, int vectors, Index begin, Index end, bool mark, RowStates<T> state, const T* shift,
                       T* shrink) {
  if (state.top != nullptr) {
    if (mark) softmax_tile<V, true, true>(scores, vectors, begin, end, state, shift, shrink);
    else softmax_tile<V, true, false>(scores, vectors, begin, end, state, shift, shrink);
  } else {
    if (mark) softmax_tile<V, false, true>(scores, vectors, begin, end, state, shift, shrink);
    else softmax_tile<V, false, false>(scores, vectors, begin, end, state, shift, shrink);
  }
}

}  // namespace
}  // namespace flashtile
