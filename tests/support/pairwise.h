// All pairs of choices in few rows: most faults show when two choices meet, and a full product is too large to run.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "support/random.h"

namespace flashtile::testing {

/// Rows of choices, row[f] < counts[f], such that each pair of choices of any two factors stands in some row. Greedy: a
/// row starts from a pair that is still missing and takes, factor by factor, what completes most others. Deterministic.
inline std::vector<std::vector<int>> pairwise(const std::vector<int>& counts) {
  const int n = static_cast<int>(counts.size());
  std::set<std::tuple<int, int, int, int>> missing;  // factor, choice, later factor, its choice
  for (int a = 0; a < n; ++a)
    for (int b = a + 1; b < n; ++b)
      for (int x = 0; x < counts[a]; ++x)
        for (int y = 0; y < counts[b]; ++y) missing.insert({a, x, b, y});
  const auto pair = [](int a, int x, int b, int y) { return a < b ? std::tuple(a, x, b, y) : std::tuple(b, y, a, x); };
  Random random(1);
  std::vector<std::vector<int>> rows;
  while (!missing.empty()) {
    const auto [a, x, b, y] = *missing.begin();
    std::vector<int> row(n, -1);
    row[a] = x, row[b] = y;
    for (int f = 0; f < n; ++f) {
      if (row[f] >= 0) continue;
      const int first = static_cast<int>(random.integer(0, counts[f] - 1));  // ties fall evenly
      int best = first, most = -1;
      for (int k = 0; k < counts[f]; ++k) {
        const int choice = (first + k) % counts[f];
        int completed = 0;
        for (int g = 0; g < n; ++g) completed += row[g] >= 0 && missing.count(pair(f, choice, g, row[g])) > 0 ? 1 : 0;
        if (completed > most) most = completed, best = choice;
      }
      row[f] = best;
    }
    for (int f = 0; f < n; ++f)
      for (int g = f + 1; g < n; ++g) missing.erase({f, row[f], g, row[g]});
    rows.push_back(row);
  }
  return rows;
}

}  // namespace flashtile::testing
