// The amx family: its tile unit, its kernels against the model of the family bit for bit, and how exact it is. The
// software twin stands for the unit on every machine; where the instructions exist they are held against it.
#include <gtest/gtest.h>

#include <cmath>

#include "isa/dispatch.h"
#include "reference/model_amx.h"
#include "run/environment.h"
#include "support/case.h"
#include "support/compare.h"
#include "support/model_rows.h"

namespace flashtile::testing {
namespace {

/// The unit's kernels where this machine has them.
const Kernels* instructions() {
  for (const Implementation& i : all_implementations())
    if (i.isa == Isa::amx && i.kernels != nullptr && i.why_not(this_cpu()) == nullptr && request_amx_permission())
      return &i.kernels();
  return nullptr;
}

struct Tiles {
  std::uint16_t a[16 * 32], b[16 * 32];
  float c[16 * 16];
};

/// Exponent fields from [low, high], any signs and fractions, some zeros.
void fill_bits(Tiles& t, Random& random, int low, int high) {
  const auto number = [&] {
    const auto bits = static_cast<std::uint32_t>(random.next());
    const auto exponent = static_cast<std::uint32_t>(random.integer(low, high));
    return random.coin(0.05) ? bits & 0x80000000u : (bits & 0x807fffffu) | exponent << 23;
  };
  for (std::uint16_t& x : t.a) x = static_cast<std::uint16_t>(number() >> 16);
  for (std::uint16_t& x : t.b) x = static_cast<std::uint16_t>(number() >> 16);
  for (float& x : t.c) x = float_of(number());
}

/// Ranges of exponents: ordinary, everything finite, products near the bottom, near the top, denormals.
constexpr int kRanges[][2] = {{120, 134}, {0, 254}, {60, 70}, {185, 195}, {0, 3}, {40, 215}};

bool same_floats(const float* x, const float* y) {
  for (int i = 0; i < 256; ++i)
    if (!same_number(x[i], y[i])) return false;
  return true;
}

/// Out of line: its arithmetic stays inside the caller's environment.
__attribute__((noinline)) void multiply_by_model(Tiles& t) {
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      reference::ModelAmx::Places a, b;
      for (int k = 0; k < 32; ++k) {
        a.at[k] = to_float(bf16{t.a[m * 32 + k]});
        b.at[k] = to_float(bf16{t.b[k / 2 * 32 + n * 2 + k % 2]});
      }
      t.c[m * 16 + n] = reference::ModelAmx::tile_product(a, b, t.c[m * 16 + n]);
    }
}

TEST(Amx, TwinOfATileProductIsTwoChainsAddedToC) {
  Random random(1);
  for (const auto& range : kRanges)
    for (int round = 0; round < 50; ++round) {
      Tiles twin, model;
      fill_bits(twin, random, range[0], range[1]);
      model = twin;
      const FloatEnvironment environment;
      kernels_amx_emulated().multiply_tile(twin.a, twin.b, twin.c);
      multiply_by_model(model);
      ASSERT_TRUE(same_floats(twin.c, model.c)) << "exponents " << range[0] << " … " << range[1];
    }
}

TEST(Amx, InstructionsAndTwinGiveTheSameBits) {
  const Kernels* unit = instructions();
  if (unit == nullptr) GTEST_SKIP() << "this machine or build has no AMX to compare with: " << this_cpu().why_not_amx;
  Random random(2);
  for (const auto& range : kRanges)
    for (int round = 0; round < 500; ++round) {
      Tiles tile, twin;
      fill_bits(tile, random, range[0], range[1]);
      twin = tile;
      const FloatEnvironment environment;
      unit->multiply_tile(tile.a, tile.b, tile.c);
      kernels_amx_emulated().multiply_tile(twin.a, twin.b, twin.c);
      ASSERT_TRUE(same_floats(tile.c, twin.c)) << "exponents " << range[0] << " … " << range[1];
    }
}

/// An fp32 output shows every bit of a row.
const DTypes kWideOut{DType::bf16, DType::bf16, DType::bf16, DType::f32};

Case amx_case(Shape shape, std::uint64_t seed, DTypes dtypes = kWideOut) {
  Case c(shape, dtypes);
  c.fill_normal(seed);
  return c;
}

TEST(Amx, EveryHeadDimEqualsTheModel) {
  for (Index d : {1, 8, 31, 32, 33, 64, 96, 128})
    for (Index value : {d, Index{1}, Index{17}, Index{80}}) {
      Case c = amx_case({1, 19, 150, 1, 1, d, value}, 1);
      ASSERT_TRUE(equals_model(c, Arithmetic::amx)) << d << ", " << value;
    }
}

TEST(Amx, EveryLengthEqualsTheModel) {
  for (Index keys : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1024, 1100})
    for (bool causal : {false, true}) {
      Case c = amx_case({1, 5, keys, 2, 1, 40, 24}, 2);
      c.options.causal = causal;
      ASSERT_TRUE(equals_model(c, Arithmetic::amx)) << keys;
    }
}

// Which keys share a group of 32, and which half of it, follows from positions, wherever the first key stands.
TEST(Amx, ShiftedPositionsEqualTheModel) {
  for (Index first : {1, 31, 32, 77, 500, 511, -1, -45, -700})
    for (Index left : {-1, 50}) {
      Case c = amx_case({1, 50, 600, 2, 2, 72, 33}, 3);
      c.first_key_position = Array::ints({first});
      c.options.causal = true, c.options.window.left = left;
      ASSERT_TRUE(equals_model(c, Arithmetic::amx)) << first;
    }
}

// All at once, over several chunks and the heads of a group.
TEST(Amx, RulesTogetherEqualTheModel) {
  for (double dropout : {0.0, 0.4})
    for (double softcap : {0.0, 2.5}) {
      Case c = amx_case({2, 26, 1100, 4, 2, 64, 48}, 4);
      c.q.fill_normal(5, 3);
      c.options.window = {900, 40}, c.options.softcap = softcap;
      c.options.dropout = {dropout, 99, 3};
      c.sinks = Array::of(DType::f32, {4}, {0, 3, -2, 9});
      c.slopes = Array::of(DType::f32, {4}, {0, 0.01, 0.5, 0.001});
      c.mask = Array(DType::bf16, {1, 4, 26, 1100});
      Random random(6);
      c.mask.fill([&] { return random.coin(0.2) ? -HUGE_VAL : random.normal(); });
      ASSERT_TRUE(equals_model(c, Arithmetic::amx));
    }
}

TEST(Amx, AgreesWithTheDefinition) {
  for (bool causal : {false, true}) {
    Case c = amx_case({2, 70, 600, 4, 2, 64, 80}, 5, DType::bf16);
    c.options.causal = causal, c.options.isa = Isa::amx_emulated;
    ASSERT_STREQ(c.planned().facts().arithmetic, "amx");
    EXPECT_TRUE(runs_right(c));  // the column sums of the weights too
  }
}

// Rounding weights and output: 1.45 times the error of rounding the exact answer alone.
TEST(Amx, ErrorIsThatOfRoundingWeightsAndOutput) {
  for (Index d : {64, 128}) {
    Case c = amx_case({1, 96, 1024, 1, 1, d, d}, 6, DType::bf16);
    c.options.isa = Isa::amx_emulated, c.outputs = Outputs::lse;
    Tolerance t = tolerance_for(c.dtypes, true);
    t.rms = 0, t.rounding = 1.45;
    EXPECT_TRUE(runs_right(c, t)) << d;
  }
}

// O is divided by the sum of the rounded weights: what a constant V shows is exact.
TEST(Amx, ConstantValuesComeBackExactly) {
  for (Index keys : {1, 2, 3, 100, 700}) {
    Case c = amx_case({1, 9, keys, 1, 1, 16, 16}, 7, DType::bf16);
    c.q.fill_normal(8, 4);
    c.v.fill_value(1.5);
    c.options.isa = Isa::amx_emulated;
    ASSERT_TRUE(c.run().ok());
    for (double x : c.out.values()) ASSERT_EQ(x, 1.5) << keys;
  }
}

// In the same tiles, and in panels that a later, shorter chunk uses again.
TEST(Amx, HiddenPoisonReachesNothing) {
  for (double poison : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    Case clean = amx_case({1, 60, 560, 2, 1, 64, 48}, 9), dirty = amx_case({1, 60, 560, 2, 1, 64, 48}, 9);
    for (Case* c : {&clean, &dirty}) {
      c->options.isa = Isa::amx_emulated;
      c->mask = Array(DType::boolean, {1, 1, 60, 560});
      c->mask.fill([n = 0]() mutable { return n++ % 560 % 7 != 3 ? 1.0 : 0.0; });
      c->key_lengths = Array::ints({550});
    }
    for (Index j = 0; j < 560; ++j)
      if (j % 7 == 3 || j >= 550)
        for (Index d = 0; d < 48; d += 3) dirty.v.set(poison, 0, j, 0, d), dirty.k.set(poison, 0, j, 0, d);
    EXPECT_TRUE(same_results(clean, dirty));
  }
}

// The path for values with Inf or NaN gives other rows the same bits as the tiles do.
TEST(Amx, RowsBesidePoisonKeepTheirBits) {
  Case clean = amx_case({1, 100, 100, 1, 1, 64, 64}, 10), dirty = amx_case({1, 100, 100, 1, 1, 64, 64}, 10);
  for (Case* c : {&clean, &dirty}) c->options.isa = Isa::amx_emulated, c->options.causal = true;
  dirty.v.set(NAN, 0, 70, 0, 5);
  ASSERT_TRUE(clean.run().ok() && dirty.run().ok());
  for (Index i = 0; i < 100; ++i)
    for (Index d = 0; d < 64; ++d) {
      const double x = dirty.out.get(0, i, 0, d);
      if (i >= 70 && d == 5) ASSERT_TRUE(std::isnan(x)) << i;
      else ASSERT_EQ(x, clean.out.get(0, i, 0, d)) << i << ", " << d;
    }
}

TEST(Amx, ThreadsBatchAndNeighboursChangeNoBit) {
  const Shape shape{2, 70, 530, 4, 2, 33, 50};
  Case all = amx_case(shape, 11);
  all.options.causal = true, all.options.isa = Isa::amx_emulated, all.options.threads = 1;
  ASSERT_TRUE(all.run().ok());
  for (int threads : {2, 3, 7}) {
    Case other = amx_case(shape, 11);
    other.options.causal = true, other.options.isa = Isa::amx_emulated, other.options.threads = threads;
    EXPECT_TRUE(same_results(all, other)) << threads;
  }
  for (Index i : {0, 20, 47, 48, 69}) {  // one query of the second sequence, alone
    Case row({1, 1, shape.keys - 69 + i, 4, 2, 33, 50}, kWideOut);
    row.options.isa = Isa::amx_emulated;
    for (Index h = 0; h < 4; ++h)
      for (Index d = 0; d < 33; ++d) row.q.set(all.q.get(1, i, h, d), 0, 0, h, d);
    for (Index j = 0; j < row.shape.keys; ++j)
      for (Index h = 0; h < 2; ++h) {
        for (Index d = 0; d < 33; ++d) row.k.set(all.k.get(1, j, h, d), 0, j, h, d);
        for (Index d = 0; d < 50; ++d) row.v.set(all.v.get(1, j, h, d), 0, j, h, d);
      }
    ASSERT_TRUE(row.run().ok());
    for (Index h = 0; h < 4; ++h) {
      ASSERT_EQ(row.lse.get(0, h, 0), all.lse.get(1, h, i)) << i;
      for (Index d = 0; d < 50; ++d) ASSERT_EQ(row.out.get(0, 0, h, d), all.out.get(1, i, h, d)) << i << ", " << d;
    }
  }
}

TEST(Amx, FamilyIsChosenByDTypeAndOptions) {
  const auto family = [](DTypes dtypes, Isa isa, Arithmetic arithmetic) {
    Case c({}, dtypes);
    c.options.isa = isa, c.options.arithmetic = arithmetic;
    return std::string(c.planned().facts().arithmetic);
  };
  EXPECT_EQ(family(DType::bf16, Isa::amx_emulated, Arithmetic::automatic), "amx");
  EXPECT_EQ(family(DType::bf16, Isa::amx_emulated, Arithmetic::amx), "amx");
  EXPECT_EQ(family(DType::bf16, Isa::amx_emulated, Arithmetic::fma), "fma");
  EXPECT_EQ(family(DType::bf16, Isa::scalar, Arithmetic::automatic), "fma");
  EXPECT_EQ(family(DType::f32, Isa::amx_emulated, Arithmetic::automatic), "fma");
  for (DTypes dtypes : {DTypes(DType::f32), DTypes(DType::f16), DTypes(DType::bf16, DType::f32, DType::bf16, DType::bf16)}) {
    Case c({}, dtypes);
    c.options.arithmetic = Arithmetic::amx, c.options.isa = Isa::amx_emulated;
    EXPECT_EQ(c.run().code, Code::unsupported);
    EXPECT_TRUE(c.out.untouched());
  }
}

}  // namespace
}  // namespace flashtile::testing
