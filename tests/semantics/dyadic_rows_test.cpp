// Exact problems in which every row has weights of its own. A row's visible keys have integer logits with Σ 2^s a power of
// two, its hidden keys have far larger ones, and the values are small integers. So O equals rational arithmetic bit for bit
// and LSE is a multiple of ln 2, whatever hides the keys, in whatever order they come, in every dtype, on every
// instruction set: a key too many or too few, or one of another head or row, cannot hide behind a tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "support/compare.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

enum class Hide { nothing, causal, causal_top_left, window, mask };

constexpr int kLeast = -12;  // of a logit: the weights of a row are multiples of 2^−12 and exact in every format
constexpr int kHidden = 9;   // of a logit: weighs 512 times all visible ones
constexpr Index kLeft = 20, kRight = 7, kBatch = 2, kHeads = 4, kKvHeads = 2, kValueDim = 19;

bool visible_to(Hide hide, Index offset, Index i, Index j) {
  switch (hide) {
    case Hide::causal: return j <= i + offset;
    case Hide::causal_top_left: return j <= i;
    case Hide::window: return i + offset - kLeft <= j && j <= i + offset + kRight;
    case Hide::mask: return (i * 5 + j * j + j / 3) % 7 > 2;
    case Hide::nothing: break;
  }
  return true;
}

/// n integers from kLeast to 0 with Σ 2^s = 1, shuffled: {0}, of which a random one is split n − 1 times,
/// 2^s = 2^(s−1) + 2^(s−1).
std::vector<int> parts_of_one(Index n, Random& random) {
  std::vector<int> logits;
  if (n > 0) logits.push_back(0);
  const auto pick = [&](std::size_t count) {
    return static_cast<std::size_t>(random.integer(0, static_cast<Index>(count) - 1));
  };
  while (static_cast<Index>(logits.size()) < n) {
    const std::size_t at = pick(logits.size());
    if (logits[at] == kLeast) continue;
    logits.push_back(--logits[at]);
  }
  for (std::size_t i = logits.size(); i > 1; --i) std::swap(logits[i - 1], logits[pick(i)]);
  return logits;
}

/// Query i reads column i of K, its logits, and adds a constant of its own: column `queries` of K is 1.
class ExactRows {
 public:
  ExactRows(Hide hide, Index queries, Index keys, DType dtype)
      : hide_(hide), case_({kBatch, queries, keys, kHeads, kKvHeads, queries + 1, kValueDim}, dtype) {
    Random random(static_cast<std::uint64_t>(1000 * queries + keys));
    case_.q.fill_value(0), case_.k.fill_value(1);
    case_.v.fill([&] { return static_cast<double>(random.integer(-8, 8)); });
    for (Index b = 0; b < kBatch; ++b) {
      for (Index h = 0; h < kKvHeads; ++h)
        for (Index i = 0; i < queries; ++i) fill_column(b, h, i, random);
      for (Index h = 0; h < kHeads; ++h)
        for (Index i = 0; i < queries; ++i)
          case_.q.set(1, b, i, h, i), case_.q.set(static_cast<double>(random.integer(-20, 20)), b, i, h, queries);
    }
    add_options();
    for (Index b = 0; b < kBatch; ++b)
      for (Index h = 0; h < kHeads; ++h)
        for (Index i = 0; i < queries; ++i) want_.push_back(answer(b, h, i));
  }

  void expect_exact(Isa isa) {
    SCOPED_TRACE(name_of_isa(isa));
    case_.options.isa = isa;
    const Status status = case_.run();
    ASSERT_TRUE(status.ok()) << status.text;
    std::size_t row = 0;
    for (Index b = 0; b < kBatch; ++b)
      for (Index h = 0; h < kHeads; ++h)
        for (Index i = 0; i < case_.shape.queries; ++i) ASSERT_NO_FATAL_FAILURE(expect_row(want_[row++], b, h, i));
  }

 private:
  /// Key j of batch entry 1 is the last but j of entry 0 where positions do not matter.
  Index order(Index b, Index j) const {
    const bool free = hide_ == Hide::nothing || hide_ == Hide::mask;
    return b == 1 && free ? case_.shape.keys - 1 - j : j;
  }
  bool visible(Index b, Index i, Index j) const {
    return visible_to(hide_, case_.shape.keys - case_.shape.queries, i, order(b, j));
  }
  void fill_column(Index b, Index h, Index i, Random& random) {
    Index count = 0;
    for (Index j = 0; j < case_.shape.keys; ++j) count += visible(b, i, j) ? 1 : 0;
    std::vector<int> parts = parts_of_one(count, random);
    for (Index j = 0; j < case_.shape.keys; ++j) {
      case_.k.set(kHidden, b, j, h, i);
      if (visible(b, i, j)) case_.k.set(parts.back(), b, j, h, i), parts.pop_back();
    }
  }
  void add_options() {
    Options& o = case_.options;
    o.scale = std::numbers::ln2;  // in base 2 a factor of exactly 1
    o.causal = hide_ == Hide::causal || hide_ == Hide::causal_top_left;
    if (hide_ == Hide::causal_top_left) o.alignment = Alignment::top_left;
    if (hide_ == Hide::window) o.window = {kLeft, kRight};
    if (hide_ != Hide::mask) return;
    case_.mask = Array(DType::boolean, {kBatch, 1, case_.shape.queries, case_.shape.keys});
    for (Index b = 0; b < kBatch; ++b)
      for (Index i = 0; i < case_.shape.queries; ++i)
        for (Index j = 0; j < case_.shape.keys; ++j) case_.mask.set(visible(b, i, j), b, 0, i, j);
  }

  /// O = Σ 2^s v over the visible keys, in integers, as it is stored; then LSE.
  std::vector<double> answer(Index b, Index h, Index i) const {
    const Index kv = h / (kHeads / kKvHeads);
    Index sums[kValueDim] = {}, total = 0;  // in units of 2^−12
    for (Index j = 0; j < case_.shape.keys; ++j) {
      if (!visible(b, i, j)) continue;
      const Index weight = Index{1} << (static_cast<int>(case_.k.get(b, j, kv, i)) - kLeast);
      total += weight;
      for (Index d = 0; d < kValueDim; ++d) sums[d] += weight * static_cast<Index>(case_.v.get(b, j, kv, d));
    }
    EXPECT_TRUE(total == 0 || total == Index{1} << -kLeast) << "not a dyadic row";
    std::vector<double> out;
    for (Index sum : sums) out.push_back(rounded(case_.dtypes.out, std::ldexp(static_cast<double>(sum), kLeast)));
    out.push_back(total == 0 ? -HUGE_VAL : case_.q.get(b, i, h, case_.shape.queries) * std::numbers::ln2);
    return out;
  }
  void expect_row(const std::vector<double>& want, Index b, Index h, Index i) const {
    for (Index d = 0; d < kValueDim; ++d)
      ASSERT_EQ(case_.out.get(b, i, h, d), want[static_cast<std::size_t>(d)]) << place(b, h, i, d) << "\n"
                                                                              << reproduction(case_);
    const double got = case_.lse.get(b, h, i), lse = want.back();
    const bool rounds = lse != 0 && std::isfinite(lse);  // ln 1 and −∞ are exact
    const double unit = rounds ? unit_in_last_place(case_.lse.dtype(), lse) : 0;
    ASSERT_TRUE(got == lse || std::fabs(got - lse) <= unit)
        << place(b, h, i) << " LSE = " << got << "; expected " << lse << "\n"
        << reproduction(case_);
  }

  Hide hide_;
  Case case_;
  std::vector<std::vector<double>> want_;  // (batch, head, query): O, then LSE
};

class DyadicRows : public ::testing::TestWithParam<Hide> {};

TEST_P(DyadicRows, EqualRationalArithmeticBitForBit) {
  const std::vector<Index> keys = small_grid() ? std::vector<Index>{7, 130} : std::vector<Index>{1, 7, 64, 130, 513, 700};
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (Index n : keys)
      for (Index queries : {3, 50}) {
        ExactRows rows(GetParam(), queries, n, dtype);
        for (Isa isa : available_isas()) ASSERT_NO_FATAL_FAILURE(rows.expect_exact(isa));
      }
}

std::string name_of_hide(const ::testing::TestParamInfo<Hide>& info) {
  constexpr const char* kNames[] = {"Nothing", "Causal", "CausalTopLeft", "Window", "Mask"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(WhatHides, DyadicRows,
                         ::testing::Values(Hide::nothing, Hide::causal, Hide::causal_top_left, Hide::window, Hide::mask),
                         name_of_hide);

}  // namespace
}  // namespace flashtile::testing
