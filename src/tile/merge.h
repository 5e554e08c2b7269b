// RowState ⊕ RowState: two disjoint sets of keys of the same rows. Both are brought to the larger stabiliser, exactly;
// commutative, but sums round, so the caller keeps the order: chunks ascending.
#pragma once

#include "tile/softmax.h"

namespace flashtile {
namespace {

/// total ← total ⊕ other for `rows` rows (arrays padded to whole vectors). `fresh`: total is empty, and its O unwritten.
template <class V, class T = typename V::Scalar>
FT_INLINE void merge(RowStates<T> total, bool fresh, RowStates<T> other, int rows, Index width) {
  constexpr int L = V::kLanes;
  T shrink_total[kTileQueries], shrink_other[kTileQueries];
  for (int r = 0; r < rows; r += L) {
    const V a = V::load(total.max + r), b = V::load(other.max + r);
    const V max = max_second(b, a);
    const V sa = exp2_shifted(a, max), sb = exp2_shifted(b, max);
    sa.store(shrink_total + r), sb.store(shrink_other + r), max.store(total.max + r);
    const V sum_a = V::load(total.sum + r), sum_b = V::load(other.sum + r);
    fma(sum_a, sa, sum_b * sb).store(total.sum + r);
    if (total.rounded != nullptr)
      fma(V::load(total.rounded + r), sa, V::load(other.rounded + r) * sb).store(total.rounded + r);
    if (total.top == nullptr) continue;
    max_second(V::load(other.top + r), V::load(total.top + r)).store(total.top + r);
    const V far = V::broadcast(kFarBelow);
    const V moment_a = fma(max_second(a - max, far), sum_a, V::load(total.moment + r));
    const V moment_b = fma(max_second(b - max, far), sum_b, V::load(other.moment + r));
    fma(moment_a, sa, moment_b * sb).store(total.moment + r);
    V count = V::load(total.count + r), mean = V::load(total.mean + r), square = V::load(total.square + r);
    merge_moments(count, mean, square, V::load(other.count + r), V::load(other.mean + r), V::load(other.square + r));
    count.store(total.count + r), mean.store(total.mean + r), square.store(total.square + r);
  }
  for (int r = 0; r < rows; ++r) {
    const V sa = V::broadcast(shrink_total[r]), sb = V::broadcast(shrink_other[r]);
    T *a = total.out + r * width, *b = other.out + r * width;
    for (Index d = 0; d < width; d += L) fma(fresh ? V::broadcast(0) : V::load(a + d), sa, V::load(b + d) * sb).store(a + d);
  }
}

}  // namespace
}  // namespace flashtile
