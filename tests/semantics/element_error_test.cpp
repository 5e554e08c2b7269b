// How large the errors of single elements of O and LSE may be: never more than rounding can do, element by element, in
// every dtype, on every instruction set and for data that is hard in different ways. The inputs are the stored numbers,
// so that what is judged is the arithmetic and the rounding of the output.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/compare.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

/// A case and its exact answer, computed once for all engines.
template <class Real>
class Judged {
 public:
  explicit Judged(Case c) : case_(std::move(c)) {
    case_.outputs = Outputs::lse;
    const Options options = case_.wired();
    const Status status = try_problem(case_.q.view(), case_.k.view(), case_.v.view(), case_.out.view(), options, problem_);
    EXPECT_TRUE(status.ok()) << status.text;
    tensors_ = tensors_of(case_.q.view(), case_.k.view(), case_.v.view(), case_.out.view(), options);
    for (Index h = 0; h < case_.shape.q_heads; ++h)
      for (Index i = 0; i < case_.shape.queries; ++i)
        rows_.push_back(reference::attention_row<Real>(problem_, tensors_, problem_.sequences[0], h, i));
  }

  const Case& problem() const { return case_; }
  const reference::Row<Real>& row(Index h, Index i) const {
    return rows_[static_cast<std::size_t>(h * case_.shape.queries + i)];
  }

  /// Runs the case on each instruction set with kernels for its dtypes; judge(whether that one rounds the weights).
  template <class Judge>
  void on_every_engine(Judge judge) {
    int ran = 0;
    for (Isa isa : available_isas()) {
      case_.options.isa = isa;
      const PlanFacts facts = case_.planned().facts();
      if (std::string(facts.isa) != name_of_isa(isa)) continue;  // another one computes these dtypes
      const Status status = case_.run();
      ASSERT_TRUE(status.ok()) << status.text;
      const ::testing::ScopedTrace trace(__FILE__, __LINE__, reproduction(case_));
      ASSERT_NO_FATAL_FAILURE(judge(std::string(facts.arithmetic) == "amx"));
      ++ran;
    }
    EXPECT_GT(ran, 0);
  }

  /// scale · Σ_d |q_d| |k_jd|: what the rounding errors of a logit are proportional to.
  double magnitude(Index h, Index i, Index j) const {
    const Index kv = h / (case_.shape.q_heads / case_.shape.kv_heads);
    double sum = 0;
    for (Index d = 0; d < case_.shape.head_dim; ++d)
      sum += std::fabs(element(tensors_.q, case_.dtypes.q, problem_.q.at(0, i, h) + d) *
                       element(tensors_.k, case_.dtypes.k, problem_.k.at(0, j, kv) + d));
    return std::fabs(problem_.scale) * sum;
  }

 private:
  Case case_;
  Problem problem_;
  Tensors tensors_;
  std::vector<reference::Row<Real>> rows_;
};

/// Rounding cannot do more to O than
///   2 · Σ_j p_j e_j |v_j − O|  +  c u · Σ_j p_j |v_j|  +  2^−125 · max |v|,   e_j = u · (D + 2) · scale · Σ_d |q_d k_jd|,
/// and to LSE than 2 · Σ_j p_j e_j + 4 u · (1 + |LSE|). e_j is the error of a logit: D roundings of the dot product, one
/// of the factor, one of their product; to first order its constant is 1. c = 4 + √n for n visible keys, at most 128 (a
/// block), is for all that follows: n roundings of a sum make up √n together where one key has nearly all the weight and
/// the others are added to it; 4 for the exponential, blocks, chunks and the division. amx rounds the weights to bf16
/// besides, each by 2^−8 at most, and divides by the sum of the rounded ones.
constexpr double kOfLogits = 2, kOfLse = 4;
double of_sums(std::size_t keys) { return 4 + std::sqrt(static_cast<double>(std::min<std::size_t>(keys, 128))); }

/// What the bound of one row is made of.
struct Terms {
  std::vector<Index> keys;  // those with a weight
  std::vector<double> weights, logit_errors;
  double lse = 0;  // Σ p_j e_j
};

template <class Real>
Terms terms_of(const Judged<Real>& judged, Index h, Index i, double u) {
  const Case& c = judged.problem();
  Terms t;
  for (Index j = 0; j < c.shape.keys; ++j) {
    const double p = static_cast<double>(judged.row(h, i).weights[static_cast<std::size_t>(j)]);
    if (p == 0) continue;
    t.keys.push_back(j), t.weights.push_back(p);
    t.logit_errors.push_back(u * static_cast<double>(c.shape.head_dim + 2) * judged.magnitude(h, i, j));
    t.lse += p * t.logit_errors.back();
  }
  return t;
}

template <class Real>
void expect_row_within_bound(const Judged<Real>& judged, bool amx, Index h, Index i, double largest_value) {
  const Case& c = judged.problem();
  const reference::Row<Real>& row = judged.row(h, i);
  const bool wide = c.dtypes.q == DType::f64;
  const double u = wide ? 0x1p-53 : 0x1p-24, tiny = wide ? 0x1p-1021 : 0x1p-125;
  const Terms t = terms_of(judged, h, i, u);
  for (Index d = 0; d < c.shape.value_dim; ++d) {
    const Real exact = row.out[static_cast<std::size_t>(d)];
    double logits = 0, sums = 0, away = 0;
    for (std::size_t n = 0; n < t.keys.size(); ++n) {
      const double v = c.v.get(0, t.keys[n], h / (c.shape.q_heads / c.shape.kv_heads), d);
      const double difference = t.weights[n] * std::fabs(v - static_cast<double>(exact));
      logits += t.logit_errors[n] * difference, sums += t.weights[n] * std::fabs(v), away += difference;
    }
    const double rounded_weights = amx ? away * 0x1p-8 / (1 - 0x1p-8) : 0;
    const double bound = kOfLogits * logits + of_sums(t.keys.size()) * u * sums + tiny * largest_value + rounded_weights;
    const double farthest = std::fabs(static_cast<double>(exact)) + bound;
    const double storage = size_of(c.dtypes.out) == 2 ? unit_in_last_place(c.dtypes.out, farthest) / 2 : 0;
    const double error = std::fabs(static_cast<double>(Real(c.out.get(0, i, h, d)) - exact));
    ASSERT_LE(error, bound + storage) << place(0, h, i, d);
  }
  const double error = std::fabs(static_cast<double>(Real(c.lse.get(0, h, i)) - row.lse));
  if (t.keys.empty()) ASSERT_EQ(c.lse.get(0, h, i), -HUGE_VAL) << place(0, h, i);
  else ASSERT_LE(error, kOfLogits * t.lse + kOfLse * u * (1 + std::fabs(static_cast<double>(row.lse)))) << place(0, h, i);
}

template <class Real>
void expect_within_bound(Case c) {
  double largest_value = 0;
  for (double x : c.v.values()) largest_value = std::max(largest_value, std::fabs(x));
  Judged<Real> judged(std::move(c));
  const Shape& shape = judged.problem().shape;
  judged.on_every_engine([&](bool amx) {
    for (Index h = 0; h < shape.q_heads; ++h)
      for (Index i = 0; i < shape.queries; ++i)
        ASSERT_NO_FATAL_FAILURE(expect_row_within_bound(judged, amx, h, i, largest_value));
  });
}

enum class Data { normal, peaked, large_logits, positive_values };

void fill(Case& c, Data data, std::uint64_t seed) {
  c.fill_normal(seed);
  if (data == Data::peaked) c.q.fill_normal(seed + 100, 8);  // logits of deviation 8: few keys have all the weight
  if (data == Data::large_logits) {                          // around −1000, a common part that softmax removes
    Random random(seed + 200);
    const double common = std::sqrt(1000 / std::sqrt(static_cast<double>(c.shape.head_dim)));
    c.k.fill([&] { return random.normal() + common; });
    c.q.fill([&] { return random.normal() - common; });
  }
  if (data == Data::positive_values) c.v.fill_uniform(seed + 300, 0.5, 1.5);  // sums as large as they can be
}

class ElementError : public ::testing::TestWithParam<Data> {};

TEST_P(ElementError, IsWithinWhatRoundingCanDo) {
  const DTypes kinds[] = {DType::f32,
                          DTypes(DType::bf16, DType::bf16, DType::bf16, DType::f32),
                          DTypes(DType::f16, DType::f16, DType::f16, DType::f32),
                          DType::bf16,
                          DType::f16,
                          DType::f64};
  const Shape shapes[] = {{1, 90, 3, 2, 1, 4, 8},
                          {1, 49, 130, 2, 1, 8, 20},
                          {1, 5, 1100, 4, 2, 64, 64},
                          {1, 20, 600, 1, 1, 128, 40},
                          {1, 3, 513, 2, 2, 320, 17}};
  std::uint64_t seed = 1;
  for (const DTypes& dtypes : kinds)
    for (const Shape& shape : shapes) {
      if (++seed % 4 != 0 && small_grid()) continue;
      Case c(shape, dtypes);
      fill(c, GetParam(), seed);
      c.options.causal = seed % 2 == 0 && shape.keys >= shape.queries;
      if (dtypes.q == DType::f64) expect_within_bound<long double>(std::move(c));
      else expect_within_bound<double>(std::move(c));
    }
}

std::string name_of_data(const ::testing::TestParamInfo<Data>& info) {
  constexpr const char* kNames[] = {"Normal", "Peaked", "LargeLogits", "PositiveValues"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(All, ElementError,
                         ::testing::Values(Data::normal, Data::peaked, Data::large_logits, Data::positive_values),
                         name_of_data);

}  // namespace
}  // namespace flashtile::testing
