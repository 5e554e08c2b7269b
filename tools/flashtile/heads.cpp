#include "heads.h"

#include <algorithm>

#include "problem/number.h"

namespace flashtile::cli {

std::vector<HeadSummary> summarize_heads(const Results& results) {
  std::vector<std::int64_t> shape = results.lse.shape;  // (B, Hq, Sq), or (Hq, total)
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  const auto at = [](const files::Array& array, std::int64_t i) { return element(array.bytes.data(), array.dtype, i); };
  std::vector<HeadSummary> heads(static_cast<std::size_t>(shape[1]));
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i) {
        const std::int64_t row = (b * shape[1] + h) * shape[2] + i;
        const double largest = at(results.largest_weight, row);
        if (largest == 0) continue;  // no visible key
        HeadSummary& head = heads[static_cast<std::size_t>(h)];
        ++head.rows;
        head.entropy += at(results.entropy, row);
        head.logit_mean += at(results.logit_mean, row);
        head.mean_largest_weight += largest;
        if (!(largest <= head.largest_weight)) head.largest_weight = largest;  // a NaN shows
      }
  for (HeadSummary& head : heads) {
    const auto rows = static_cast<double>(std::max<std::int64_t>(1, head.rows));
    head.entropy /= rows, head.logit_mean /= rows, head.mean_largest_weight /= rows;
  }
  return heads;
}

}  // namespace flashtile::cli
