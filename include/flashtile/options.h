// What can be asked of attention besides q, k, v and out. Every field has a neutral default; docs/semantics.md has the
// rules, this file the shapes. Names: B batch, Hq / Hkv query / key-value heads, Sq / Sk lengths, D / Dv head dims.
//
// The order on a logit:  s = scale · row_scale · (q·k)  →  softcap  →  score modifier  →  + ALiBi + mask  →  visibility.
//
// Shapes are those of a dense call, (B, S, H, D). In a varlen call (cu_seqlens given) q, k, v and out are (total, H, D),
// what has one entry per (batch, query) has one per packed token, and the mask counts rows and keys within a sequence.
#pragma once

#include <cstdint>
#include <optional>

#include "flashtile/tensor.h"

namespace flashtile {

/// Sliding window, counted in neighbours of the query's own position: key position p_k is visible to query position p_q
/// iff p_q − left ≤ p_k ≤ p_q + right. −1 is unlimited. A "W-token causal window" is {.left = W − 1, .right = 0}.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
};

/// Where query 0 stands when query_offset is not given. bottom_right: the last query stands at the last key
/// (FlashAttention ≥ 2.1, caches). top_left: query 0 stands at key 0 (torch's is_causal, ONNX without a cache).
enum class Alignment : std::uint8_t { bottom_right = 0, top_left = 1 };

/// Dropout on the normalised weights: weight (b, h, i, j) is kept iff Philox4x32-10(seed, offset; b, h, i, j) says so,
/// whatever the tiling and the threads, and then multiplied by 1 / (1 − probability).
/// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
struct Dropout {
  double probability = 0;    // 0 ≤ p < 1; 0 is off
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // advance it from call to call
};

/// One tile of scores as a score modifier sees it: element (i, j), 0 ≤ i < queries, 0 ≤ j < keys, is the scaled and
/// softcapped score, in natural units, of query index query + i and key index key + j of sequence `batch`, head `head`.
/// −inf hides a key. Bits stay independent of tiling as long as each element depends on its coordinates and itself only.
struct ScoreTile {
  void* scores = nullptr;  // dtype f32, or f64 when the inputs are
  DType dtype = DType::f32;
  std::int64_t query_stride = 0, key_stride = 0;  // in elements
  std::int64_t queries = 0, keys = 0;
  std::int64_t batch = 0, head = 0;               // head counts query heads
  std::int64_t query = 0, key = 0;                // indices of element (0, 0) within the sequence
  std::int64_t query_position = 0, key_position = 0;  // the same as positions (query offset, first key position)

  template <class T = float>
  T& at(std::int64_t i, std::int64_t j) const noexcept {
    return static_cast<T*>(scores)[i * query_stride + j * key_stride];
  }
};

enum class Coverage : std::uint8_t { empty = 0, full = 1, mixed = 2 };

/// FlexAttention's score_mod and mask_mod at tile cost (Dong et al., arXiv 2412.05496). Callbacks must not throw, may be
/// called from several threads at once, and may be called more than once for the same tile.
struct ScoreModifier {
  void (*apply)(void* context, const ScoreTile& tile) = nullptr;
  /// Optional. May say that no key (empty) of a block is visible, so that it is skipped, or that every key is visible and
  /// no score is changed (full), so that apply is not called. mixed is always a right answer.
  Coverage (*coverage)(void* context, std::int64_t batch, std::int64_t head, std::int64_t query_begin,
                       std::int64_t query_end, std::int64_t key_begin, std::int64_t key_end) = nullptr;
  void* context = nullptr;
};

/// Statistics of each row, each fp32 (fp64 when the inputs are) and shaped like the LSE: (B, Hq, Sq); varlen (Hq, total).
/// O(S) memory. A row without visible keys has largest weight 0, entropy 0, mean 0 and deviation 0.
struct RowStatistics {
  Tensor largest_weight = {};   // max_j P_ij, the sink's share included in the denominator
  Tensor entropy = {};          // −Σ_j P_ij ln P_ij in nats, over keys only
  Tensor logit_mean = {};       // of the visible logits, natural units, after softcap, modifier and bias
  Tensor logit_deviation = {};  // their standard deviation (population)
};

/// Which arithmetic family computes a row (docs/numerics.md). automatic: amx for bf16 q, k and v where the machine has
/// it, fma otherwise. Within a family the bits of a row never depend on machine, threads or batch.
enum class Arithmetic : std::uint8_t { automatic = 0, fma = 1, amx = 2 };

/// Instruction sets, weakest first. automatic is the best that the machine has. amx_emulated is the software twin of the
/// amx family and is never chosen automatically.
enum class Isa : std::uint8_t { automatic = 0, scalar = 1, neon = 2, avx2 = 3, avx512 = 4, amx = 5, amx_emulated = 6 };

struct Options {
  bool causal = false;                          // same as window.right = 0
  Window window = {};
  Alignment alignment = Alignment::bottom_right;
  std::optional<double> scale = {};                // absent: 1/√D; 0 and negative mean what they say
  double softcap = 0;                           // s ← cap · tanh(s / cap); 0 is off

  ConstTensor mask = {};  // (B|1, Hq|1, Sq|1, Sk) or (Sq|1, Sk): bool (true: attend) or f32, f64, f16, bf16 (added)
  ConstTensor alibi_slopes = {};  // f32 (Hq) or (B, Hq): bias −slope · |query position − key position|
  ConstTensor sinks = {};  // f32 (Hq): logits that join the denominator only
  ConstTensor row_scale = {};  // f32 (B|1, Hq|1, Sq); varlen (Hq|1, total_q): factor on the scaled logit
  ConstTensor key_begin = {};  // i32 (B|1, Sq); varlen (total_q): row i sees only key indices key_begin ≤ j < key_end
  ConstTensor key_end = {};

  ConstTensor cu_seqlens_q = {};  // i32 (B + 1), from 0, not decreasing, at most total: makes the call varlen
  ConstTensor cu_seqlens_k = {};  // both or none
  ConstTensor query_lengths = {};  // i32 (B): only the first rows of each sequence are used; the others are written as 0
  ConstTensor key_lengths = {};  // i32 (B): only the first keys of each sequence exist
  ConstTensor query_offset = {};  // i32 or i64 (B): position of query 0; default by `alignment`
  ConstTensor first_key_position = {};  // i32 or i64 (B): position of key 0; default 0

  Dropout dropout = {};
  ScoreModifier score_modifier = {};

  Tensor lse = {};  // f32 (f64 for f64 inputs) (B, Hq, Sq); varlen (Hq, total_q): natural log of Σ exp(logit)
  RowStatistics statistics = {};
  Tensor key_weights = {};  // f32 (f64) (B, Hq, Sk); varlen (Hq, total_k): Σ_i P_ij, the column sums of the weights

  Arithmetic arithmetic = Arithmetic::automatic;
  Isa isa = Isa::automatic;  // caps the choice, like the environment variable FLASHTILE_ISA
  int threads = 0;  // 0: what affinity mask and cgroup quota allow; used by the easy call only
};

}  // namespace flashtile
