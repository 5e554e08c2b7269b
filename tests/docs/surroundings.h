// What a block of C++ in a document may take for granted when it has no main() of its own: tensors q, k, v, out and lse
// of a small problem with grouped heads, and `using namespace flashtile`. Used by run_blocks.sh only.
#pragma once

#include <flashtile/flashtile.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

using namespace flashtile;

struct Surroundings {
  static constexpr std::int64_t kBatch = 2, kQueries = 40, kKeys = 70, kHeads = 4, kKvHeads = 2, kDim = 16;
  std::vector<float> q_data, k_data, v_data, out_data, lse_data;

  Surroundings()
      : q_data(filled(kBatch * kQueries * kHeads * kDim, 1)),
        k_data(filled(kBatch * kKeys * kKvHeads * kDim, 2)),
        v_data(filled(kBatch * kKeys * kKvHeads * kDim, 3)),
        out_data(q_data.size(), NAN),
        lse_data(kBatch * kHeads * kQueries, NAN) {}

  static std::vector<float> filled(std::int64_t n, std::uint32_t state) {
    std::vector<float> numbers(static_cast<std::size_t>(n));
    for (float& x : numbers) x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    return numbers;
  }
};

#define FT_NAMES_OF(s)                                                                                    \
  [[maybe_unused]] const ConstTensor q = view(s.q_data.data(), {s.kBatch, s.kQueries, s.kHeads, s.kDim}); \
  [[maybe_unused]] const ConstTensor k = view(s.k_data.data(), {s.kBatch, s.kKeys, s.kKvHeads, s.kDim});  \
  [[maybe_unused]] const ConstTensor v = view(s.v_data.data(), {s.kBatch, s.kKeys, s.kKvHeads, s.kDim});  \
  [[maybe_unused]] const Tensor out = view(s.out_data.data(), {s.kBatch, s.kQueries, s.kHeads, s.kDim});  \
  [[maybe_unused]] const Tensor lse = view(s.lse_data.data(), {s.kBatch, s.kHeads, s.kQueries});

/// Blocks throw when something is refused, and may assert.
inline int run_block(void (*block)(Surroundings&)) {
  Surroundings s;
  try {
    block(s);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
