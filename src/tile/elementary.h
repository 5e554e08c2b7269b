// exp2, ln and tanh for one vector. Each is one fixed sequence of IEEE operations (docs/numerics.md), so that every
// instruction set gives the same bits. No tables, no branches.
#pragma once

#include <cstddef>

#include "problem/inline.h"
#include "problem/polynomials.h"

namespace flashtile {
namespace {

template <class V>
struct Limits;
template <class V>
requires(sizeof(typename V::Scalar) == 4) struct Limits<V> {
  static constexpr float kMax = 0x1.fffffep+127f;
  static constexpr float kEmpty = -0x1p127f;  // the stabiliser of a row that has seen no key
  static constexpr float kInfinity = __builtin_inff();
};
template <class V>
requires(sizeof(typename V::Scalar) == 8) struct Limits<V> {
  static constexpr double kMax = 0x1.fffffffffffffp+1023;
  static constexpr double kEmpty = -0x1p1023;
  static constexpr double kInfinity = __builtin_inf();
};

/// Whether n numbers, a multiple of kLanes, are neither infinite nor NaN.
template <class V, class T = typename V::Scalar>
FT_INLINE bool all_finite(const T* x, std::ptrdiff_t n) {
  const V most = V::broadcast(Limits<V>::kMax);
  auto finite = less_equal(most, most);
  for (std::ptrdiff_t i = 0; i < n; i += V::kLanes) finite = V::both(finite, less_equal(abs(V::load(x + i)), most));
  return V::all(finite);
}

/// c₀ + c₁x + … by Horner's rule.
template <class V, class T, int N>
FT_INLINE V horner(const T (&c)[N], V x) {
  V sum = V::broadcast(c[N - 1]);
  FT_UNROLL for (int i = N - 2; i >= 0; --i) sum = fma(sum, x, V::broadcast(c[i]));
  return sum;
}

/// 2^(t − m) for integers m ≥ t rounded to nearest: 2^f by polynomial, the power of two by exponent. t = −inf gives +0,
/// NaN gives NaN.
template <class V>
FT_INLINE V exp2_shifted(V t, V m) {
  using T = typename V::Scalar;
  // −inf − (−inf) is a NaN, which vscalef turns into 0; elsewhere t starts from the least finite number.
  if constexpr (!V::kScaleKillsNaN) t = max_second(V::broadcast(-Limits<V>::kMax), t);
  const V n = rint(t);
  const V f = t - n;
  const V p = fma(horner(Polynomials<T>::exp2, f), f, V::broadcast(1));
  return scale2(p, n - m);
}

/// tanh x, accurate near 0 and exact ±1 far out.
template <class V>
FT_INLINE V tanh(V x) {
  using T = typename V::Scalar;
  using P = Polynomials<T>;
  const V one = V::broadcast(1), zero = V::broadcast(0);
  const V square = x * x;
  const V small = fma(horner(P::tanh, square) * square, x, x);
  // 1 − 2 / (e^2|x| + 1), as 1 − 2q / (1 + q) with q = e^−2|x| ≤ 1, which cannot overflow.
  const V q = exp2_shifted(abs(x) * V::broadcast(T{-2} * P::kLog2E), zero);
  const V large = one - (q + q) / (one + q);
  const V signed_large = select(less(x, zero), zero - large, large);
  return select(less(abs(x), V::broadcast(P::kTanhSmall)), small, signed_large);
}

}  // namespace
}  // namespace flashtile
