// ln(2^e · l) for one number: the LSE of a row. Scalar, once per row.
#pragma once

#include <cstdint>
#include <type_traits>

#include "problem/inline.h"
#include "problem/polynomials.h"

namespace flashtile {
namespace {

FT_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FT_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

/// (e + exponent)·ln 2 + ln g with l = 2^exponent · g, √½ ≤ g < √2, for normal l > 0 and an integer e; its error is
/// that of one rounding of the sum. NaN and +inf pass through.
template <class T>
FT_INLINE T log_scaled(T l, T e) {
  using P = Polynomials<T>;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr int kFraction = sizeof(T) == 4 ? 23 : 52;
  constexpr Bits kOne = __builtin_bit_cast(Bits, T{1}), kInfinity = __builtin_bit_cast(Bits, T(__builtin_inf()));
  constexpr Bits kSqrtHalf = __builtin_bit_cast(Bits, T(0.70710678118654752440));
  const Bits bits = __builtin_bit_cast(Bits, l);
  if (bits >= kInfinity) return l + e;
  const Bits shifted = bits - kSqrtHalf + kOne;  // exponent field counts from √½
  const T exponent =
      static_cast<T>(static_cast<std::int64_t>(shifted >> kFraction) - static_cast<std::int64_t>(kOne >> kFraction));
  const T g = __builtin_bit_cast(T, static_cast<Bits>((shifted & ((Bits{1} << kFraction) - 1)) + kSqrtHalf));

  const T s = (g - 1) / (g + 1), z = s * s;
  constexpr int kTerms = sizeof(P::log) / sizeof(T);
  T p = P::log[kTerms - 1];
  for (int i = kTerms - 2; i >= 0; --i) p = fused(p, z, P::log[i]);
  const T log_g = fused(p * z, s, s + s);
  const T n = e + exponent;
  return fused(n, P::kLn2High, fused(n, P::kLn2Low, log_g));
}

}  // namespace
}  // namespace flashtile
