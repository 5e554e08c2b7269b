// AVX-512 (F, BW, DQ, VL): 16 × fp32, 8 × fp64, 32 registers, masks in registers of their own.
#pragma once

#include <immintrin.h>

#include "problem/number.h"

namespace flashtile {
namespace {

struct Avx512F32 {
  using Scalar = float;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  static constexpr bool kScaleKillsNaN = true;  // vscalef(NaN, −inf) = +0
  __m512 v;

  FT_INLINE static Avx512F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  FT_INLINE static Avx512F32 load(const bf16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  FT_INLINE static Avx512F32 load(const f16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  FT_INLINE static Avx512F32 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  FT_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  FT_INLINE void store(bf16* p) const {  // to nearest even; a NaN stays one, whatever is cut off
    const __m512i bits = _mm512_castps_si512(v), one = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), one);
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_epi32(bits, _mm512_set1_epi32(0x400000));
    const __m512i kept = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), up, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
  }
  FT_INLINE void store(f16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  FT_INLINE friend Avx512F32 in_register(Avx512F32 a) {
    asm("" : "+v"(a.v));
    return a;
  }

  FT_INLINE friend Avx512F32 operator+(Avx512F32 a, Avx512F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
  FT_INLINE friend Avx512F32 operator-(Avx512F32 a, Avx512F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  FT_INLINE friend Avx512F32 operator*(Avx512F32 a, Avx512F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  FT_INLINE friend Avx512F32 operator/(Avx512F32 a, Avx512F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
  FT_INLINE friend Avx512F32 fma(Avx512F32 a, Avx512F32 b, Avx512F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  FT_INLINE friend Avx512F32 max_second(Avx512F32 a, Avx512F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
  FT_INLINE friend Avx512F32 min_second(Avx512F32 a, Avx512F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
  FT_INLINE friend Avx512F32 abs(Avx512F32 a) { return {_mm512_abs_ps(a.v)}; }
  FT_INLINE friend Avx512F32 rint(Avx512F32 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  FT_INLINE friend Avx512F32 ceil(Avx512F32 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
  }
  FT_INLINE friend Avx512F32 scale2(Avx512F32 a, Avx512F32 e) { return {_mm512_scalef_ps(a.v, e.v)}; }

  FT_INLINE friend Mask less(Avx512F32 a, Avx512F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  FT_INLINE friend Mask less_equal(Avx512F32 a, Avx512F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ); }
  FT_INLINE friend Mask equal(Avx512F32 a, Avx512F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
  FT_INLINE friend Avx512F32 select(Mask m, Avx512F32 yes, Avx512F32 no) { return {_mm512_mask_blend_ps(m, no.v, yes.v)}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  FT_INLINE static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
  FT_INLINE static bool any(Mask m) { return m != 0; }
  FT_INLINE static bool all(Mask m) { return m == 0xffff; }

  FT_INLINE friend Avx512F32 zip_low(Avx512F32 a, Avx512F32 b) {
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return {_mm512_permutex2var_ps(a.v, order, b.v)};
  }
  FT_INLINE friend Avx512F32 zip_high(Avx512F32 a, Avx512F32 b) {
    const __m512i order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return {_mm512_permutex2var_ps(a.v, order, b.v)};
  }
};

struct Avx512F64 {
  using Scalar = double;
  using Mask = __mmask8;
  static constexpr int kLanes = 8;
  static constexpr bool kScaleKillsNaN = true;  // vscalef(NaN, −inf) = +0
  __m512d v;

  FT_INLINE static Avx512F64 load(const double* p) { return {_mm512_loadu_pd(p)}; }
  FT_INLINE static Avx512F64 broadcast(double x) { return {_mm512_set1_pd(x)}; }
  FT_INLINE void store(double* p) const { _mm512_storeu_pd(p, v); }

  FT_INLINE friend Avx512F64 in_register(Avx512F64 a) {
    asm("" : "+v"(a.v));
    return a;
  }

  FT_INLINE friend Avx512F64 operator+(Avx512F64 a, Avx512F64 b) { return {_mm512_add_pd(a.v, b.v)}; }
  FT_INLINE friend Avx512F64 operator-(Avx512F64 a, Avx512F64 b) { return {_mm512_sub_pd(a.v, b.v)}; }
  FT_INLINE friend Avx512F64 operator*(Avx512F64 a, Avx512F64 b) { return {_mm512_mul_pd(a.v, b.v)}; }
  FT_INLINE friend Avx512F64 operator/(Avx512F64 a, Avx512F64 b) { return {_mm512_div_pd(a.v, b.v)}; }
  FT_INLINE friend Avx512F64 fma(Avx512F64 a, Avx512F64 b, Avx512F64 c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
  FT_INLINE friend Avx512F64 max_second(Avx512F64 a, Avx512F64 b) { return {_mm512_max_pd(a.v, b.v)}; }
  FT_INLINE friend Avx512F64 min_second(Avx512F64 a, Avx512F64 b) { return {_mm512_min_pd(a.v, b.v)}; }
  FT_INLINE friend Avx512F64 abs(Avx512F64 a) { return {_mm512_abs_pd(a.v)}; }
  FT_INLINE friend Avx512F64 rint(Avx512F64 a) {
    return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  FT_INLINE friend Avx512F64 ceil(Avx512F64 a) {
    return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
  }
  FT_INLINE friend Avx512F64 scale2(Avx512F64 a, Avx512F64 e) { return {_mm512_scalef_pd(a.v, e.v)}; }

  FT_INLINE friend Mask less(Avx512F64 a, Avx512F64 b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ); }
  FT_INLINE friend Mask less_equal(Avx512F64 a, Avx512F64 b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_LE_OQ); }
  FT_INLINE friend Mask equal(Avx512F64 a, Avx512F64 b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ); }
  FT_INLINE friend Avx512F64 select(Mask m, Avx512F64 yes, Avx512F64 no) { return {_mm512_mask_blend_pd(m, no.v, yes.v)}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  FT_INLINE static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
  FT_INLINE static bool any(Mask m) { return m != 0; }
  FT_INLINE static bool all(Mask m) { return m == 0xff; }

  FT_INLINE friend Avx512F64 zip_low(Avx512F64 a, Avx512F64 b) {
    return {_mm512_permutex2var_pd(a.v, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b.v)};
  }
  FT_INLINE friend Avx512F64 zip_high(Avx512F64 a, Avx512F64 b) {
    return {_mm512_permutex2var_pd(a.v, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b.v)};
  }
};

struct Avx512 {
  using F32 = Avx512F32;
  using F64 = Avx512F64;
  static constexpr int kRegisters = 32;
};

}  // namespace
}  // namespace flashtile
