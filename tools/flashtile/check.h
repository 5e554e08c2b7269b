// Computed O, LSE and statistics against the fp64 definition (src/reference/attention.h), judged by bound.h.
// fp64 inputs are judged by the definition in long double. Every row is computed unless the caller asks for fewer.
#pragma once

#include <cstdint>
#include <limits>

#include "bound.h"
#include "flashtile/flashtile.h"

namespace flashtile::cli {

struct CheckResult {
  std::int64_t rows = 0;           // (batch, head, query) that were compared
  std::int64_t not_finite = 0;     // elements that are NaN or infinite in the definition and in O alike: not compared
  std::int64_t disagreements = 0;  // elements that are NaN or infinite in one only
  Accuracy accuracy;               // what the bounds were computed from
  double relative_rms = 0, max_abs = 0;           // of O
  double rounding_rms = 0, rounding_max_abs = 0;  // of the exact answer rounded to O's type: the unavoidable part
  double rms_bound = 0;
  double worst_element = 0;  // largest error of an element as a share of what it may be: fails above 1
  double lse_max_abs = 0, lse_bound = 0;
  double largest_weight_max_abs = 0, entropy_max_abs = 0, logit_mean_max_abs = 0, logit_deviation_max_abs = 0;
  double seconds = 0;

  bool passed() const {
    return disagreements == 0 && relative_rms <= rms_bound && worst_element <= 1 && lse_max_abs <= lse_bound;
  }
};

/// Compares what the library wrote. `tensors` are those of the call; `family` what computed it. Uses `threads` threads;
/// shows progress when `show_progress`. Of more than `most_rows` rows, about that many are compared, spread evenly over all.
/// Throws UsageError like the call itself.
CheckResult check(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                  const Options& options, Family family, int threads, bool show_progress,
                  std::int64_t most_rows = std::numeric_limits<std::int64_t>::max());

}  // namespace flashtile::cli
