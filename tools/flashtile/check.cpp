#include "check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "convert.h"
#include "failure.h"
#include "problem/number.h"
#include "reference/attention.h"
#include "terminal.h"

namespace flashtile::cli {
namespace {

constexpr Index kGrowthSamples = 1024;  // rows whose partial sums are followed

/// x as the type t would hold it.
double rounded(double x, DType t) {
  std::uint64_t bits[1] = {};
  store(x, t, bits, 0);
  return element(bits, t, 0);
}

/// What the comparison of many elements of O leaves. Sums of two threads merge into one.
struct ErrorSums {
  double squares = 0, exact_squares = 0, natural_squares = 0;  // Σ error², Σ O², Σ_elements Σ_j P_j² v_j²
  double rounding_squares = 0, input_rounding_squares = 0;
  double max_abs = 0, rounding_max_abs = 0;
  double worst_ratio = 0;  // largest |error| over the size of its row
  double lse_max_abs = 0, largest_lse = 0, largest_growth = 0, growth_squares = 0;
  double statistics[4] = {};
  double largest_value = 0;
  std::int64_t compared = 0, growth_rows = 0, not_finite = 0, disagreements = 0;

  void merge(const ErrorSums& o) {
    squares += o.squares, exact_squares += o.exact_squares, natural_squares += o.natural_squares;
    rounding_squares += o.rounding_squares, input_rounding_squares += o.input_rounding_squares;
    max_abs = std::max(max_abs, o.max_abs), rounding_max_abs = std::max(rounding_max_abs, o.rounding_max_abs);
    worst_ratio = std::max(worst_ratio, o.worst_ratio);
    lse_max_abs = std::max(lse_max_abs, o.lse_max_abs), largest_lse = std::max(largest_lse, o.largest_lse);
    largest_growth = std::max(largest_growth, o.largest_growth);
    growth_squares += o.growth_squares, growth_rows += o.growth_rows;
    for (int i = 0; i < 4; ++i) statistics[i] = std::max(statistics[i], o.statistics[i]);
    largest_value = std::max(largest_value, o.largest_value);
    compared += o.compared, not_finite += o.not_finite, disagreements += o.disagreements;
  }
};

/// Compares one number; counts it when either side is not finite. Nothing when it cannot be compared.
template <class Real>
std::optional<double> error_of(Real exact, double got, ErrorSums& sums) {
  const bool exact_finite = std::isfinite(static_cast<double>(exact)), got_finite = std::isfinite(got);
  if (exact_finite && got_finite) return static_cast<double>(std::fabs(static_cast<Real>(got) - exact));
  const bool alike = std::isnan(static_cast<double>(exact)) ? std::isnan(got) : static_cast<double>(exact) == got;
  if (alike) ++sums.not_finite;
  else ++sums.disagreements;
  return std::nullopt;
}

template <class Real>
class Checker {
 public:
  Checker(const Problem& problem, const Tensors& tensors, Index most_rows) : p_(problem), t_(tensors) {
    for (const Sequence& s : p_.sequences) all_rows_ += s.queries * p_.q_heads;
    step_ = std::max<Index>(1, all_rows_ / std::max<Index>(1, most_rows));
    stride_ = std::max<Index>(1, rows() / kGrowthSamples);
    measure_values();
  }

  Index rows() const { return all_rows_ / step_; }

  ErrorSums run(int threads, Progress* progress) {
    std::atomic<Index> next{0};
    std::mutex mutex;
    std::exception_ptr failed;
    ErrorSums total;
    total.largest_value = largest_value_;
    const auto work = [&] {
      ErrorSums mine;
      try {
        for (Index n; (n = next.fetch_add(1)) < rows();) {
          compare_row(n, mine);
          if (progress != nullptr) progress->step();
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = std::current_exception();
        next = rows();
      }
      const std::lock_guard lock(mutex);
      total.merge(mine);
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
    if (failed) std::rethrow_exception(failed);
    return total;
  }

 private:
  /// |v_j|² of every value row: Σ_j P_j² |v_j|² is what |O|² would be if the signs of V were random.
  void measure_values() {
    value_squares_.assign(static_cast<std::size_t>(p_.sequences.size()), {});
    for (Index n = 0; n < p_.sequences.size(); ++n) {
      const Sequence& s = p_.sequences[n];
      std::vector<double>& squares = value_squares_[static_cast<std::size_t>(n)];
      squares.assign(static_cast<std::size_t>(s.keys * p_.kv_heads), 0);
      for (Index j = 0; j < s.keys; ++j)
        for (Index h = 0; h < p_.kv_heads; ++h)
          for (Index d = 0; d < p_.value_dim; ++d) {
            const double x = element(t_.v, p_.v.dtype, p_.v.at(s.batch, s.first_key + j, h) + d);
            squares[static_cast<std::size_t>(h * s.keys + j)] += x * x;
            if (std::isfinite(x)) largest_value_ = std::max(largest_value_, std::fabs(x));
          }
    }
  }

  /// The number-th of the rows that are compared: one of each `step_` neighbours, not always the same.
  void compare_row(Index number, ErrorSums& sums) const {
    constexpr Index kPrime = 7919;
    Index n = 0;
    Index rest = number * step_ + number * kPrime % step_;
    while (rest >= p_.sequences[n].queries * p_.q_heads) rest -= p_.sequences[n].queries * p_.q_heads, ++n;
    const Sequence& s = p_.sequences[n];
    const Index head = rest / s.queries, i = rest % s.queries;
    const reference::Row<Real> exact = reference::attention_row<Real>(p_, t_, s, head, i);

    // How large an element of this row is by nature.
    double largest = 0, natural = 0;
    const std::vector<double>& squares = value_squares_[static_cast<std::size_t>(n)];
    for (Index j = 0; j < s.keys; ++j) {
      const auto w = static_cast<double>(exact.weights[static_cast<std::size_t>(j)]);
      if (w != 0) natural += w * w * squares[static_cast<std::size_t>(head / p_.group() * s.keys + j)];
    }
    for (const Real x : exact.out) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    const double size = std::max(largest, std::sqrt(natural / static_cast<double>(std::max<Index>(1, p_.value_dim))));

    for (Index d = 0; d < p_.value_dim; ++d) {
      const Real x = exact.out[static_cast<std::size_t>(d)];
      const double wide = static_cast<double>(x);
      const double got = element(t_.out, p_.out.dtype, p_.out.at(s.batch, s.first_query + i, head) + d);
      const double alone = rounded(wide, p_.out.dtype);
      if (std::isinf(alone) && alone == got) {  // beyond the output's range
        ++sums.not_finite;
        continue;
      }
      const std::optional<double> error = error_of(x, got, sums);
      if (!error) continue;
      const double rounding = static_cast<double>(std::fabs(static_cast<Real>(alone) - x));
      const double input_rounding = rounded(wide, p_.v.dtype) - wide;
      sums.squares += *error * *error, sums.exact_squares += wide * wide;
      sums.rounding_squares += rounding * rounding;
      if (std::isfinite(input_rounding)) sums.input_rounding_squares += input_rounding * input_rounding;
      sums.max_abs = std::max(sums.max_abs, *error);
      sums.rounding_max_abs = std::max(sums.rounding_max_abs, rounding);
      const double beyond_underflow = *error - 0x1p-125 * std::max(1.0, largest_value_);
      if (beyond_underflow > 0) sums.worst_ratio = std::max(sums.worst_ratio, beyond_underflow / size);
      ++sums.compared;
    }
    if (std::isfinite(natural)) sums.natural_squares += natural;
    compare_numbers(s, head, i, exact, sums);
    if (number % stride_ == 0) {
      const double g = growth(s, head, i, exact);
      sums.largest_growth = std::max(sums.largest_growth, g);
      sums.growth_squares += g * g, ++sums.growth_rows;
    }
  }

  /// LSE and statistics.
  void compare_numbers(const Sequence& s, Index head, Index i, const reference::Row<Real>& exact, ErrorSums& sums) const {
    const Index row = s.first_query + i;
    if (p_.lse.present) {
      const std::optional<double> error =
          error_of(exact.lse, element(t_.lse, p_.lse.dtype, p_.lse.at(s.batch, row, head)), sums);
      if (error) {
        sums.lse_max_abs = std::max(sums.lse_max_abs, *error);
        sums.largest_lse = std::max(sums.largest_lse, std::fabs(static_cast<double>(exact.lse)));
      }
    }
    const Axes* const axes[4] = {&p_.largest_weight, &p_.entropy, &p_.logit_mean, &p_.logit_deviation};
    const void* const data[4] = {t_.largest_weight, t_.entropy, t_.logit_mean, t_.logit_deviation};
    const Real values[4] = {exact.largest_weight, exact.entropy, exact.logit_mean, exact.logit_deviation};
    if (!std::isfinite(static_cast<double>(exact.lse)) && exact.lse != -INFINITY) return;  // a NaN row
    for (int n = 0; n < 4; ++n) {
      if (!axes[n]->present) continue;
      const std::optional<double> error =
          error_of(values[n], element(data[n], axes[n]->dtype, axes[n]->at(s.batch, row, head)), sums);
      if (error) sums.statistics[n] = std::max(sums.statistics[n], *error);
    }
  }

  /// rms of the numbers that are rounded on the way to this row's logits, where its weights are, as a multiple of
  /// normal data's (normal_growth).
  double growth(const Sequence& s, Index head, Index i, const reference::Row<Real>& exact) const {
    double sum = 0;
    const Index kv_head = s.keys == 0 ? 0 : head / p_.group(), row = s.first_query + i;
    double scale = p_.scale;
    if (p_.row_scale.present) scale *= element(t_.row_scale, DType::f32, p_.row_scale.at(s.batch, row, head));
    for (Index j = 0; j < s.keys; ++j) {
      const auto weight = static_cast<double>(exact.weights[static_cast<std::size_t>(j)]);
      if (!(weight > 0)) continue;
      double dot = 0, squares = 0;
      for (Index d = 0; d < p_.head_dim; ++d) {
        dot += element(t_.q, p_.q.dtype, p_.q.at(s.batch, row, head) + d) *
               element(t_.k, p_.k.dtype, p_.k.at(s.batch, s.first_key + j, kv_head) + d);
        squares += dot * dot;
      }
      squares = (squares + dot * dot) * scale * scale;  // once more when the scale is applied
      // A softcap and a bias round once more each, in proportion to their result.
      const auto logit = static_cast<double>(exact.logits[static_cast<std::size_t>(j)]);
      if (p_.softcap > 0) squares += 4 * p_.softcap * p_.softcap;
      if (p_.mask.present || p_.alibi_slopes.present) squares += logit * logit;
      sum += weight * squares;
    }
    const double measured = std::sqrt(sum / normal_growth(static_cast<double>(p_.head_dim)));
    return std::isfinite(measured) ? measured : 1;
  }

  const Problem& p_;
  const Tensors& t_;
  Index all_rows_ = 0, step_ = 1, stride_ = 1;
  std::vector<std::vector<double>> value_squares_;  // per sequence: (kv head, key)
  double largest_value_ = 0;
};

DType most_exact(DType a, DType b) { return size_of(a) >= size_of(b) ? a : b; }

CheckResult judge(const Problem& p, const ErrorSums& sums, Family family, Index rows) {
  CheckResult r;
  r.rows = rows;
  r.not_finite = sums.not_finite, r.disagreements = sums.disagreements;
  const auto relative = [&](double squares) { return squares == 0 ? 0 : std::sqrt(squares / sums.exact_squares); };
  Accuracy& a = r.accuracy;
  a.inputs = most_exact(most_exact(p.q.dtype, p.k.dtype), p.v.dtype);
  a.output = p.out.dtype;
  a.family = family;
  a.head_dim = static_cast<double>(p.head_dim);
  a.rounding_output = relative(sums.rounding_squares);
  a.rounding_inputs = relative(sums.input_rounding_squares);
  a.growth = std::sqrt(std::max(1.0, sums.growth_squares / static_cast<double>(std::max<Index>(1, sums.growth_rows))));
  // Queries beyond the number of values say little that is new: their rows mix the same ones.
  a.elements = std::min(static_cast<double>(sums.compared),
                        static_cast<double>(p.k_rows * p.kv_heads * p.value_dim * (p.varlen ? 1 : p.batch)));
  if (sums.exact_squares > 0) a.cancellation = std::max(1.0, std::sqrt(sums.natural_squares / sums.exact_squares));
  Accuracy extreme = a;  // of one element: its row's size accounts for cancellation
  extreme.growth = std::max(1.0, sums.largest_growth);
  extreme.cancellation = 1, extreme.elements = Accuracy{}.elements;
  r.max_abs = sums.max_abs, r.rounding_max_abs = sums.rounding_max_abs;
  r.rounding_rms = a.rounding_output;
  r.relative_rms = relative(sums.squares);
  const double underflow = 0x1p-125 * std::max(1.0, sums.largest_value) * std::sqrt(static_cast<double>(sums.compared));
  r.rms_bound = bound(a) + (sums.squares == 0 ? 0 : underflow / std::sqrt(sums.exact_squares));
  r.worst_element = sums.worst_ratio / (kLargestToRms * bound(extreme));
  r.lse_max_abs = sums.lse_max_abs;
  r.lse_bound = lse_bound(extreme, sums.largest_lse);
  r.largest_weight_max_abs = sums.statistics[0], r.entropy_max_abs = sums.statistics[1];
  r.logit_mean_max_abs = sums.statistics[2], r.logit_deviation_max_abs = sums.statistics[3];
  return r;
}

}  // namespace

CheckResult check(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                  const Options& options, Family family, int threads, bool show_progress, std::int64_t most_rows) {
  const auto start = std::chrono::steady_clock::now();
  Problem problem;
  require(try_problem(q, k, v, out, options, problem));
  const Tensors tensors = tensors_of(q, k, v, out, options);
  const auto run = [&](auto checker) {
    std::optional<Progress> progress;
    if (show_progress) progress.emplace("checking against the fp64 definition", checker.rows());
    return judge(problem, checker.run(threads, progress ? &*progress : nullptr), family, checker.rows());
  };
  CheckResult result = problem.is_f64() ? run(Checker<long double>(problem, tensors, most_rows))
                                        : run(Checker<double>(problem, tensors, most_rows));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace flashtile::cli
