// NEON on AArch64: 4 × fp32, 2 × fp64, 32 registers.
#pragma once

#include <arm_neon.h>

#include "problem/number.h"

namespace flashtile {
namespace {

struct NeonF32 {
  using Scalar = float;
  using Mask = uint32x4_t;
  static constexpr int kLanes = 4;
  static constexpr bool kScaleKillsNaN = false;
  float32x4_t v;

  FT_INLINE static NeonF32 load(const float* p) { return {vld1q_f32(p)}; }
  FT_INLINE static NeonF32 load(const bf16* p) {
    return {vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))), 16))};
  }
  FT_INLINE static NeonF32 load(const f16* p) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))))};
  }
  FT_INLINE static NeonF32 broadcast(float x) { return {vdupq_n_f32(x)}; }
  FT_INLINE void store(float* p) const { vst1q_f32(p, v); }
  FT_INLINE void store(bf16* p) const {  // to nearest even; a NaN stays one, whatever is cut off
    const uint32x4_t bits = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t kept = vbslq_u32(vceqq_f32(v, v), up, vorrq_u32(bits, vdupq_n_u32(0x400000)));
    vst1_u16(reinterpret_cast<std::uint16_t*>(p), vshrn_n_u32(kept, 16));
  }
  FT_INLINE void store(f16* p) const {
    vst1_u16(reinterpret_cast<std::uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }

  FT_INLINE friend NeonF32 in_register(NeonF32 a) {
    asm("" : "+w"(a.v));
    return a;
  }

  FT_INLINE friend NeonF32 operator+(NeonF32 a, NeonF32 b) { return {vaddq_f32(a.v, b.v)}; }
  FT_INLINE friend NeonF32 operator-(NeonF32 a, NeonF32 b) { return {vsubq_f32(a.v, b.v)}; }
  FT_INLINE friend NeonF32 operator*(NeonF32 a, NeonF32 b) { return {vmulq_f32(a.v, b.v)}; }
  FT_INLINE friend NeonF32 operator/(NeonF32 a, NeonF32 b) { return {vdivq_f32(a.v, b.v)}; }
  FT_INLINE friend NeonF32 fma(NeonF32 a, NeonF32 b, NeonF32 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
  // vmaxq would return the NaN; x86's rule, b when unordered, is the rule of the family.
  FT_INLINE friend NeonF32 max_second(NeonF32 a, NeonF32 b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
  FT_INLINE friend NeonF32 min_second(NeonF32 a, NeonF32 b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
  FT_INLINE friend NeonF32 abs(NeonF32 a) { return {vabsq_f32(a.v)}; }
  FT_INLINE friend NeonF32 rint(NeonF32 a) { return {vrndnq_f32(a.v)}; }
  FT_INLINE friend NeonF32 ceil(NeonF32 a) { return {vrndpq_f32(a.v)}; }
  FT_INLINE friend NeonF32 scale2(NeonF32 a, NeonF32 e) {
    const NeonF32 clamped = max_second(e, broadcast(-127.0f));
    const float32x4_t shifted = vaddq_f32(clamped.v, vdupq_n_f32(0x1.8p23f + 127.0f));
    return {vmulq_f32(a.v, vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23)))};
  }

  FT_INLINE friend Mask less(NeonF32 a, NeonF32 b) { return vcltq_f32(a.v, b.v); }
  FT_INLINE friend Mask less_equal(NeonF32 a, NeonF32 b) { return vcleq_f32(a.v, b.v); }
  FT_INLINE friend Mask equal(NeonF32 a, NeonF32 b) { return vceqq_f32(a.v, b.v); }
  FT_INLINE friend NeonF32 select(Mask m, NeonF32 yes, NeonF32 no) { return {vbslq_f32(m, yes.v, no.v)}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return vandq_u32(a, b); }
  FT_INLINE static Mask either(Mask a, Mask b) { return vorrq_u32(a, b); }
  FT_INLINE static bool any(Mask m) { return vmaxvq_u32(m) != 0; }
  FT_INLINE static bool all(Mask m) { return vminvq_u32(m) != 0; }

  FT_INLINE friend NeonF32 zip_low(NeonF32 a, NeonF32 b) { return {vzip1q_f32(a.v, b.v)}; }
  FT_INLINE friend NeonF32 zip_high(NeonF32 a, NeonF32 b) { return {vzip2q_f32(a.v, b.v)}; }
};

struct NeonF64 {
  using Scalar = double;
  using Mask = uint64x2_t;
  static constexpr int kLanes = 2;
  static constexpr bool kScaleKillsNaN = false;
  float64x2_t v;

  FT_INLINE static NeonF64 load(const double* p) { return {vld1q_f64(p)}; }
  FT_INLINE static NeonF64 broadcast(double x) { return {vdupq_n_f64(x)}; }
  FT_INLINE void store(double* p) const { vst1q_f64(p, v); }

  FT_INLINE friend NeonF64 in_register(NeonF64 a) {
    asm("" : "+w"(a.v));
    return a;
  }

  FT_INLINE friend NeonF64 operator+(NeonF64 a, NeonF64 b) { return {vaddq_f64(a.v, b.v)}; }
  FT_INLINE friend NeonF64 operator-(NeonF64 a, NeonF64 b) { return {vsubq_f64(a.v, b.v)}; }
  FT_INLINE friend NeonF64 operator*(NeonF64 a, NeonF64 b) { return {vmulq_f64(a.v, b.v)}; }
  FT_INLINE friend NeonF64 operator/(NeonF64 a, NeonF64 b) { return {vdivq_f64(a.v, b.v)}; }
  FT_INLINE friend NeonF64 fma(NeonF64 a, NeonF64 b, NeonF64 c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
  // vmaxq would return the NaN; x86's rule, b when unordered, is the rule of the family.
  FT_INLINE friend NeonF64 max_second(NeonF64 a, NeonF64 b) { return {vbslq_f64(vcgtq_f64(a.v, b.v), a.v, b.v)}; }
  FT_INLINE friend NeonF64 min_second(NeonF64 a, NeonF64 b) { return {vbslq_f64(vcltq_f64(a.v, b.v), a.v, b.v)}; }
  FT_INLINE friend NeonF64 abs(NeonF64 a) { return {vabsq_f64(a.v)}; }
  FT_INLINE friend NeonF64 rint(NeonF64 a) { return {vrndnq_f64(a.v)}; }
  FT_INLINE friend NeonF64 ceil(NeonF64 a) { return {vrndpq_f64(a.v)}; }
  FT_INLINE friend NeonF64 scale2(NeonF64 a, NeonF64 e) {
    const NeonF64 clamped = max_second(e, broadcast(-1023.0));
    const float64x2_t shifted = vaddq_f64(clamped.v, vdupq_n_f64(0x1.8p52 + 1023.0));
    return {vmulq_f64(a.v, vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(shifted), 52)))};
  }

  FT_INLINE friend Mask less(NeonF64 a, NeonF64 b) { return vcltq_f64(a.v, b.v); }
  FT_INLINE friend Mask less_equal(NeonF64 a, NeonF64 b) { return vcleq_f64(a.v, b.v); }
  FT_INLINE friend Mask equal(NeonF64 a, NeonF64 b) { return vceqq_f64(a.v, b.v); }
  FT_INLINE friend NeonF64 select(Mask m, NeonF64 yes, NeonF64 no) { return {vbslq_f64(m, yes.v, no.v)}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return vandq_u64(a, b); }
  FT_INLINE static Mask either(Mask a, Mask b) { return vorrq_u64(a, b); }
  FT_INLINE static bool any(Mask m) { return vmaxvq_u32(vreinterpretq_u32_u64(m)) != 0; }
  FT_INLINE static bool all(Mask m) { return vminvq_u32(vreinterpretq_u32_u64(m)) != 0; }

  FT_INLINE friend NeonF64 zip_low(NeonF64 a, NeonF64 b) { return {vzip1q_f64(a.v, b.v)}; }
  FT_INLINE friend NeonF64 zip_high(NeonF64 a, NeonF64 b) { return {vzip2q_f64(a.v, b.v)}; }
};

struct Neon {
  using F32 = NeonF32;
  using F64 = NeonF64;
  static constexpr int kRegisters = 32;
};

}  // namespace
}  // namespace flashtile
