// Holds the results of a Case against the definition (reference/attention.h, fp64; long double for fp64 inputs): O,
// LSE, every row statistic and the column sums of the weights. A failure names the worst element and the problem in one
// line.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "reference/attention.h"
#include "support/case.h"

namespace flashtile::testing {

/// |Δ| ≤ absolute · scale + ulps · (half the distance of storage numbers), and relative rms over all of O.
struct Tolerance {
  double element = 0;   // of O, in units of the largest |v|
  double rms = 0;       // of O, relative, before rounding to storage
  double rounding = 1;  // of O: allowed rms over that of rounding the exact answer (16-bit outputs)
  double logit = 0;     // of LSE, means, deviations, entropies: absolute at |logit| ≤ 1, relative beyond
  double weight = 0;    // of weights and their column sums: relative, with an absolute floor of the same size
  Index row_step = 1;   // compare every row_step-th row only; column sums need 1
};

inline Tolerance tolerance_for(DTypes dtypes, bool amx) {
  if (dtypes.q == DType::f64) return {1e-12, 1e-13, 1, 1e-12, 1e-12, 1};
  // amx rounds weights to bf16: a relative error of up to 2^−8 in each, and so in O against the largest |v|.
  if (amx) return {0x1p-7, 3e-3, 1.45, 1e-5, 1e-5, 1};
  return {1e-5, 1e-6, 1.02, 1e-5, 1e-5, 1};
}

/// Distance between neighbouring numbers of a storage format at x.
inline double unit_in_last_place(DType dtype, double x) {
  const int bits = dtype == DType::bf16 ? 8 : dtype == DType::f16 ? 11 : dtype == DType::f32 ? 24 : 53;
  const int lowest = dtype == DType::f16 ? -14 : dtype == DType::f64 ? -1022 : -126;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, lowest) - (bits - 1));
}

/// Collects differences of one output and remembers the worst one.
class Judge {
 public:
  explicit Judge(std::string name) : name_(std::move(name)) {}

  void see(double got, double want, double allowed, const std::string& where) {
    const bool equal = got == want || (got != got && want != want);
    const double error = equal ? 0 : std::fabs(got - want);
    if (equal || error <= allowed) return;  // a NaN in either is neither
    ++failures_;
    const double badness = error == error ? error / (allowed > 0 ? allowed : 1e-300) : HUGE_VAL;
    if (badness <= worst_) return;
    worst_ = badness;
    std::ostringstream text;
    text.precision(17);
    text << name_ << where << " = " << got << "; expected " << want << " ± " << allowed;
    text_ = text.str();
  }
  bool ok() const { return failures_ == 0; }
  std::string text() const { return text_ + " (worst of " + std::to_string(failures_) + ")\n"; }

 private:
  std::string name_, text_;
  double worst_ = -1;
  Index failures_ = 0;
};

inline std::string place(Index b, Index h, Index i, Index d = -1) {
  std::string text = "[b " + std::to_string(b) + ", h " + std::to_string(h) + ", i " + std::to_string(i);
  return text + (d >= 0 ? ", d " + std::to_string(d) : "") + "]";
}

/// How to see the failure again.
inline std::string reproduction(const Case& c) {
  const Plan plan = c.planned();
  if (!plan.valid()) return "";
  const PlanFacts facts = plan.facts();
  return "reproduce: " + problem_line(plan) + "  (ran " + facts.isa + ", " + facts.arithmetic + ")";
}

/// The comparison of one case, output by output.
template <class Real>
class Comparison {
 public:
  Comparison(Case& c, const Tolerance& t, const Problem& p) : case_(c), t_(t), p_(p) {
    const Options options = c.wired();
    tensors_ = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options);
    for (double x : c.v.values())
      if (std::isfinite(x)) largest_value_ = std::max(largest_value_, std::fabs(x));
  }

  std::string failures() {
    for (Index s = 0; s < p_.sequence_count; ++s)
      for (Index h = 0; h < p_.q_heads; ++h)
        for (Index i = 0; i < p_.sequences[s].queries; i += t_.row_step) row(p_.sequences[s], h, i);
    if (case_.outputs == Outputs::all && t_.row_step == 1) column_sums();
    std::string text;
    for (Judge* j : {&out_, &lse_, &largest_, &entropy_, &mean_, &deviation_, &columns_})
      if (!j->ok()) text += j->text();
    return text + rms();
  }

 private:
  static double narrow(Real x) { return static_cast<double>(x); }
  double got(const void* data, const Axes& axes, Index b, Index row, Index h) {
    return element(data, axes.dtype, axes.at(b, row, h));
  }

  void row(const Sequence& s, Index h, Index i) {
    const reference::Row<Real> want = reference::attention_row<Real>(p_, tensors_, s, h, i);
    const Index b = s.batch, r = s.first_query + i;
    for (Index d = 0; d < p_.value_dim; ++d) {
      const double exact = narrow(want.out[d]), stored = rounded(p_.out.dtype, exact);
      const double x = element(tensors_.out, p_.out.dtype, p_.out.at(b, r, h) + d);
      const bool narrow_storage = size_of(p_.out.dtype) == 2;
      const double ulp = narrow_storage && std::isfinite(stored) ? unit_in_last_place(p_.out.dtype, stored) : 0;
      out_.see(x, stored, t_.element * largest_value_ + ulp, place(b, h, i, d));
      if (!std::isfinite(x) || !std::isfinite(stored)) continue;
      error_ += (x - exact) * (x - exact), rounding_ += (stored - exact) * (stored - exact), size_ += exact * exact;
    }
    if (case_.outputs != Outputs::out) logit(lse_, got(tensors_.lse, p_.lse, b, r, h), want.lse, s, h, i);
    if (case_.outputs == Outputs::all) statistics(want, s, h, i);
  }

  void logit(Judge& judge, double x, Real want, const Sequence& s, Index h, Index i, double magnitude = 0) {
    const double w = narrow(want);
    judge.see(x, w, t_.logit * std::max({1.0, std::isfinite(w) ? std::fabs(w) : 1.0, magnitude}), place(s.batch, h, i));
  }

  void statistics(const reference::Row<Real>& want, const Sequence& s, Index h, Index i) {
    const Index b = s.batch, r = s.first_query + i;
    double largest_logit = 0;
    for (Real x : want.logits)
      if (std::isfinite(narrow(x))) largest_logit = std::max(largest_logit, std::fabs(narrow(x)));
    const double w = narrow(want.largest_weight);
    largest_.see(got(tensors_.largest_weight, p_.largest_weight, b, r, h), w, t_.weight * (1 + largest_logit) * w + 0x1p-125,
                 place(b, h, i));
    logit(entropy_, got(tensors_.entropy, p_.entropy, b, r, h), want.entropy, s, h, i, largest_logit);
    logit(mean_, got(tensors_.logit_mean, p_.logit_mean, b, r, h), want.logit_mean, s, h, i, largest_logit);
    logit(deviation_, got(tensors_.logit_deviation, p_.logit_deviation, b, r, h), want.logit_deviation, s, h, i,
          largest_logit);
    for (Index j = 0; j < s.keys; ++j) {
      Column& column = columns_wanted_[p_.key_weights.at(b, s.first_key + j, h)];
      column.sum += narrow(want.weights[j]);
      column.noise = std::max(column.noise, largest_logit);
    }
  }

  void column_sums() {
    const Index batches = p_.varlen ? 1 : p_.batch;
    for (Index b = 0; b < batches; ++b)
      for (Index h = 0; h < p_.q_heads; ++h)
        for (Index j = 0; j < p_.k_rows; ++j) {
          const Column want = columns_wanted_[p_.key_weights.at(b, j, h)];
          columns_.see(got(tensors_.key_weights, p_.key_weights, b, j, h), want.sum,
                       t_.weight * (1 + want.noise) * (1 + want.sum), place(b, h, j));
        }
  }

  std::string rms() {
    const bool narrow_storage = size_of(p_.out.dtype) == 2;
    const double allowed = std::sqrt(size_) * t_.rms + (narrow_storage ? t_.rounding * std::sqrt(rounding_) : 0);
    if (std::sqrt(error_) <= allowed) return "";
    return "out: relative rms error " + std::to_string(std::sqrt(error_ / size_) * 1e6) + "e-6; expected at most " +
           std::to_string(allowed / std::sqrt(size_) * 1e6) + "e-6\n";
  }

  struct Column {
    double sum = 0, noise = 0;
  };
  Case& case_;
  const Tolerance& t_;
  const Problem& p_;
  Tensors tensors_;
  double largest_value_ = 0, error_ = 0, rounding_ = 0, size_ = 0;
  std::map<Index, Column> columns_wanted_;
  Judge out_{"out"}, lse_{"lse"}, largest_{"largest_weight"}, entropy_{"entropy"}, mean_{"logit_mean"},
      deviation_{"logit_deviation"}, columns_{"key_weights"};
};

/// The outputs of a case that has run agree with the definition, and nothing else was written.
inline ::testing::AssertionResult agrees(Case& c, const Tolerance& tolerance) {
  Problem problem;
  const Status status = try_problem(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired(), problem);
  if (!status.ok()) return ::testing::AssertionFailure() << status.text;
  std::string text = problem.is_f64() ? Comparison<long double>(c, tolerance, problem).failures()
                                      : Comparison<double>(c, tolerance, problem).failures();
  for (Array* a : c.written())
    if (!a->surroundings_intact()) text += "something outside an output was written\n";
  if (text.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << text << reproduction(c);
}

inline Tolerance default_tolerance(const Case& c) {
  const Plan plan = c.planned();
  return tolerance_for(c.dtypes, plan.valid() && std::string(plan.facts().arithmetic) == "amx");
}

/// Runs the case and holds it against the definition.
inline ::testing::AssertionResult runs_right(Case& c, const Tolerance& tolerance) {
  const Status status = c.run();
  if (!status.ok()) return ::testing::AssertionFailure() << "refused: " << status.text;
  return agrees(c, tolerance);
}
inline ::testing::AssertionResult runs_right(Case& c) { return runs_right(c, default_tolerance(c)); }

/// Runs both and asks for equal bits of O, LSE and statistics.
inline ::testing::AssertionResult same_results(Case& a, Case& b) {
  for (Case* c : {&a, &b})
    if (const Status status = c->run(); !status.ok()) return ::testing::AssertionFailure() << "refused: " << status.text;
  for (std::size_t i = 0; i < a.written().size(); ++i)
    if (const auto same = same_bits(*a.written()[i], *b.written().at(i)); !same)
      return ::testing::AssertionFailure() << "output " << i << ": " << same.message() << "\n" << reproduction(a);
  return ::testing::AssertionSuccess();
}

}  // namespace flashtile::testing
