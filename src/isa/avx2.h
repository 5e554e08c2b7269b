// AVX2 with FMA and F16C: 8 × fp32, 4 × fp64, 16 registers.
#pragma once

#include <immintrin.h>

#include "problem/number.h"

namespace flashtile {
namespace {

struct Avx2F32 {
  using Scalar = float;
  using Mask = __m256;
  static constexpr int kLanes = 8;
  static constexpr bool kScaleKillsNaN = false;
  __m256 v;

  FT_INLINE static Avx2F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  FT_INLINE static Avx2F32 load(const bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  FT_INLINE static Avx2F32 load(const f16* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  FT_INLINE static Avx2F32 broadcast(float x) { return {_mm256_set1_ps(x)}; }
  FT_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  FT_INLINE void store(bf16* p) const {  // to nearest even; a NaN stays one, whatever is cut off
    const __m256i bits = _mm256_castps_si256(v), one = _mm256_set1_epi32(1);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, is_nan), 16);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1)));
  }
  FT_INLINE void store(f16* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  FT_INLINE friend Avx2F32 in_register(Avx2F32 a) {
    asm("" : "+x"(a.v));
    return a;
  }

  FT_INLINE friend Avx2F32 operator+(Avx2F32 a, Avx2F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
  FT_INLINE friend Avx2F32 operator-(Avx2F32 a, Avx2F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  FT_INLINE friend Avx2F32 operator*(Avx2F32 a, Avx2F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  FT_INLINE friend Avx2F32 operator/(Avx2F32 a, Avx2F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
  FT_INLINE friend Avx2F32 fma(Avx2F32 a, Avx2F32 b, Avx2F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  FT_INLINE friend Avx2F32 max_second(Avx2F32 a, Avx2F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
  FT_INLINE friend Avx2F32 min_second(Avx2F32 a, Avx2F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
  FT_INLINE friend Avx2F32 abs(Avx2F32 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  FT_INLINE friend Avx2F32 rint(Avx2F32 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  FT_INLINE friend Avx2F32 ceil(Avx2F32 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  FT_INLINE friend Avx2F32 scale2(Avx2F32 a, Avx2F32 e) {
    const __m256 clamped = _mm256_max_ps(e.v, _mm256_set1_ps(-127.0f));
    const __m256i exponent = _mm256_castps_si256(_mm256_add_ps(clamped, _mm256_set1_ps(0x1.8p23f + 127.0f)));
    return {_mm256_mul_ps(a.v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)))};
  }

  FT_INLINE friend Mask less(Avx2F32 a, Avx2F32 b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
  FT_INLINE friend Mask less_equal(Avx2F32 a, Avx2F32 b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ); }
  FT_INLINE friend Mask equal(Avx2F32 a, Avx2F32 b) { return _mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ); }
  FT_INLINE friend Avx2F32 select(Mask m, Avx2F32 yes, Avx2F32 no) { return {_mm256_blendv_ps(no.v, yes.v, m)}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
  FT_INLINE static Mask either(Mask a, Mask b) { return _mm256_or_ps(a, b); }
  FT_INLINE static bool any(Mask m) { return _mm256_movemask_ps(m) != 0; }
  FT_INLINE static bool all(Mask m) { return _mm256_movemask_ps(m) == 0xff; }

  // unpack zips within halves of a register; the halves then change places.
  FT_INLINE friend Avx2F32 zip_low(Avx2F32 a, Avx2F32 b) {
    return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), 0x20)};
  }
  FT_INLINE friend Avx2F32 zip_high(Avx2F32 a, Avx2F32 b) {
    return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), 0x31)};
  }
};

struct Avx2F64 {
  using Scalar = double;
  using Mask = __m256d;
  static constexpr int kLanes = 4;
  static constexpr bool kScaleKillsNaN = false;
  __m256d v;

  FT_INLINE static Avx2F64 load(const double* p) { return {_mm256_loadu_pd(p)}; }
  FT_INLINE static Avx2F64 broadcast(double x) { return {_mm256_set1_pd(x)}; }
  FT_INLINE void store(double* p) const { _mm256_storeu_pd(p, v); }

  FT_INLINE friend Avx2F64 in_register(Avx2F64 a) {
    asm("" : "+x"(a.v));
    return a;
  }

  FT_INLINE friend Avx2F64 operator+(Avx2F64 a, Avx2F64 b) { return {_mm256_add_pd(a.v, b.v)}; }
  FT_INLINE friend Avx2F64 operator-(Avx2F64 a, Avx2F64 b) { return {_mm256_sub_pd(a.v, b.v)}; }
  FT_INLINE friend Avx2F64 operator*(Avx2F64 a, Avx2F64 b) { return {_mm256_mul_pd(a.v, b.v)}; }
  FT_INLINE friend Avx2F64 operator/(Avx2F64 a, Avx2F64 b) { return {_mm256_div_pd(a.v, b.v)}; }
  FT_INLINE friend Avx2F64 fma(Avx2F64 a, Avx2F64 b, Avx2F64 c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
  FT_INLINE friend Avx2F64 max_second(Avx2F64 a, Avx2F64 b) { return {_mm256_max_pd(a.v, b.v)}; }
  FT_INLINE friend Avx2F64 min_second(Avx2F64 a, Avx2F64 b) { return {_mm256_min_pd(a.v, b.v)}; }
  FT_INLINE friend Avx2F64 abs(Avx2F64 a) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v)}; }
  FT_INLINE friend Avx2F64 rint(Avx2F64 a) { return {_mm256_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  FT_INLINE friend Avx2F64 ceil(Avx2F64 a) { return {_mm256_round_pd(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  FT_INLINE friend Avx2F64 scale2(Avx2F64 a, Avx2F64 e) {
    const __m256d clamped = _mm256_max_pd(e.v, _mm256_set1_pd(-1023.0));
    const __m256i exponent = _mm256_castpd_si256(_mm256_add_pd(clamped, _mm256_set1_pd(0x1.8p52 + 1023.0)));
    return {_mm256_mul_pd(a.v, _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52)))};
  }

  FT_INLINE friend Mask less(Avx2F64 a, Avx2F64 b) { return _mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ); }
  FT_INLINE friend Mask less_equal(Avx2F64 a, Avx2F64 b) { return _mm256_cmp_pd(a.v, b.v, _CMP_LE_OQ); }
  FT_INLINE friend Mask equal(Avx2F64 a, Avx2F64 b) { return _mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ); }
  FT_INLINE friend Avx2F64 select(Mask m, Avx2F64 yes, Avx2F64 no) { return {_mm256_blendv_pd(no.v, yes.v, m)}; }
  FT_INLINE static Mask both(Mask a, Mask b) { return _mm256_and_pd(a, b); }
  FT_INLINE static Mask either(Mask a, Mask b) { return _mm256_or_pd(a, b); }
  FT_INLINE static bool any(Mask m) { return _mm256_movemask_pd(m) != 0; }
  FT_INLINE static bool all(Mask m) { return _mm256_movemask_pd(m) == 0xf; }

  FT_INLINE friend Avx2F64 zip_low(Avx2F64 a, Avx2F64 b) {
    return {_mm256_permute2f128_pd(_mm256_unpacklo_pd(a.v, b.v), _mm256_unpackhi_pd(a.v, b.v), 0x20)};
  }
  FT_INLINE friend Avx2F64 zip_high(Avx2F64 a, Avx2F64 b) {
    return {_mm256_permute2f128_pd(_mm256_unpacklo_pd(a.v, b.v), _mm256_unpackhi_pd(a.v, b.v), 0x31)};
  }
};

struct Avx2 {
  using F32 = Avx2F32;
  using F64 = Avx2F64;
  static constexpr int kRegisters = 16;
};

}  // namespace
}  // namespace flashtile
