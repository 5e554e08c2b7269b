// Public bugs, group A3: scale, softcap, precision. Each test is named after its case; the thread that reported the bug
// is quoted beside it. Expected numbers were computed in double precision or are those of the thread.
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/fp_mode.h"

namespace flashtile::testing {
namespace {

double near_zero(const Setting& s) { return s.dtype == DType::f64 ? 1e-9 : 1e-6; }

/// Room that an output has because of its storage format and, in the amx family, 16-bit weights.
double storage(const Case& c, double magnitude) {
  const double ulp = size_of(c.dtypes.out) == 2 ? unit_in_last_place(c.dtypes.out, magnitude) : 0;
  return ulp + default_tolerance(c).element * magnitude;
}

// vllm#56578: tanh as (e^x − e^−x) / (e^x + e^−x) is NaN for large scores. Each score alone: the LSE is the capped
// logit.
TEST(A3_ScaleSoftcapPrecision, A3_1_SoftcapOfLargeScoresIsTheCap) {
  FT_FOR_EACH_SETTING(s) {
    for (double score : {1000.0, 3000.0, 4400.0, 5000.0, 10000.0, -10000.0, 60000.0}) {
      Case c({.keys = 1, .head_dim = 1, .value_dim = 1}, s.dtype);
      c.options.isa = s.isa, c.options.scale = 1.0, c.options.softcap = 50;
      c.q.fill_value(1), c.k.fill_value(score), c.v.fill_value(3);
      ASSERT_TRUE(runs_right(c)) << score;
      EXPECT_NEAR(c.lse.get(0, 0, 0), score > 0 ? 50 : -50, 50 * near_zero(s)) << score;
      EXPECT_NEAR(c.out.get(0, 0, 0, 0), 3, 3 * near_zero(s));
    }
  }
}

TEST(A3_ScaleSoftcapPrecision, A3_1_SaturatedScoresWeighTheSame) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.keys = 6, .head_dim = 1, .value_dim = 6}, s.dtype);
    c.fill_to_show_weights();
    c.options.isa = s.isa, c.options.scale = 1.0, c.options.softcap = 50;
    c.q.fill_value(1);
    c.k.copy_from(Array::of(DType::f64, {6}, {1000, 3000, 4400, 5000, 10000, -10000}));
    ASSERT_TRUE(runs_right(c));
    for (Index j = 0; j < 5; ++j) EXPECT_NEAR(c.out.get(0, 0, 0, j), 0.2, storage(c, 0.2)) << j;
    EXPECT_LT(c.out.get(0, 0, 0, 5), 1e-30);
  }
}

// Small scores pass the cap almost unchanged: tanh needs relative accuracy near 0.
TEST(A3_ScaleSoftcapPrecision, A3_1_SoftcapOfSmallScoresKeepsTheirDigits) {
  for (const Setting& s : settings({DType::f32, DType::f64})) {
    SCOPED_TRACE(s.text());
    for (double score : {1e-30, 1e-6, -3e-4, 0.01, -0.3, 1.0, 20.0, 49.0, -120.0}) {
      Case c({.keys = 1, .head_dim = 1, .value_dim = 1}, s.dtype);
      c.options.isa = s.isa, c.options.scale = 1.0, c.options.softcap = 50;
      c.q.fill_value(1), c.k.fill_value(score), c.v.fill_value(1);
      ASSERT_TRUE(c.run().ok());
      const double capped = 50 * std::tanh(c.k.get(0, 0, 0, 0) / 50);
      EXPECT_NEAR(c.logit_mean.get(0, 0, 0), capped, std::fabs(capped) * (s.dtype == DType::f64 ? 1e-13 : 1e-6)) << score;
    }
  }
}

Case thread_example(const Setting& s) {
  Case c({.keys = 3, .head_dim = 2, .value_dim = 1}, s.dtype);
  c.options.isa = s.isa, c.options.scale = 1.0, c.options.softcap = 2;
  c.q.copy_from(Array::of(DType::f64, {2}, {1, 2}));
  c.k.copy_from(Array::of(DType::f64, {6}, {3, 0.5, -1, 1, 0.25, -2}));
  c.v.copy_from(Array::of(DType::f64, {3}, {1, 2, 4}));
  return c;
}

// flash-attention PR #2402, #2544, #2466: the softcap formula.
TEST(A3_ScaleSoftcapPrecision, A3_2_SoftcapGivesTheNumbersOfTheThread) {
  FT_FOR_EACH_SETTING(s) {
    Case c = thread_example(s);
    ASSERT_TRUE(runs_right(c));
    EXPECT_NEAR(c.out.get(0, 0, 0, 0), 1.3106554933, storage(c, 1.3) + near_zero(s));
    EXPECT_NEAR(c.lse.get(0, 0, 0), 2.2559572902, near_zero(s));
  }
}

// The same threads: the cap comes after the scale and before bias and mask.
TEST(A3_ScaleSoftcapPrecision, A3_2_CapComesBeforeBias) {
  FT_FOR_EACH_SETTING(s) {
    Case c = thread_example(s);
    c.mask = Array::of(DType::f32, {1, 3}, {5, 0, -5});
    c.slopes = Array::of(DType::f32, {1}, {0.5});
    const double expected = std::log(std::exp(2 * std::tanh(2.0) + 5 - 1) + std::exp(2 * std::tanh(0.5) - 0.5) +
                                     std::exp(2 * std::tanh(-1.875) - 5));
    ASSERT_TRUE(runs_right(c));
    EXPECT_NEAR(c.lse.get(0, 0, 0), expected, 8 * near_zero(s));
  }
}

Case skainet(const Setting& s) {
  Case c({.queries = 3, .keys = 3, .head_dim = 2, .value_dim = 2}, s.dtype);
  c.options.isa = s.isa, c.options.causal = true;
  c.q.fill([n = 1]() mutable { return 0.1 * n++; });
  c.k.fill([n = 7]() mutable { return 0.1 * n++; });
  c.v.fill([n = 1]() mutable { return n++; });
  return c;
}

// SKaiNET#860: a default scale of 0 was used literally.
TEST(A3_ScaleSoftcapPrecision, A3_3_AbsentScaleIsOneOverRootOfHeadDim) {
  FT_FOR_EACH_SETTING(s) {
    Case c = skainet(s);
    ASSERT_TRUE(runs_right(c));
    const double want[3] = {1, 2.0494571, 3.2065858};
    const double inputs = size_of(s.dtype) == 2 ? 0.01 : 0;  // q and k are rounded to 16 bits
    for (Index i = 0; i < 3; ++i)
      for (Index d = 0; d < 2; ++d)
        EXPECT_NEAR(c.out.get(0, i, 0, d), want[i] + d, storage(c, 4) + 2e-7 + inputs) << i << ", " << d;
  }
}

TEST(A3_ScaleSoftcapPrecision, A3_3_ExplicitScaleMeansWhatItSays) {
  FT_FOR_EACH_SETTING(s) {
    Case zero = skainet(s);
    zero.options.scale = 0.0;
    ASSERT_TRUE(runs_right(zero));
    for (Index i = 0; i < 3; ++i)
      for (Index d = 0; d < 2; ++d) EXPECT_NEAR(zero.out.get(0, i, 0, d), 1 + i + d, 4 * near_zero(s));
    for (double scale : {-0.7, -30.0, 1e-30, 8.0}) {
      Case c({.queries = 5, .keys = 140, .q_heads = 2, .head_dim = 16, .value_dim = 9}, s.dtype);
      c.options.isa = s.isa, c.options.scale = scale;
      c.fill_normal(41);
      Tolerance t = default_tolerance(c);
      t.element *= 1 + std::fabs(scale), t.rms *= 1 + std::fabs(scale);  // errors of logits grow with the scale
      if (std::fabs(scale) >= 8) t.rounding = 2;
      EXPECT_TRUE(runs_right(c, t)) << scale;
    }
  }
}

// pytorch#116176, #119131, metal-flash-attention#8: q·k beyond the range of fp16.
TEST(A3_ScaleSoftcapPrecision, A3_4_ProductsBeyondF16StayFinite) {
  for (const Setting& s : settings({DType::f16})) {
    SCOPED_TRACE(s.text());
    const Shape shape{.queries = 128, .keys = 128, .head_dim = 64, .value_dim = 64};
    Case c(shape, s.dtype), wide(shape, DType::f32);
    c.options.isa = wide.options.isa = s.isa;
    c.q.fill_uniform(42, -900, 0), c.k.copy_from(c.q), c.v.fill_normal(43);
    wide.copy_inputs(c);
    Tolerance t = default_tolerance(c);
    t.element = 0.02, t.rms = 0.02;  // logits of 2e6 have a resolution of 0.1 in fp32; neighbours differ by far more
    ASSERT_TRUE(runs_right(c, t));
    ASSERT_TRUE(wide.run().ok());
    const std::vector<double> x = c.out.values(), y = wide.out.values();
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 0.02) << i;
    EXPECT_GT(c.lse.get(0, 0, 0), 65504);
  }
}

// llama.cpp PR #13975: an fp16 accumulator of P·V overflows beyond 32k keys.
TEST(A3_ScaleSoftcapPrecision, A3_5_FortyThousandEqualKeysAverageExactly) {
  for (const Setting& s : settings({DType::f16, DType::bf16})) {
    SCOPED_TRACE(s.text());
    Case c({.keys = 40000, .head_dim = 4, .value_dim = 2}, s.dtype);
    c.options.isa = s.isa;
    c.fill_normal(44), c.q.fill_value(0), c.v.fill_value(4);
    ASSERT_TRUE(c.run().ok());
    EXPECT_EQ(c.out.get(0, 0, 0, 0), 4);
    EXPECT_EQ(c.out.get(0, 0, 0, 1), 4);
    EXPECT_NEAR(c.lse.get(0, 0, 0), std::log(40000), 2e-6);
    EXPECT_NEAR(c.entropy.get(0, 0, 0), std::log(40000), 1e-5);
  }
}

// executorch PR #20089, tinygrad PR #12280, pytorch PR #128922: sums in bf16 stop at 256.
TEST(A3_ScaleSoftcapPrecision, A3_6_EqualWeightsOf512KeysAreExact) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.keys = 512, .head_dim = 4, .value_dim = 512}, s.dtype);
    c.fill_to_show_weights();
    c.options.isa = s.isa;
    ASSERT_TRUE(c.run().ok());
    for (Index j = 0; j < 512; ++j) ASSERT_EQ(c.out.get(0, 0, 0, j), 1.0 / 512) << j;
    EXPECT_EQ(c.largest_weight.get(0, 0, 0), 1.0 / 512);
    EXPECT_NEAR(c.lse.get(0, 0, 0), std::log(512), 6 * near_zero(s));
  }
}

// tinygrad PR #2425: a boolean mask was added as 1; the output cannot tell, the LSE can.
TEST(A3_ScaleSoftcapPrecision, A3_7_AllowingMaskLeavesTheLseAlone) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = 5, .keys = 50, .q_heads = 2};
    Case plain(shape, s.dtype), allowed(shape, s.dtype);
    for (Case* c : {&plain, &allowed}) c->options.isa = s.isa, c->fill_normal(45);
    allowed.mask = Array(DType::boolean, {5, 50}), allowed.mask.fill_value(1);
    EXPECT_TRUE(same_results(plain, allowed));
    EXPECT_TRUE(agrees(allowed, default_tolerance(allowed)));
  }
}

// mxnet#19361, pytorch#19652: weights of 1e-40. Nothing depends on the caller's FTZ and DAZ, and they are left as
// found.
TEST(A3_ScaleSoftcapPrecision, A3_8_FlushToZeroOfTheCallerNeitherMattersNorChanges) {
  FT_FOR_EACH_SETTING(s) {
    for (int threads : {1, 2}) {
      const Shape shape{.queries = 40, .keys = 200, .q_heads = 2, .head_dim = 1, .value_dim = 16};
      Case ordinary(shape, s.dtype), flushed(shape, s.dtype);
      for (Case* c : {&ordinary, &flushed}) {
        c->options.isa = s.isa, c->options.scale = 1.0, c->options.threads = threads;
        c->q.fill_value(1), c->k.fill_uniform(46, -110, 0), c->v.fill_normal(47);
      }
      const std::uint64_t before = fp_mode() & kModeBits;
      ASSERT_TRUE(runs_right(ordinary));
      EXPECT_EQ(fp_mode() & kModeBits, before);
      for (std::uint64_t bits : {kFlushToZero, kRoundUp}) {
        std::uint64_t inside = 0, after = 0;
        Status status;
        {
          const FpMode mode(bits);
          inside = fp_mode() & kModeBits;
          status = flushed.run();
          after = fp_mode() & kModeBits;
        }
        ASSERT_TRUE(status.ok()) << status.text;
        EXPECT_EQ(after, inside);
        for (std::size_t n = 0; n < ordinary.written().size(); ++n)
          EXPECT_TRUE(same_bits(*ordinary.written()[n], *flushed.written()[n])) << "output " << n << ", bits " << bits;
      }
    }
  }
}

}  // namespace
}  // namespace flashtile::testing
