// The tile unit of amx.h in software: the same members and, bit for bit, the same arithmetic, on any machine.
//
// REQUIRES: the kernels' floating-point environment (run/environment.h), which counts denormal sums and results as zero.
#pragma once

#include <cstdint>

#include "isa/scalar.h"
#include "problem/number.h"
#include "problem/visibility.h"

namespace flashtile {
namespace {

struct AmxEmulated {
  using Vectors = Scalar;
  using V = Scalar::F32;
  static constexpr int kTile = 512;

  FT_INLINE static void resume() {}
  struct Session {
    FT_INLINE Session() {}   // NOLINT(modernize-use-equals-default): a trivial one would be an unused variable
    FT_INLINE ~Session() {}  // NOLINT(modernize-use-equals-default)
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  template <int C>
  static void product(const std::uint16_t* a, Index a_next, Index rows, const std::uint16_t* b, Index b_next, Index steps,
                      bool fresh, float* c, Index c_row) {
    for (Index i = 0; i < rows; ++i)
      for (int j = 0; j < C; ++j) {
        float* tile = c + i * 16 * c_row + j * 16;
        if (fresh)
          for (int m = 0; m < 16; ++m)
            for (int n = 0; n < 16; ++n) tile[m * c_row + n] = 0;
        for (Index k = 0; k < steps; ++k)
          multiply_add(a + (i * a_next + k) * kTile, b + (j * b_next + k) * kTile, tile, c_row);
      }
  }

  FT_INLINE static V load_words(const std::uint16_t* from, Index n) {
    const std::uint32_t low = n > 0 ? from[0] : 0, high = n > 1 ? from[1] : 0;
    return {float_of(low | high << 16)};
  }
  FT_INLINE static void store_words(V words, std::uint16_t* to) { __builtin_memcpy(to, &words.v, sizeof words.v); }
  FT_INLINE static V pair(V even, V odd) { return {float_of(bits_of(even.v) >> 16 | bits_of(odd.v))}; }
  FT_INLINE static V round_pair(V even, V odd) {
    const std::uint32_t low = to_bf16(even.v).bits, high = to_bf16(odd.v).bits;
    return {float_of(low | high << 16)};
  }

 private:
  /// A tile widened to fp32, even and odd places apart: [16][16] each. Denormals become 0.
  struct Wide {
    float part[2][16][16];
    int least = 255, most = 0;  // exponent fields of its numbers other than 0

    explicit Wide(const std::uint16_t* tile) {
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 32; ++j) {
          const std::uint32_t bits = tile[i * 32 + j];
          const int exponent = bits >> 7 & 0xff;
          part[j % 2][i][j / 2] = float_of((exponent == 0 ? bits & 0x8000u : bits) << 16);
          if (exponent != 0) least = exponent < least ? exponent : least, most = exponent > most ? exponent : most;
        }
    }
  };

  /// One TDPBF16PS. A product of two bf16 numbers is exact in fp32 while it stays in the normal range; a multiplication and
  /// an addition are then an FMA, and much faster where the compiler may not use one.
  static void multiply_add(const std::uint16_t* a, const std::uint16_t* b, float* c, Index c_row) {
    const Wide x(a), y(b);  // x: rows of A; y: row k of the pairs of B
    const bool exact = x.least + y.least >= 128 && x.most + y.most <= 379;
    for (int m = 0; m < 16; ++m) {
      float chain[2][16] = {};
      if (exact) {
        for (int k = 0; k < 16; ++k)
          for (int odd = 0; odd < 2; ++odd)
            for (int n = 0; n < 16; ++n) chain[odd][n] = x.part[odd][m][k] * y.part[odd][k][n] + chain[odd][n];
      } else {
        for (int k = 0; k < 16; ++k)
          for (int odd = 0; odd < 2; ++odd)
            for (int n = 0; n < 16; ++n) chain[odd][n] = __builtin_fmaf(x.part[odd][m][k], y.part[odd][k][n], chain[odd][n]);
      }
      for (int n = 0; n < 16; ++n) c[m * c_row + n] = c[m * c_row + n] + (chain[0][n] + chain[1][n]);
    }
  }
};

}  // namespace
}  // namespace flashtile
