// Changes of a problem whose effect on the answer is known without computing it: equal bits where the change is exact,
// the bounds of rounding elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

constexpr Shape kShape = {
    .batch = 1, .queries = 30, .keys = 90, .q_heads = 2, .kv_heads = 1, .head_dim = 20, .value_dim = 18};

Case plain(const Setting& s, Index keys = kShape.keys) {
  Shape shape = kShape;
  shape.keys = keys;
  Case c(shape, s.dtype);
  c.fill_normal(8);
  c.options.isa = s.isa;
  return c;
}

/// Copies key and value `from` of a to key `to` of b.
void copy_key(const Case& a, Index from, Case& b, Index to) {
  for (Index d = 0; d < kShape.head_dim; ++d) b.k.set(a.k.get(0, from, 0, d), 0, to, 0, d);
  for (Index d = 0; d < kShape.value_dim; ++d) b.v.set(a.v.get(0, from, 0, d), 0, to, 0, d);
}

/// Every LSE of b is a's plus `lse`, every out is a's · factor + shift, within rounding.
::testing::AssertionResult follows(Case& a, Case& b, double lse, double factor = 1, double shift = 0) {
  if (!a.run().ok() || !b.run().ok()) return ::testing::AssertionFailure() << "refused";
  const bool amx = std::string(a.planned().facts().arithmetic) == "amx";
  const double storage = a.dtypes.out == DType::bf16 ? 0x1p-7 : a.dtypes.out == DType::f16 ? 0x1p-10 : 0;
  const double near = a.dtypes.q == DType::f64 ? 1e-13 : 4e-6;
  for (Index h = 0; h < kShape.q_heads; ++h)
    for (Index i = 0; i < kShape.queries; ++i) {
      if (!(std::fabs(b.lse.get(0, h, i) - a.lse.get(0, h, i) - lse) <= near * (1 + std::fabs(lse))))
        return ::testing::AssertionFailure() << "lse " << b.lse.get(0, h, i) << ", was " << a.lse.get(0, h, i);
      for (Index d = 0; d < kShape.value_dim; ++d) {
        const double want = a.out.get(0, i, h, d) * factor + shift, got = b.out.get(0, i, h, d);
        const double allowed = (near + storage + (amx ? 0x1p-6 : 0)) * (1 + std::fabs(want) + std::fabs(shift));
        if (!(std::fabs(got - want) <= allowed))
          return ::testing::AssertionFailure() << "out " << got << "; expected " << want << " ± " << allowed;
      }
    }
  return ::testing::AssertionSuccess();
}

TEST(Metamorphic, KeysInAnotherOrder) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s);
    for (Index j = 0; j < kShape.keys; ++j) copy_key(a, j, b, (j * 37 + 11) % kShape.keys);
    ASSERT_TRUE(follows(a, b, 0));
  }
}

TEST(Metamorphic, EveryKeyTwiceAddsLn2ToTheLse) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s, 2 * kShape.keys);
    for (Index j = 0; j < 2 * kShape.keys; ++j) copy_key(a, j / 2, b, j);
    ASSERT_TRUE(follows(a, b, std::log(2.0)));
  }
}

TEST(Metamorphic, AConstantInTheBiasMovesTheLseAlone) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s);
    for (Case* c : {&a, &b}) {
      c->mask = Array(DType::f32, {1, 1, kShape.queries, kShape.keys});
      Random random(3);
      c->mask.fill([&] { return static_cast<double>(random.integer(-3, 3)) + (c == &b ? 4 : 0); });
    }
    ASSERT_TRUE(follows(a, b, 4));
  }
}

TEST(Metamorphic, AConstantInTheValuesMovesTheOutput) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s);
    Random random(4);
    a.v.fill([&] { return static_cast<double>(random.integer(-8, 8)); });
    for (Index j = 0; j < kShape.keys; ++j)
      for (Index d = 0; d < kShape.value_dim; ++d) b.v.set(a.v.get(0, j, 0, d) + 16, 0, j, 0, d);
    ASSERT_TRUE(follows(a, b, 0, 1, 16));
  }
}

TEST(Metamorphic, PowersOfTwoMoveFromQueriesToScaleAndFromValuesToOutputExactly) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s);
    a.options.scale = 0.3, b.options.scale = 0.3 / 8;
    for (Index i = 0; i < kShape.queries; ++i)
      for (Index h = 0; h < kShape.q_heads; ++h)
        for (Index d = 0; d < kShape.head_dim; ++d) b.q.set(8 * a.q.get(0, i, h, d), 0, i, h, d);
    ASSERT_TRUE(same_results(a, b));
    for (Index j = 0; j < kShape.keys; ++j)
      for (Index d = 0; d < kShape.value_dim; ++d) b.v.set(4 * a.v.get(0, j, 0, d), 0, j, 0, d);
    ASSERT_TRUE(b.run().ok());
    for (Index i = 0; i < kShape.queries; ++i)
      for (Index h = 0; h < kShape.q_heads; ++h)
        for (Index d = 0; d < kShape.value_dim; ++d) {
          if (std::fabs(a.out.get(0, i, h, d)) < 1e-3) continue;  // subnormal fp16 lacks the last bits
          ASSERT_EQ(b.out.get(0, i, h, d), 4 * a.out.get(0, i, h, d));
        }
  }
}

TEST(Metamorphic, HiddenKeysThatAreAppendedChangeNoBit) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s, kShape.keys + 77);
    for (Index j = 0; j < kShape.keys; ++j) copy_key(a, j, b, j);
    a.outputs = b.outputs = Outputs::lse;
    b.key_lengths = Array::ints({kShape.keys});
    ASSERT_TRUE(same_results(a, b));
  }
}

TEST(Metamorphic, ASinkIsAKeyWithoutAValue) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s, kShape.keys + 1), b = plain(s);
    for (Index j = 0; j < kShape.keys; ++j) copy_key(b, j, a, j);
    a.mask = Array(DType::f32, {1, 1, 1, kShape.keys + 1});
    a.mask.fill_value(0), a.mask.set(2.5, 0, 0, 0, kShape.keys);
    for (Index d = 0; d < kShape.head_dim; ++d) a.k.set(0, 0, kShape.keys, 0, d);
    for (Index d = 0; d < kShape.value_dim; ++d) a.v.set(0, 0, kShape.keys, 0, d);
    b.sinks = Array(DType::f32, {kShape.q_heads});
    b.sinks.fill_value(2.5);
    ASSERT_TRUE(follows(a, b, 0));
  }
}

TEST(Metamorphic, AlibiIsABias) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s);
    a.slopes = Array(DType::f32, {kShape.q_heads});
    a.slopes.set(0.5, 0), a.slopes.set(0.125, 1);
    b.mask = Array(DType::f32, {1, kShape.q_heads, kShape.queries, kShape.keys});
    for (Index h = 0; h < kShape.q_heads; ++h)
      for (Index i = 0; i < kShape.queries; ++i)
        for (Index j = 0; j < kShape.keys; ++j)
          b.mask.set(-a.slopes.get(h) * std::fabs(static_cast<double>(i + kShape.keys - kShape.queries - j)), 0, h, i, j);
    ASSERT_TRUE(same_results(a, b));
  }
}

TEST(Metamorphic, StatisticsKeepTheirBoundsAndSums) {
  FT_FOR_EACH_SETTING(s) {
    Case c = plain(s);
    c.options.causal = true;
    ASSERT_TRUE(c.run().ok());
    for (Index h = 0; h < kShape.q_heads; ++h) {
      double sum = 0;
      for (Index j = 0; j < kShape.keys; ++j) sum += c.key_weights.get(0, h, j);
      ASSERT_NEAR(sum, kShape.queries, 1e-4);
      for (Index i = 0; i < kShape.queries; ++i) {
        const double visible = static_cast<double>(i + 1 + kShape.keys - kShape.queries);
        ASSERT_LE(c.entropy.get(0, h, i), std::log(visible) * (1 + 1e-5));
        ASSERT_GE(c.largest_weight.get(0, h, i) * (1 + 1e-5), std::exp(-c.entropy.get(0, h, i)));
        ASSERT_LE(c.largest_weight.get(0, h, i), 1 + 1e-6);
      }
    }
  }
}

TEST(Metamorphic, DropoutOfNothingChangesNoBit) {
  FT_FOR_EACH_SETTING(s) {
    Case a = plain(s), b = plain(s);
    b.options.dropout = {0, 77, 1};
    ASSERT_TRUE(same_results(a, b));
  }
}

}  // namespace
}  // namespace flashtile::testing
