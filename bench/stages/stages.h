// The stages of the kernels one by one, built for each instruction set as the kernels are: what the micro-benchmarks time.
#pragma once

#include <cstddef>

#include "problem/problem.h"
#include "problem/work.h"

namespace flashtile::bench {

/// A tile of queries and a block of keys, one head; rows lie side by side. Its memory is aligned to 64 bytes, and the
/// scratch is full of numbers: packed panels, scores and O are there, whatever they look like.
struct Setting {
  Problem problem;
  TileShape shape;
  const void *q = nullptr, *k = nullptr, *v = nullptr;  // (48 or block keys, head_dim)
  std::byte* scratch = nullptr;                         // what the kernels ask for
  float* panel = nullptr;                               // (block keys, padded head_dim)
};

/// Does a stage `rounds` times.
using Stage = void (*)(const Setting&, long rounds);

struct Stages {
  Stage score = nullptr;       // S = Q Kᵀ
  Stage softmax = nullptr;     // P = 2^(S − m), and the sums
  Stage accumulate = nullptr;  // O = O · shrink + P V
  Stage pack_queries = nullptr, pack_keys = nullptr, pack_values = nullptr;
  Stage merge = nullptr;       // two states of 48 rows
};

Stages stages_scalar();
#if defined(__x86_64__)
Stages stages_avx2();
Stages stages_avx512();
#endif
#if defined(__aarch64__)
Stages stages_neon();
#endif

}  // namespace flashtile::bench
