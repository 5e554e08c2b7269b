// The scalar instruction set: one lane. It defines what the vector types of the other headers must do, lane by lane, and
// lists their operations. `max_second(a, b)` is `a > b ? a : b`, as x86 defines it: b when either is a NaN.
#pragma once

#include <cstdint>

#include "problem/number.h"

namespace flashtile {
namespace {

template <class T, class Bits, int kFraction, int kBias>
struct ScalarVector {
  using Scalar = T;
  using Mask = bool;
  static constexpr int kLanes = 1;
  static constexpr bool kScaleKillsNaN = false;
  T v;

  FT_INLINE static ScalarVector load(const T* p) { return {*p}; }
  FT_INLINE static ScalarVector load(const bf16* p) requires(sizeof(T) == 4) { return {to_float(*p)}; }
  FT_INLINE static ScalarVector load(const f16* p) requires(sizeof(T) == 4) { return {to_float(*p)}; }
  FT_INLINE static ScalarVector broadcast(T x) { return {x}; }
  FT_INLINE void store(T* p) const { *p = v; }
  FT_INLINE void store(bf16* p) const requires(sizeof(T) == 4) { *p = to_bf16(v); }
  FT_INLINE void store(f16* p) const requires(sizeof(T) == 4) { *p = to_f16(v); }

  // From here on it lies in a register: compilers would rather load it again in each operation that uses it.
  FT_INLINE friend ScalarVector in_register(ScalarVector a) { return a; }

  FT_INLINE friend ScalarVector operator+(ScalarVector a, ScalarVector b) { return {a.v + b.v}; }
  FT_INLINE friend ScalarVector operator-(ScalarVector a, ScalarVector b) { return {a.v - b.v}; }
  FT_INLINE friend ScalarVector operator*(ScalarVector a, ScalarVector b) { return {a.v * b.v}; }
  FT_INLINE friend ScalarVector operator/(ScalarVector a, ScalarVector b) { return {a.v / b.v}; }
  FT_INLINE friend ScalarVector fma(ScalarVector a, ScalarVector b, ScalarVector c) {
    if constexpr (sizeof(T) == 4) return {__builtin_fmaf(a.v, b.v, c.v)};
    else return {__builtin_fma(a.v, b.v, c.v)};
  }
  FT_INLINE friend ScalarVector max_second(ScalarVector a, ScalarVector b) { return {a.v > b.v ? a.v : b.v}; }
  FT_INLINE friend ScalarVector min_second(ScalarVector a, ScalarVector b) { return {a.v < b.v ? a.v : b.v}; }
  FT_INLINE friend ScalarVector abs(ScalarVector a) {
    return {__builtin_bit_cast(T, static_cast<Bits>(__builtin_bit_cast(Bits, a.v) & ~(Bits{1} << (sizeof(T) * 8 - 1))))};
  }
  // To nearest even: from 2^kFraction on every number is an integer; below, adding 2^kFraction drops the fraction.
  FT_INLINE friend ScalarVector rint(ScalarVector a) {
    constexpr T magic = static_cast<T>(Bits{1} << kFraction);
    constexpr Bits sign = Bits{1} << (sizeof(T) * 8 - 1);
    const T size = abs(a).v;
    if (!(size < magic)) return a;
    const Bits rounded = __builtin_bit_cast(Bits, (size + magic) - magic);
    return {__builtin_bit_cast(T, static_cast<Bits>(rounded | (__builtin_bit_cast(Bits, a.v) & sign)))};
  }
  FT_INLINE friend ScalarVector ceil(ScalarVector a) {
    const T n = rint(a).v;
    return {n < a.v ? n + 1 : n};
  }
  /// a · 2^e for integers e ≤ 0 (or NaN, −inf); +0 from e = −kBias on.
  FT_INLINE friend ScalarVector scale2(ScalarVector a, ScalarVector e) {
    constexpr T magic = static_cast<T>((Bits{3} << (kFraction - 1)) + kBias);
    const T clamped = e.v > T{-kBias} ? e.v : T{-kBias};
    return {a.v * __builtin_bit_cast(T, static_cast<Bits>(__builtin_bit_cast(Bits, clamped + magic) << kFraction))};
  }

  FT_INLINE friend Mask less(ScalarVector a, ScalarVector b) { return a.v < b.v; }
  FT_INLINE friend Mask less_equal(ScalarVector a, ScalarVector b) { return a.v <= b.v; }
  FT_INLINE friend Mask equal(ScalarVector a, ScalarVector b) { return a.v == b.v; }
  FT_INLINE friend ScalarVector select(Mask m, ScalarVector yes, ScalarVector no) { return {m ? yes.v : no.v}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return a && b; }
  FT_INLINE static Mask either(Mask a, Mask b) { return a || b; }
  FT_INLINE static bool any(Mask m) { return m; }
  FT_INLINE static bool all(Mask m) { return m; }

  /// Lanes of a and b alternating: a0 b0 a1 b1 … Its low and its high half; a vector of one lane has no halves.
  FT_INLINE friend ScalarVector zip_low(ScalarVector a, ScalarVector) { return a; }
  FT_INLINE friend ScalarVector zip_high(ScalarVector, ScalarVector b) { return b; }
};

struct Scalar {
  using F32 = ScalarVector<float, std::uint32_t, 23, 127>;
  using F64 = ScalarVector<double, std::uint64_t, 52, 1023>;
  static constexpr int kRegisters = 16;
};

}  // namespace
}  // namespace flashtile
