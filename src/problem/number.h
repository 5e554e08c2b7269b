// The storage formats: 16-bit floats to and from fp32, exactly and by round to nearest even, in integer arithmetic so
// that no floating-point mode and no instruction set can change a bit.
#pragma once

#include <cstdint>
#include <cstring>

#include "flashtile/tensor.h"
#include "problem/inline.h"

namespace flashtile {

FT_INLINE std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
FT_INLINE float float_of(std::uint32_t b) { return __builtin_bit_cast(float, b); }

FT_INLINE float to_float(bf16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }

FT_INLINE float to_float(f16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13 | (magnitude > 0x7c00u ? 0x400000u : 0u));
  if (magnitude >= 0x0400u) return float_of(sign | ((magnitude << 13) + (112u << 23)));
  // Subnormal: the value is magnitude · 2^−24, exact in fp32.
  const float value = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  return float_of(sign | bits_of(value));
}

FT_INLINE bf16 to_bf16(float x) {
  const std::uint32_t b = bits_of(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((b >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((b + 0x7fffu + ((b >> 16) & 1u)) >> 16)};
}

FT_INLINE f16 to_f16(float x) {
  const std::uint32_t b = bits_of(x);
  const std::uint32_t sign = (b >> 16) & 0x8000u;
  const std::uint32_t magnitude = b & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // ≥ 65520 rounds to infinity
  if (magnitude >= 0x38800000u) {                                                     // ≥ 2^−14: normal
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
  }
  // Subnormal or zero: shift the significand so that one unit is 2^−24, to nearest even.
  const std::uint32_t exponent = magnitude >> 23;
  if (exponent < 102u) return {static_cast<std::uint16_t>(sign)};  // < 2^−25
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t shift = 126u - exponent;  // 14 … 24
  const std::uint32_t kept = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1u);
  const std::uint32_t half = 1u << (shift - 1u);
  const std::uint32_t up = (rest > half || (rest == half && (kept & 1u))) ? 1u : 0u;
  return {static_cast<std::uint16_t>(sign | (kept + up))};
}

FT_INLINE float to_float(float x) { return x; }
FT_INLINE double to_float(double x) { return x; }

/// Element `i` of an array of floating-point numbers or booleans (1 or 0), widened. Slow and general.
inline double element(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f64: return static_cast<const double*>(data)[i];
    case DType::f32: return static_cast<const float*>(data)[i];
    case DType::f16: return to_float(static_cast<const f16*>(data)[i]);
    case DType::bf16: return to_float(static_cast<const bf16*>(data)[i]);
    case DType::boolean: return static_cast<const std::uint8_t*>(data)[i] != 0 ? 1.0 : 0.0;
    case DType::i32: return static_cast<const std::int32_t*>(data)[i];
    case DType::i64: return static_cast<double>(static_cast<const std::int64_t*>(data)[i]);
  }
  return 0;
}

}  // namespace flashtile
