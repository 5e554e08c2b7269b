// What is asked: one checked, immutable description of an attention problem.
//
// try_problem() is the only place where arguments are checked; behind it every stride, length and option is known to be
// consistent. A Problem holds no data pointers except the score modifier's: arrays come with each run (Tensors).
#pragma once

#include <cstdint>

#include "flashtile/error.h"
#include "flashtile/flashtile.h"
#include "flashtile/options.h"
#include "problem/buffer.h"
#include "problem/inline.h"

namespace flashtile {

using Index = std::int64_t;

/// Strides, in elements, of an operand with axes (batch, row, head) and a contiguous last dimension, or none.
/// Varlen operands have batch = 0: their rows are counted over the packed axis.
struct Axes {
  bool present = false;
  DType dtype = DType::f32;
  Index batch = 0, row = 0, head = 0;

  FT_INLINE Index at(Index b, Index i, Index h) const { return b * batch + i * row + h * head; }
};

/// The mask: (batch, head, query, key) within a sequence; 0 strides broadcast.
struct MaskAxes {
  bool present = false;
  DType dtype = DType::boolean;
  Index batch = 0, head = 0, query = 0, key = 0;

  FT_INLINE Index at(Index b, Index h, Index i, Index j) const { return b * batch + h * head + i * query + j * key; }
};

/// One sequence of the batch. Its query i is row first_query + i of q and stands at position query_position + i; its
/// key j is row first_key + j of k and v and stands at position key_position + j.
/// A padding sequence stands for rows that belong to none: out = 0, LSE = −inf, no keys.
struct Sequence {
  Index batch = 0;
  Index first_query = 0, queries = 0;
  Index first_key = 0, keys = 0;
  Index query_position = 0, key_position = 0;
  bool padding = false;
};

struct Problem {
  bool varlen = false;
  Index batch = 0, q_heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  Index q_rows = 0, k_rows = 0;  // extents of the S axes: Sq, Sk; varlen: total_q, total_k

  Axes q, k, v, out;                                            // last dimension contiguous
  Axes lse, largest_weight, entropy, logit_mean, logit_deviation;  // no last dimension
  Axes key_weights;                                             // row counts keys
  MaskAxes mask;
  Axes alibi_slopes;          // (batch, –, head)
  Axes sinks;                 // (–, –, head)
  Axes row_scale;             // (batch, row, head)
  Axes key_begin, key_end;    // (batch, row, –)

  Window window;              // causal folded in; −1 unlimited; never beyond kFar
  double scale = 1, softcap = 0;
  Dropout dropout;
  ScoreModifier score_modifier;

  Arithmetic arithmetic = Arithmetic::automatic;
  Isa isa = Isa::automatic;
  int threads = 0;
  bool causal = false, default_scale = true;
  Alignment alignment = Alignment::bottom_right;

  Buffer<Sequence> sequences;  // the first sequence_count entries: those of the batch in order, then padding
  Index sequence_count = 0;

  FT_INLINE Index group() const { return kv_heads == 0 ? 0 : q_heads / kv_heads; }  // query heads per kv head
  FT_INLINE bool is_f64() const { return q.dtype == DType::f64; }
  FT_INLINE bool wants_statistics() const {
    return largest_weight.present || entropy.present || logit_mean.present || logit_deviation.present;
  }
  /// Rules that a range of keys per row cannot express.
  FT_INLINE bool has_elementwise_rules() const {
    return mask.present || alibi_slopes.present || score_modifier.apply != nullptr;
  }
};

/// Positions and windows beyond this are refused or mean "unlimited": sums of a few of them cannot overflow.
inline constexpr Index kFar = Index{1} << 40;

/// Checks everything and describes the call. Reads cu_seqlens, lengths, offsets and first positions; no other data.
Status try_problem(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                   const Options& options, Problem& problem) noexcept;

}  // namespace flashtile
