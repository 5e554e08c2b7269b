// Statistics of each head, from those of its rows: what `run` shows of the attention pattern.
#pragma once

#include <cstdint>
#include <vector>

#include "results.h"

namespace flashtile::cli {

/// Over the rows of all batches that see at least one key. The weights of a row sum to 1 (less the sink's share).
struct HeadSummary {
  std::int64_t rows = 0;
  double entropy = 0;              // mean, nats
  double largest_weight = 0;       // of any row
  double mean_largest_weight = 0;  // mean over rows
  double logit_mean = 0;           // mean over rows of the mean visible logit
};
std::vector<HeadSummary> summarize_heads(const Results& results);

}  // namespace flashtile::cli
