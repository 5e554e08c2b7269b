// The parts of the command that can be wrong quietly: bounds, the comparison with the definition, slopes, roundings.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "alibi.h"
#include "bound.h"
#include "check.h"
#include "convert.h"
#include "failure.h"
#include "parse.h"
#include "problem/number.h"
#include "units.h"
#include "verify.h"
#include "verify_call.h"

namespace flashtile::cli {
namespace {

TEST(Bound, HasTheDocumentedValues) {
  EXPECT_NEAR(bound({.head_dim = 64}), 3.8e-7, 1e-15);
  EXPECT_NEAR(bound({.head_dim = 128}), 4.7e-7, 1e-15);
  EXPECT_DOUBLE_EQ(bound({.inputs = DType::f64, .output = DType::f64, .head_dim = 64}), 1e-15);
  const Accuracy half = {.inputs = DType::f16, .output = DType::f16, .rounding_output = 2e-4, .rounding_inputs = 2e-4};
  EXPECT_NEAR(bound(half), 1.02 * 2e-4, 1e-8);
  Accuracy tile = half;
  tile.inputs = tile.output = DType::bf16, tile.family = Family::amx;
  EXPECT_NEAR(bound(tile), 1.45 * 2e-4, 1e-8);
  tile.output = DType::f32, tile.rounding_output = 0;
  EXPECT_NEAR(bound(tile), 1.05 * 2e-4, 1e-8);
}

TEST(Bound, GrowsWithWhatIsRoundedAndWithLittleElse) {
  EXPECT_NEAR(normal_growth(64), 32.5 + 65.0 * 129 / 384 + 2, 1e-12);
  EXPECT_NEAR(fp32_bound(64, 10) / std::sqrt(normal_growth(64)) / 10, 3.8e-8, 0.1e-8);  // all of it, and 2^-24 / √3
  EXPECT_LT(fp32_bound(1), 2.8e-7);
  EXPECT_NEAR(bound({.cancellation = 3}), 3 * 3.8e-7, 1e-15);
  EXPECT_EQ(scatter(65536), 1);
  EXPECT_EQ(scatter(1e9), 1);
  EXPECT_NEAR(scatter(64), 4.875, 1e-12);
}

class Check : public ::testing::TestWithParam<DType> {
 protected:
  static Call computed(DType dtype) {
    Call call({.batch = 2, .queries = 20, .keys = 70, .heads = 2, .kv_heads = 1, .head_dim = 16, .value_dim = 12}, dtype,
              dtype);
    call.fill_normal(5);
    call.options.causal = true;
    call.options.arithmetic = Arithmetic::fma;
    require(call.run());
    return call;
  }
  static CheckResult judged(Call& call) {
    return check(call.q.view(), call.k.view(), call.v.view(), call.out.view(), call.wired(), Family::fma, 2, false);
  }
  static double at(const files::Array& a, std::int64_t i) { return element(a.bytes.data(), a.dtype, i); }
};

TEST_P(Check, RightOutputsPass) {
  Call call = computed(GetParam());
  const CheckResult r = judged(call);
  EXPECT_TRUE(r.passed()) << r.relative_rms << " " << r.rms_bound << " " << r.worst_element << " " << r.lse_max_abs << " "
                          << r.lse_bound;
  EXPECT_EQ(r.rows, 2 * 20 * 2);
}

TEST_P(Check, EachOfManyKindsOfWrongOutputFails) {
  const DType dtype = GetParam();
  const double unit = dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
  Call one = computed(dtype);  // one element
  store(at(one.out, 100) + 100 * unit, dtype, one.out.bytes.data(), 100);
  EXPECT_FALSE(judged(one).passed());

  Call all = computed(dtype);  // every element by a few roundings
  for (std::int64_t i = 0; i < all.out.elements(); ++i)
    store(at(all.out, i) * (1 + 4 * unit), dtype, all.out.bytes.data(), i);
  if (dtype == DType::f32 || dtype == DType::f64)
    for (std::int64_t i = 0; i < all.out.elements(); ++i)
      store(at(all.out, i) * (1 + 8 * unit), dtype, all.out.bytes.data(), i);
  EXPECT_FALSE(judged(all).passed());

  Call nan = computed(dtype);
  store(NAN, dtype, nan.out.bytes.data(), 7);
  EXPECT_FALSE(judged(nan).passed());
  EXPECT_EQ(judged(nan).disagreements, 1);

  Call lse = computed(dtype);
  store(at(lse.lse, 3) + 1e-3, lse.lse.dtype, lse.lse.bytes.data(), 3);
  EXPECT_FALSE(judged(lse).passed());

  Call swapped = computed(dtype);  // two rows
  for (std::int64_t d = 0; d < 12; ++d) {
    const double a = at(swapped.out, 240 + d), b = at(swapped.out, 252 + d);
    store(b, dtype, swapped.out.bytes.data(), 240 + d), store(a, dtype, swapped.out.bytes.data(), 252 + d);
  }
  EXPECT_FALSE(judged(swapped).passed());
}

INSTANTIATE_TEST_SUITE_P(DTypes, Check, ::testing::Values(DType::f64, DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Check, InfinitiesAndNansOfTheAnswerItselfPass) {
  Call call({.batch = 1, .queries = 3, .keys = 4, .heads = 1, .kv_heads = 1, .head_dim = 2, .value_dim = 2}, DType::f32,
            DType::f32);
  call.fill_normal(1);
  store(NAN, DType::f32, call.q.bytes.data(), 2);  // row 1
  call.options.window = {.left = -1, .right = 0};
  require(call.run());
  const CheckResult r =
      check(call.q.view(), call.k.view(), call.v.view(), call.out.view(), call.wired(), Family::fma, 1, false);
  EXPECT_TRUE(r.passed());
  EXPECT_EQ(r.not_finite, 3);  // two elements of O, one LSE
}

// Case A2.9: slopes for head counts that are no powers of two.
TEST(Alibi, SlopesOfSixAndTwelveHeadsAreThoseOfThePaper) {
  EXPECT_EQ(alibi_slopes(6), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  const std::vector<float> twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  EXPECT_EQ(twelve[0], 0.5f);
  EXPECT_EQ(twelve[7], 0.00390625f);
  const double rest[] = {0.70710678, 0.35355339, 0.17677670, 0.08838835};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(twelve[8 + i], rest[i], 1e-7);
  EXPECT_EQ(alibi_slopes(1), std::vector<float>{0.00390625f});
  EXPECT_EQ(alibi_slopes(8)[0], 0.5f);
  EXPECT_TRUE(alibi_slopes(0).empty());
}

TEST(Store, RoundsOnceFromTheExactValue) {
  std::uint16_t bits = 0;
  // 1 + 2^-8 + 2^-40 lies just above the middle of two bf16 numbers; rounding to fp32 first would lose the 2^-40.
  store(1 + 0x1p-8 + 0x1p-40, DType::bf16, &bits, 0);
  EXPECT_EQ(element(&bits, DType::bf16, 0), 1 + 0x1p-7);
  store(1 + 0x1p-8, DType::bf16, &bits, 0);
  EXPECT_EQ(element(&bits, DType::bf16, 0), 1);
  store(-1 - 0x1p-11 - 0x1p-45, DType::f16, &bits, 0);
  EXPECT_EQ(element(&bits, DType::f16, 0), -1 - 0x1p-10);
  store(1e300, DType::f16, &bits, 0);
  EXPECT_TRUE(std::isinf(element(&bits, DType::f16, 0)));
  store(NAN, DType::bf16, &bits, 0);
  EXPECT_TRUE(std::isnan(element(&bits, DType::bf16, 0)));
}

TEST(NormalArray, HasMeanZeroAndDeviationOneAndDependsOnTheSeed) {
  const files::Array a = normal_array("a", DType::f64, {1001, 101}, 1), b = normal_array("b", DType::f64, {1001, 101}, 2);
  const auto at = [](const files::Array& x, std::int64_t i) { return element(x.bytes.data(), x.dtype, i); };
  double sum = 0, squares = 0, product = 0;
  const auto n = static_cast<double>(a.elements());
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    sum += at(a, i), squares += at(a, i) * at(a, i), product += at(a, i) * at(b, i);
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(product / n, 0, 0.02);
}

TEST(Parse, ValuesAreTakenWholeOrRefused) {
  EXPECT_EQ(parse_window("--window", "-1,7").right, 7);
  for (const char* const text : {"", "1", "1,", "1,2,3", "1.5,0", "-2,0", "1, 2", "99999999999999999999,0"})
    EXPECT_THROW(parse_window("--window", text), UsageError) << text;
  for (const char* const text : {"", "x", "1e", "1x", "nan", "inf", " 1"})
    EXPECT_THROW(parse_number("--scale", text), UsageError) << text;
  EXPECT_EQ(parse_number("--scale", "-1e-3"), -1e-3);
  EXPECT_EQ(parse_shape("--q", "1x2048x8x128").sizes, (std::vector<std::int64_t>{1, 2048, 8, 128}));
  for (const char* const text : {"1x2", "1x2x3x4x5", "1x2x3x-4", "1x2x3x", "1+2x3x4x5", "1048576x1048576x1048576x1048576"})
    EXPECT_THROW(parse_shape("--q", text), UsageError) << text;
}

TEST(Parse, LengthsOfPackedSequencesAddUp) {
  const TypedShape some = parse_shape("--q", "17+300+3*5+0x8x64");
  EXPECT_TRUE(some.packed());
  EXPECT_EQ(some.lengths, (std::vector<std::int64_t>{17, 300, 5, 5, 5, 0}));
  EXPECT_EQ(some.sizes, (std::vector<std::int64_t>{332, 8, 64}));
  EXPECT_EQ(parse_shape("--q", "17x8x64").lengths, std::vector<std::int64_t>{17});
  EXPECT_TRUE(parse_shape("--q", "0*17x8x64").lengths.empty());
  EXPECT_FALSE(parse_shape("--q", "1x17x8x64").packed());
  EXPECT_EQ(parse_shape("--q", "1048576*2047x1x1").sizes[0], 2146435072);
  for (const char* const text : {"+1x2x3", "1+x2x3", "1++2x2x3", "*2x2x3", "2*x2x3", "2*3*4x2x3", "-1x2x3", "1-2x2x3",
                                 "x2x3", "1048577*1x2x3", "2147483648x1x1", "1048576*2048x1x1", "2*1099511627776x0x1"})
    EXPECT_THROW(parse_shape("--q", text), UsageError) << text;
}

TEST(Units, NumbersReadWell) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(seconds_text(0.0025), "2.50 ms");
}

TEST(Property, WithoutCasesOrWithAFailureDoesNotHold) {
  Findings none(false), failed(false), held(false);
  Property property{"p"};
  none.add(property);
  EXPECT_FALSE(none.passed());
  property.expect(true, [] { return std::string(); });
  held.add(property);
  EXPECT_TRUE(held.passed());
  property.expect(false, [] { return std::string("this one"); });
  failed.add(property);
  EXPECT_FALSE(failed.passed());
  EXPECT_EQ(property.first_failure, "this one");
}

}  // namespace
}  // namespace flashtile::cli
