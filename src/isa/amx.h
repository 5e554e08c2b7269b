// The tile unit: AMX-TILE and AMX-BF16, with AVX-512 and its bf16 conversions beside it. amx_emulated.h is the same in
// software; both provide
//
//   Vectors          the vector instruction set that goes with it; its fp32 vectors also carry words of two bf16
//   Session          while one lives, the calling thread may use the unit
//   resume()         after foreign code, which may have used the unit for itself
//   product<C>()     C += A B on rows × C tiles
//   load_words() …   words of two bf16: read from rows, made of two vectors, written to tiles
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
  using V = Avx512F32;
  static constexpr int kTile = 512;  // bf16 numbers

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

  /// `steps` ≥ 1 tiles of each of `rows` ≥ 1 rows of A times those of C columns of B, into c (or, if fresh, over it). The
  /// tiles of the next row of A follow a_next tiles later, those of the next column of B b_next tiles later.
  ///
  /// Two rows of sums take turns: while one is multiplied, the other is stored and loaded. A row that waited for its own
  /// stores would leave the unit idle for a fifth of the time.
  template <int C>
  FT_INLINE static void product(const std::uint16_t* a, Index a_next, Index rows, const std::uint16_t* b, Index b_next,
                                Index steps, bool fresh, float* c, Index c_row) {
    static_assert(C >= 1 && C <= 3);
    const Index next = 16 * c_row;
    open<0, C>(c, c_row, fresh);
    for (Index i = 0;;) {
      multiply<0, C>(a, b, b_next, 1);
      if (i > 0) close<3, C>(c - next, c_row);
      if (i + 1 < rows) open<3, C>(c + next, c_row, fresh);
      multiply<0, C>(a + kTile, b + kTile, b_next, steps - 1);
      if (++i == rows) return close<0, C>(c, c_row);
      a += a_next * kTile, c += next;
      multiply<3, C>(a, b, b_next, 1);
      close<0, C>(c - next, c_row);
      if (i + 1 < rows) open<0, C>(c + next, c_row, fresh);
      multiply<3, C>(a + kTile, b + kTile, b_next, steps - 1);
      if (++i == rows) return close<3, C>(c, c_row);
      a += a_next * kTile, c += next;
    }
  }

  /// Word i of a row: elements 2i and 2i + 1, the first in the low half; from element n on, 0 that is not read.
  FT_INLINE static V load_words(const std::uint16_t* from, Index n) {
    const __mmask32 some = n >= 32 ? ~0u : (1u << (n < 0 ? 0 : n)) - 1;
    return {_mm512_castsi512_ps(_mm512_maskz_loadu_epi16(some, from))};
  }
  FT_INLINE static void store_words(V words, std::uint16_t* to) { words.store(reinterpret_cast<float*>(to)); }

  /// Word i: lane i of both, `even` in its low half; of fp32 numbers that are bf16 numbers already.
  FT_INLINE static V pair(V even, V odd) {
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even.v), 16);
    return {_mm512_castsi512_ps(_mm512_or_si512(low, _mm512_castps_si512(odd.v)))};
  }
  /// The same of any fp32 numbers, rounded to nearest even.
  FT_INLINE static V round_pair(V even, V odd) {
    const __m512i apart = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.v, even.v));
    // clang-format off
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                           23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    // clang-format on
    return {_mm512_castsi512_ps(_mm512_permutexvar_epi16(order, apart))};
  }

 private:
  // Own assembly: g++'s intrinsics take no tile from a template, and 12's do not say that they touch memory.
  template <int Tile>
  FT_INLINE static void load_tile(const void* from, Index row_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(Tile) : "memory");
  }
  template <int Tile>
  FT_INLINE static void store_tile(void* to, Index row_bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(Tile) : "memory");
  }
  template <int Tile>
  FT_INLINE static void zero_tile() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  template <int Sum>
  FT_INLINE static void multiply_tiles() {  // tmm6 · tmm7
    __asm__ volatile("tdpbf16ps %%tmm7, %%tmm6, %%tmm%c0" : : "i"(Sum));
  }

  /// The sums of a row are tiles First, First + 1 …
  template <int First, int C>
  FT_INLINE static void open(const float* c, Index c_row, bool fresh) {
    const Index row = c_row * static_cast<Index>(sizeof(float));
    if (fresh) {
      zero_tile<First>();
      if constexpr (C > 1) zero_tile<First + 1>();
      if constexpr (C > 2) zero_tile<First + 2>();
    } else {
      load_tile<First>(c, row);
      if constexpr (C > 1) load_tile<First + 1>(c + 16, row);
      if constexpr (C > 2) load_tile<First + 2>(c + 32, row);
    }
  }
  template <int First, int C>
  FT_INLINE static void close(float* c, Index c_row) {
    const Index row = c_row * static_cast<Index>(sizeof(float));
    store_tile<First>(c, row);
    if constexpr (C > 1) store_tile<First + 1>(c + 16, row);
    if constexpr (C > 2) store_tile<First + 2>(c + 32, row);
  }
  template <int First, int C>
  FT_INLINE static void multiply(const std::uint16_t* a, const std::uint16_t* b, Index b_next, Index steps) {
    for (Index k = 0; k < steps; ++k, a += kTile, b += kTile) {
      load_tile<6>(a, 64);
      load_tile<7>(b, 64);
      multiply_tiles<First>();
      if constexpr (C > 1) {
        load_tile<7>(b + b_next * kTile, 64);
        multiply_tiles<First + 1>();
      }
      if constexpr (C > 2) {
        load_tile<7>(b + 2 * b_next * kTile, 64);
        multiply_tiles<First + 2>();
      }
    }
  }
};

}  // namespace
}  // namespace flashtile
