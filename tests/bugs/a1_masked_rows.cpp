// Public bugs, group A1: masked rows, −inf, NaN, boolean masks. Each test is named after its case; the thread that
// reported the bug is quoted beside it. Every case runs on every instruction set and dtype.
#include <gtest/gtest.h>

#include <limits>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

void expect_empty_row(const Case& c, Index b, Index i) {
  for (Index h = 0; h < c.shape.q_heads; ++h) {
    for (Index d = 0; d < c.shape.value_dim; ++d) EXPECT_EQ(c.out.get(b, i, h, d), 0) << place(b, h, i, d);
    EXPECT_EQ(c.lse.get(b, h, i), -kInf) << place(b, h, i);
    for (const Array* a : {&c.largest_weight, &c.entropy, &c.logit_mean, &c.logit_deviation})
      EXPECT_EQ(a->get(b, h, i), 0) << place(b, h, i);
  }
}

// pytorch#103749, #103963: a row without an allowed key was 0/0.
TEST(A1_MaskedRows, A1_1_RowWithoutAllowedKeyIsZero) {
  FT_FOR_EACH_SETTING(s) {
    for (Index keys : {10, 129, 530}) {
      Case c({.queries = 6, .keys = keys, .q_heads = 2, .kv_heads = 2}, s.dtype);
      c.options.isa = s.isa, c.options.scale = 0.125;
      c.fill_normal(11);
      c.mask = Array(DType::boolean, {1, 1, 6, keys});
      for (Index i = 0; i < 6; ++i)
        for (Index j = 0; j < keys; ++j) c.mask.set(i < 5 && j <= i, 0, 0, i, j);
      ASSERT_TRUE(runs_right(c)) << keys << " keys";
      expect_empty_row(c, 0, 5);
    }
  }
}

/// Row 0 of the mask is `extreme` in all columns, the others are 1: row 0 averages V. Logits beyond ±2^127 (fp64:
/// 2^1023) in base 2 may be clamped there, which the LSE shows; the mean counts them as ±2^45 (2^450).
void expect_row_0_averages_values(DType mask_dtype, double extreme, const Setting& s) {
  SCOPED_TRACE(std::string("mask ") + name_of(mask_dtype) + ", extreme " + ::testing::PrintToString(extreme));
  Case c({.queries = 3, .keys = 3, .head_dim = 4, .value_dim = 4}, s.dtype);
  c.options.isa = s.isa;
  c.fill_normal(12);
  c.v.fill([n = 0]() mutable { return 0.25 * (n++); });  // exact in every dtype, and so are the means of three rows
  c.mask = Array(mask_dtype, {3, 3});
  c.mask.fill([n = 0, extreme]() mutable { return n++ < 3 ? extreme : 1.0; });
  Tolerance t = default_tolerance(c);
  t.logit = HUGE_VAL;  // held against the clamp below
  ASSERT_TRUE(c.run().ok());
  for (Index d = 0; d < 4; ++d) EXPECT_NEAR(c.out.get(0, 0, 0, d), 0.25 * (4 + d), 0x1p-8) << d;
  EXPECT_NEAR(c.largest_weight.get(0, 0, 0), 1.0 / 3, 1e-6);
  EXPECT_NEAR(c.entropy.get(0, 0, 0), std::log(3.0), 1e-6);
  const bool wide = s.dtype == DType::f64;
  for (const Array* a : {&c.lse, &c.logit_mean}) {
    const double x = a->get(0, 0, 0);
    const double bound = a == &c.lse ? (wide ? 0x1p1023 : 0x1p127) : (wide ? 0x1p450 : 0x1p45);
    const double clamp = std::log(2.0) * bound * 0.999999;
    EXPECT_TRUE(std::isfinite(x)) << x;
    EXPECT_GE(std::fabs(x), std::min(std::fabs(extreme) * 0.999999, clamp));
    EXPECT_EQ(x < 0, extreme < 0) << x;
  }
  EXPECT_EQ(c.logit_deviation.get(0, 0, 0), 0);
  EXPECT_TRUE(agrees(c, t));
}

// pytorch#110213, #109517: finfo.min in all columns is a number; min · log2(e) must not become −inf.
TEST(A1_MaskedRows, A1_2_FiniteMinimumMaskAveragesV) {
  FT_FOR_EACH_SETTING(s) {
    const double f32_min = -static_cast<double>(std::numeric_limits<float>::max());
    const double bf16_min = -0x1.fep127;
    expect_row_0_averages_values(DType::f32, f32_min, s);
    expect_row_0_averages_values(DType::f64, f32_min, s);
    expect_row_0_averages_values(DType::f32, bf16_min, s);
    expect_row_0_averages_values(DType::bf16, bf16_min, s);
    expect_row_0_averages_values(DType::f64, std::numeric_limits<double>::lowest(), s);
  }
}

// The other end: finfo.max is a number too, and max · log2(e) must not become +inf.
TEST(A1_MaskedRows, A1_2_FiniteMaximumMaskAveragesV) {
  FT_FOR_EACH_SETTING(s) {
    const double f32_max = std::numeric_limits<float>::max();
    expect_row_0_averages_values(DType::f32, f32_max, s);
    expect_row_0_averages_values(DType::bf16, 0x1.fep127, s);
    expect_row_0_averages_values(DType::f64, std::numeric_limits<double>::max(), s);
  }
}

// The minimum of f16 is small enough to keep the differences of logits: only shifted, up to the resolution at 65504.
TEST(A1_MaskedRows, A1_2_FiniteMinimumOfF16OnlyShifts) {
  FT_FOR_EACH_SETTING(s) {
    for (DType mask : {DType::f16, DType::f32}) {
      Case c({.queries = 3, .keys = 40, .head_dim = 4, .value_dim = 4}, s.dtype);
      c.options.isa = s.isa;
      c.fill_normal(13);
      c.mask = Array(mask, {3, 40});
      c.mask.fill([n = 0]() mutable { return n++ < 40 ? -65504.0 : 1.0; });
      Tolerance t = default_tolerance(c);
      const double resolution = s.dtype == DType::f64 ? 0x1p-36 : 0x1p-6;
      t.element += resolution, t.rms += resolution, t.weight += resolution;
      EXPECT_TRUE(runs_right(c, t));
    }
  }
}

TEST(A1_MaskedRows, A1_2_MinimumBesideOrdinaryBiasHasNoWeight) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 2, .keys = 150, .head_dim = 4, .value_dim = 4}, s.dtype);
    c.options.isa = s.isa;
    c.fill_normal(14);
    c.mask = Array(DType::f32, {1, 150});
    c.mask.fill([n = 0]() mutable { return n++ % 3 == 1 ? -std::numeric_limits<float>::max() : 0.5; });
    Tolerance t = default_tolerance(c);
    t.logit = HUGE_VAL;  // of means over logits of 1e38 only that they are numbers
    ASSERT_TRUE(c.run().ok());
    EXPECT_TRUE(agrees(c, t));
    EXPECT_TRUE(std::isfinite(c.logit_mean.get(0, 0, 0))) << c.logit_mean.get(0, 0, 0);
    for (Index j = 1; j < 150; j += 3) EXPECT_EQ(c.key_weights.get(0, 0, j), 0) << j;
  }
}

// pytorch#41508, PR #196170: a band and key padding together leave a row without keys.
TEST(A1_MaskedRows, A1_3_BandAndPaddingTogetherLeaveNoKey) {
  FT_FOR_EACH_SETTING(s) {
    for (double poison : {kNaN, kInf, 1e30}) {
      Case c({.batch = 2, .queries = 4, .keys = 4}, s.dtype);
      c.options.isa = s.isa, c.options.window = {.left = 1, .right = 0};
      c.fill_normal(15);
      c.mask = Array(DType::boolean, {2, 1, 1, 4});
      for (Index j = 0; j < 4; ++j) c.mask.set(1, 0, 0, 0, j), c.mask.set(j < 2, 1, 0, 0, j);
      for (Index j = 2; j < 4; ++j)
        for (Index d = 0; d < 8; ++d) c.k.set(poison, 1, j, 0, d), c.v.set(poison, 1, j, 0, d);
      ASSERT_TRUE(runs_right(c));
      expect_empty_row(c, 1, 3);
    }
  }
}

// The ways to hide key 1 from both of two queries.
enum class Hiding { bool_mask, float_mask, key_range, length, window, causal };

void hide_key_1(Case& c, Hiding hiding) {
  switch (hiding) {
    case Hiding::bool_mask: c.mask = Array::of(DType::boolean, {1, 1, 1, 2}, {1, 0}); break;
    case Hiding::float_mask: c.mask = Array::of(DType::f32, {1, 2}, {0, -kInf}); break;
    case Hiding::key_range: c.key_end = Array::of(DType::i32, {1, 2}, {1, 1}); break;
    case Hiding::length: c.key_lengths = Array::ints({1}); break;
    case Hiding::window: c.options.window = {.left = 9, .right = 0}, c.query_offset = Array::ints({-1}); break;
    case Hiding::causal: c.options.causal = true, c.query_offset = Array::ints({-1}); break;
  }
}

// pytorch#101967: 0 · NaN of a hidden key or value reached the output.
TEST(A1_MaskedRows, A1_4_NothingInHiddenKeysOrValuesMatters) {
  FT_FOR_EACH_SETTING(s) {
    for (Hiding hiding :
         {Hiding::bool_mask, Hiding::float_mask, Hiding::key_range, Hiding::length, Hiding::window, Hiding::causal}) {
      for (double poison : {1e10, kNaN, kInf, -kInf}) {
        for (bool in_value : {false, true}) {
          SCOPED_TRACE("hiding " + std::to_string(static_cast<int>(hiding)) + ", poison " + std::to_string(poison));
          Case c({.queries = 2, .keys = 2, .head_dim = 4, .value_dim = 4}, s.dtype);
          c.options.isa = s.isa;
          for (Array* a : {&c.q, &c.k, &c.v}) a->fill([n = 0]() mutable { return n++; });
          hide_key_1(c, hiding);
          (in_value ? c.v : c.k).set(poison, 0, 1, 0, 0);
          ASSERT_TRUE(runs_right(c));
          const bool row_0_is_empty = hiding == Hiding::window || hiding == Hiding::causal;
          for (Index i = row_0_is_empty ? 1 : 0; i < 2; ++i)
            for (Index d = 0; d < 4; ++d) EXPECT_NEAR(c.out.get(0, i, 0, d), c.v.get(0, 0, 0, d), 1e-6) << i << ", " << d;
          if (row_0_is_empty) expect_empty_row(c, 0, 0);
        }
      }
    }
  }
}

// The same kind on longer rows: poison in every hidden key of a causal and masked problem, equal bits.
TEST(A1_MaskedRows, A1_4_PoisonInLongRowsChangesNoBit) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = 20, .keys = 300, .q_heads = 2, .head_dim = 20, .value_dim = 12};
    Case clean(shape, s.dtype), poisoned(shape, s.dtype);
    for (Case* c : {&clean, &poisoned}) {
      c->options.isa = s.isa, c->options.causal = true;
      c->fill_normal(16);
      c->query_offset = Array::ints({130});
      c->mask = Array(DType::boolean, {1, 300});
      c->mask.fill([j = 0]() mutable { return j++ % 7 != 3; });
    }
    for (Index j = 0; j < 300; ++j)
      if (j % 7 == 3 || j > 149)
        for (Index d = 0; d < 12; ++d) {
          poisoned.k.set(j % 2 == 0 ? kNaN : kInf, 0, j, 0, d);
          poisoned.v.set(j % 3 == 0 ? kNaN : -kInf, 0, j, 0, d);
        }
    EXPECT_TRUE(same_results(clean, poisoned));
    EXPECT_TRUE(agrees(poisoned, default_tolerance(poisoned)));
  }
}

// onnxruntime#28904, PR #28958, onnx PR #8068: fewer valid keys than queries, causal.
TEST(A1_MaskedRows, A1_5_QueriesBeforeTheFirstKeyAreZeroNotMeanOfV) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.batch = 2, .queries = 4, .keys = 8, .q_heads = 2}, s.dtype);
    c.options.isa = s.isa, c.options.causal = true;
    c.fill_normal(17);
    c.key_lengths = Array::ints({2, 8});
    ASSERT_TRUE(runs_right(c));
    expect_empty_row(c, 0, 0);
    expect_empty_row(c, 0, 1);
    EXPECT_NE(c.lse.get(0, 0, 2), -kInf);
    EXPECT_NEAR(c.out.get(0, 2, 0, 0), c.v.get(0, 0, 0, 0), 1e-6);  // row 2 sees key 0 alone
  }
}

// openvino#35959, #31630; diffusers#14342: a boolean mask selects; it is not added.
TEST(A1_MaskedRows, A1_6_AllFalseGivesZeroAndAllTrueGivesNoMask) {
  FT_FOR_EACH_SETTING(s) {
    for (Index n : {3, 140}) {
      const Shape shape{.queries = 3, .keys = n, .head_dim = 4, .value_dim = 4};
      Case none(shape, s.dtype), all(shape, s.dtype), unmasked(shape, s.dtype);
      for (Case* c : {&none, &all, &unmasked}) c->options.isa = s.isa, c->fill_normal(18);
      none.mask = Array(DType::boolean, {3, n}), none.mask.fill_value(0);
      all.mask = Array(DType::boolean, {3, n}), all.mask.fill_value(1);
      ASSERT_TRUE(runs_right(none));
      for (Index i = 0; i < 3; ++i) expect_empty_row(none, 0, i);
      EXPECT_TRUE(same_results(all, unmasked));
    }
  }
}

// tract PR #2318: the padding of a vector tail entered the sum of a fully masked row.
TEST(A1_MaskedRows, A1_7_MaskedRowWithVectorTailIsZero) {
  FT_FOR_EACH_SETTING(s) {
    for (Index keys : {1, 3, 5, 8, 9, 15, 16, 17, 31, 33, 65, 129}) {
      Case c({.queries = 2, .keys = keys, .head_dim = 3, .value_dim = 5}, s.dtype);
      c.options.isa = s.isa;
      c.fill_normal(19);
      c.mask = Array(DType::f32, {2, keys});
      c.mask.fill([n = Index{0}, keys]() mutable { return n++ < keys ? -kInf : 0.0; });
      ASSERT_TRUE(runs_right(c)) << keys;
      expect_empty_row(c, 0, 0);
    }
  }
}

// The same thread: weights within 1e-6 of exp() itself. q = 1, D = 1 makes k the logit, V = identity shows P.
TEST(A1_MaskedRows, A1_7_WeightsAreExponentialsToSixDigits) {
  for (const Setting& s : settings({DType::f32, DType::f64})) {
    SCOPED_TRACE(s.text());
    for (Index keys : {9, 17, 67}) {
      Case c({.queries = 1, .keys = keys, .head_dim = 1, .value_dim = keys}, s.dtype);
      c.options.isa = s.isa, c.options.scale = 1.0;
      c.fill_to_show_weights();
      c.q.fill_value(1), c.k.fill_uniform(20, -4, 4);
      ASSERT_TRUE(c.run().ok());
      long double sum = 0;
      for (Index j = 0; j < keys; ++j) sum += std::exp(static_cast<long double>(c.k.get(0, j, 0, 0)));
      for (Index j = 0; j < keys; ++j) {
        const double p = static_cast<double>(std::exp(static_cast<long double>(c.k.get(0, j, 0, 0))) / sum);
        EXPECT_NEAR(c.out.get(0, 0, 0, j), p, (s.dtype == DType::f64 ? 1e-14 : 1e-6) * p) << j;
      }
    }
  }
}

// vLLM PR #936 (#641), sgl PR #15757, tt-metal#41215: what lies beyond the valid length leaked in.
TEST(A1_MaskedRows, A1_8_TailOfACacheChangesNoBit) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.batch = 2, .queries = 2, .keys = 32, .q_heads = 4, .kv_heads = 2, .head_dim = 16, .value_dim = 16};
    Case zero(shape, s.dtype), filled(shape, s.dtype);
    for (double tail : {kNaN, 1e30, kInf}) {
      for (Case* c : {&zero, &filled}) {
        c->options.isa = s.isa, c->options.causal = true;
        c->fill_normal(21);
        c->key_lengths = Array::ints({5, 17});
        for (Index b = 0; b < 2; ++b)
          for (Index j = b == 0 ? 5 : 17; j < 32; ++j)
            for (Index h = 0; h < 2; ++h)
              for (Index d = 0; d < 16; ++d)
                for (Array* a : {&c->k, &c->v}) a->set(c == &zero ? 0 : tail, b, j, h, d);
      }
      EXPECT_TRUE(same_results(zero, filled)) << tail;
      EXPECT_TRUE(agrees(filled, default_tolerance(filled)));
    }
  }
}

TEST(A1_MaskedRows, A1_8_TokensPastCuSeqlensChangeNoBit) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = 9, .keys = 20, .q_heads = 2, .kv_heads = 1};
    Case zero(shape, {0, 3, 6}, {0, 5, 13}, s.dtype), filled(shape, {0, 3, 6}, {0, 5, 13}, s.dtype);
    for (Case* c : {&zero, &filled}) {
      c->options.isa = s.isa;
      c->fill_normal(22);
      const double tail = c == &zero ? 0 : kNaN;
      for (Index d = 0; d < 8; ++d) {
        for (Index j = 13; j < 20; ++j) c->k.set(tail, j, 0, d), c->v.set(tail, j, 0, d);
        for (Index i = 6; i < 9; ++i) c->q.set(tail, i, 0, d), c->q.set(tail, i, 1, d);
      }
    }
    EXPECT_TRUE(same_results(zero, filled));
    EXPECT_TRUE(agrees(filled, default_tolerance(filled)));
    for (Index i = 6; i < 9; ++i) EXPECT_EQ(filled.out.get(i, 1, 3), 0);
  }
}

}  // namespace
}  // namespace flashtile::testing
