// The tile unit: AMX-TILE and AMX-BF16, with AVX-512 beside it. amx_emulated.h is the same in software; both provide
//
//   Vectors                 the vector instruction set that goes with it
//   Session                 while one lives, the calling thread may use the unit
//   resume()                after foreign code, which may have used the unit for itself
//   product<R, C>()         C += A B on R × C tiles
//   round_pair()            two vectors of fp32 to bf16, by round to nearest even
//
// Tiles lie without gaps: A 16 × 32 bf16; B 32 × 16 bf16, rows 2k and 2k + 1 side by side in pairs. C is 16 × 16 fp32 with
// a row stride. TDPBF16PS takes, for each element of C, two chains of 16 FMA from zero, one over even and one over odd
// places of the 32, and adds their sum to C; denormals are zero, in and out, whatever MXCSR says.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "isa/avx512.h"
#include "problem/visibility.h"

namespace flashtile {
namespace {

struct Amx {
  using Vectors = Avx512;
  static constexpr int kTile = 512;  // bf16 numbers

  /// g++ 12's tile loads and stores do not say that they touch memory.
  FT_INLINE static void barrier() { __asm__ volatile("" : : : "memory"); }

  FT_INLINE static void resume() {
    // Palette 1; eight tiles of 16 rows × 64 bytes. Static: the intrinsic names only the first bytes of it.
    // clang-format off
    alignas(64) static constexpr std::uint8_t kShape[64] = {1, 0, 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, 0, 0, 0,
                                                            64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,
                                                            0, 0, 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, 0, 0, 0,
                                                            16, 16, 16, 16, 16, 16, 16, 16};
    // clang-format on
    _tile_loadconfig(kShape);
  }
  struct Session {
    FT_INLINE Session() { resume(); }
    FT_INLINE ~Session() { _tile_release(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  /// `steps` tiles of each of R rows of A times those of C columns of B, into c (or, if fresh, over it). The tiles of the
  /// next row of A follow a_next tiles later, those of the next column of B b_next tiles later.
  template <int R, int C>
  FT_INLINE static void product(const std::uint16_t* a, Index a_next, const std::uint16_t* b, Index b_next, Index steps,
                                bool fresh, float* c, Index c_row) {
    static_assert(R >= 1 && R <= 2 && C >= 1 && C <= 2);
    const Index row = c_row * static_cast<Index>(sizeof(float));
    float* below = c + 16 * c_row;
    barrier();
    if (fresh) {
      _tile_zero(0);
      if constexpr (C == 2) _tile_zero(1);
      if constexpr (R == 2) _tile_zero(2);
      if constexpr (R == 2 && C == 2) _tile_zero(3);
    } else {
      _tile_loadd(0, c, row);
      if constexpr (C == 2) _tile_loadd(1, c + 16, row);
      if constexpr (R == 2) _tile_loadd(2, below, row);
      if constexpr (R == 2 && C == 2) _tile_loadd(3, below + 16, row);
    }
    for (Index k = 0; k < steps; ++k, a += kTile, b += kTile) {
      _tile_loadd(4, a, 64);
      _tile_loadd(6, b, 64);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (C == 2) _tile_loadd(7, b + b_next * kTile, 64);
      if constexpr (C == 2) _tile_dpbf16ps(1, 4, 7);
      if constexpr (R == 2) _tile_loadd(5, a + a_next * kTile, 64);
      if constexpr (R == 2) _tile_dpbf16ps(2, 5, 6);
      if constexpr (R == 2 && C == 2) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row);
    if constexpr (C == 2) _tile_stored(1, c + 16, row);
    if constexpr (R == 2) _tile_stored(2, below, row);
    if constexpr (R == 2 && C == 2) _tile_stored(3, below + 16, row);
    barrier();
  }

  /// Rounds both to bf16; word i of `pairs` gets lane i of each, `even` in its low half.
  FT_INLINE static void round_pair(Avx512F32& even, Avx512F32& odd, std::uint32_t* pairs) {
    even = rounded(even), odd = rounded(odd);
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even.v), 16);
    _mm512_storeu_si512(pairs, _mm512_or_si512(low, _mm512_castps_si512(odd.v)));
  }

 private:
  FT_INLINE static Avx512F32 rounded(Avx512F32 x) {
    const __m512i bits = _mm512_castps_si512(x.v);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
    sum = _mm512_and_si512(sum, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);  // the sum could carry into the sign
    return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(sum, nan, _mm512_set1_epi32(0x7fc00000)))};
  }
};

}  // namespace
}  // namespace flashtile
