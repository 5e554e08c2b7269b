// The end of a row: the sink joins, O is divided by l, LSE and statistics are written.
#pragma once

#include <type_traits>

#include "isa/scalar.h"
#include "tile/log.h"
#include "tile/logit.h"
#include "tile/pack.h"
#include "tile/softmax.h"

namespace flashtile {
namespace {

template <class T>
using ScalarLane = std::conditional_t<sizeof(T) == 4, Scalar::F32, Scalar::F64>;

/// out ← fma(o · shrink, inverse, +0), converted; `o` is overwritten.
template <class V, class T = typename V::Scalar>
FT_INLINE void write_row(T* o, T shrink, T inverse, Index width, void* out, DType dtype, Index at, Index value_dim) {
  const V s = V::broadcast(shrink), inv = V::broadcast(inverse), zero = V::broadcast(0);
  for (Index d = 0; d < width; d += V::kLanes) fma(V::load(o + d) * s, inv, zero).store(o + d);
  with_storage<T>(dtype, [&](auto* type) {
    using Stored = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    Stored* to = static_cast<Stored*>(out) + at;
    Index d = 0;
    for (; d + V::kLanes <= value_dim; d += V::kLanes) V::load(o + d).store(to + d);
    for (; d < value_dim; ++d) ScalarLane<T>::load(o + d).store(to + d);
  });
}

/// What is left of a row's state after the sink has joined.
template <class T>
struct FinalRow {
  T max, sum;          // m and l, the sink included
  T keys_sum;          // l of the keys alone, relative to max
  T shrink;            // 2^(old m − m)
  T inverse;           // 1/l, 0 when no key and no sink is visible
};

template <class T>
FT_INLINE FinalRow<T> join_sink(T max, T sum, T shift, bool has_sink, T sink) {
  using S = ScalarLane<T>;
  FinalRow<T> f{max, sum, sum, T{1}, T{0}};
  if (has_sink) {
    const S t = S::broadcast(sink * Polynomials<T>::kLog2E);
    const S m = max_second(ceil(t), S::broadcast(max));
    f.max = m.v;
    f.shrink = exp2_shifted(S::broadcast(max), m).v;
    f.keys_sum = sum * f.shrink;
    f.sum = fma(S::broadcast(sum), S::broadcast(f.shrink), exp2_shifted(t, m + S::broadcast(shift))).v;
  }
  if (f.sum != 0) f.inverse = T{1} / f.sum;  // NaN too
  return f;
}

/// One row's LSE and statistics. `state` is the row's.
template <class T>
FT_INLINE void write_statistics(const Problem& p, const Tensors& t, Index b, Index row, Index h, const FinalRow<T>& f,
                                T shift, RowStates<T> state) {
  using S = ScalarLane<T>;
  constexpr T kLn2 = T(0.69314718055994530942);
  const auto put = [&](const Axes& axes, void* data, T x) {
    if (axes.present) static_cast<T*>(data)[axes.at(b, row, h)] = x;
  };
  if (p.lse.present) put(p.lse, t.lse, f.sum == 0 ? -T(__builtin_inf()) : log_scaled(f.sum, f.max + shift));
  if (state.top == nullptr) return;
  const T nan = f.sum - f.sum;  // 0, or NaN in a row that has seen one
  const T count = *state.count;
  if (count == 0) {
    put(p.largest_weight, t.largest_weight, nan), put(p.entropy, t.entropy, nan);
    put(p.logit_mean, t.logit_mean, nan), put(p.logit_deviation, t.logit_deviation, nan);
    return;
  }
  const S m = S::broadcast(f.max + shift);
  put(p.largest_weight, t.largest_weight, exp2_shifted(S::broadcast(*state.top), m).v * f.inverse + nan);
  // H = −Σ w ln w with w = 2^(t − m)/l  ⇒  H = ln l · Σw − ln 2 · Σ w (t − m)
  const T rise = *state.max - f.max > kFarBelow ? *state.max - f.max : T{kFarBelow};
  const T moment = fused(rise, *state.sum, *state.moment) * f.shrink;
  const T share = f.keys_sum * f.inverse;
  put(p.entropy, t.entropy, fused(log_scaled(f.sum, shift), share, -kLn2 * (moment * f.inverse)) + nan);
  put(p.logit_mean, t.logit_mean, *state.mean * kLn2 + nan);
  const T deviation =
      sizeof(T) == 4 ? T(__builtin_sqrtf(float(*state.square / count))) : T(__builtin_sqrt(*state.square / count));
  put(p.logit_deviation, t.logit_deviation, deviation * kLn2 + nan);
}

}  // namespace
}  // namespace flashtile
