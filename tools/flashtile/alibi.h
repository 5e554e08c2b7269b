// The standard slopes of ALiBi. Press, Smith, Lewis: "Train short, test long", ICLR 2022, arXiv 2108.12409.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace flashtile::cli {

/// For n heads, n a power of two: 2^(−8/n), 2^(−16/n), …, 2^−8. Otherwise those of the largest power of two below n,
/// followed by every second slope of twice that power, until there are n.
inline std::vector<float> alibi_slopes(std::int64_t heads) {
  std::vector<float> slopes;
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const double step = 8.0 / static_cast<double>(power);
  for (std::int64_t i = 1; i <= power && i <= heads; ++i)
    slopes.push_back(static_cast<float>(std::exp2(-step * static_cast<double>(i))));
  for (std::int64_t i = 0; power + i < heads; ++i)
    slopes.push_back(static_cast<float>(std::exp2(-step / 2 * static_cast<double>(2 * i + 1))));
  return slopes;
}

}  // namespace flashtile::cli
