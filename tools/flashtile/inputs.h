// Everything that a run reads: q, k, v, and the arrays that options name.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "files/array.h"
#include "flashtile/flashtile.h"
#include "request.h"

namespace flashtile::cli {

/// Sizes of a problem. Packed sequences are one batch of all rows.
struct Extents {
  std::int64_t batch = 1, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
};

/// One sequence: rows of q, and of k and v, counted over the whole batch.
struct Span {
  std::int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
};

struct Inputs {
  std::deque<files::Array> arrays;           // owns; addresses stay. The first three are q, k and v
  ConstTensor q, k, v;                       // (B, S, H, D); packed: (total, H, D)
  std::string q_layout;                      // of the array that q came from; O is written in the same
  std::string q_source, k_source, v_source;  // "layer.safetensors[q]"
  ConstTensor cu_seqlens_q, cu_seqlens_k;    // packed: (sequences + 1), int32
  ConstTensor mask, sinks, alibi_slopes;
  std::string cu_seqlens_q_source, cu_seqlens_k_source, mask_source, sinks_source, alibi_source;

  bool packed() const { return cu_seqlens_q.present(); }
  Extents extents() const;
  /// REQUIRES: the library accepts the inputs.
  std::vector<Span> sequences() const;
  Span longest() const;  // most queries and most keys of any sequence, from 0

  /// O's shape without O.
  Tensor unallocated_out(DType dtype) const;
  /// The arrays that options name.
  void pass_to(Options& options) const;
};

/// Reads and converts. Throws UsageError for what the caller can mend, files::FileError for a file that is none.
Inputs read_inputs(const RunRequest& request);

}  // namespace flashtile::cli
