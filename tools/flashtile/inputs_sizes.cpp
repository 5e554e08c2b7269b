// Sizes of what a run reads, dense or packed, and its arrays as the library takes them.
#include <algorithm>

#include "inputs.h"

namespace flashtile::cli {

Extents Inputs::extents() const {
  const int s = packed() ? 0 : 1;
  return {.batch = packed() ? 1 : q.shape[0],
          .queries = q.shape[s],
          .keys = k.shape[s],
          .heads = q.shape[s + 1],
          .kv_heads = k.shape[s + 1],
          .head_dim = q.shape[s + 2],
          .value_dim = v.shape[s + 2]};
}

std::vector<Span> Inputs::sequences() const {
  std::vector<Span> all;
  if (!packed()) {
    const Extents e = extents();
    for (std::int64_t b = 0; b < e.batch; ++b) all.push_back({b * e.queries, e.queries, b * e.keys, e.keys});
    return all;
  }
  const auto at = [](const ConstTensor& t, std::int64_t i) {
    return std::int64_t{static_cast<const std::int32_t*>(t.data)[i * t.stride[0]]};
  };
  for (std::int64_t b = 0; b + 1 < cu_seqlens_q.shape[0]; ++b) {
    const std::int64_t query = at(cu_seqlens_q, b), key = at(cu_seqlens_k, b);
    all.push_back({query, at(cu_seqlens_q, b + 1) - query, key, at(cu_seqlens_k, b + 1) - key});
  }
  return all;
}

Span Inputs::longest() const {
  Span most;
  for (const Span& s : sequences())
    most.queries = std::max(most.queries, s.queries), most.keys = std::max(most.keys, s.keys);
  return most;
}

Tensor Inputs::unallocated_out(DType dtype) const {
  const Extents e = extents();
  float* const none = nullptr;
  Tensor out =
      packed() ? view(none, {e.queries, e.heads, e.value_dim}) : view(none, {e.batch, e.queries, e.heads, e.value_dim});
  out.dtype = dtype;
  return out;
}

void Inputs::pass_to(Options& options) const {
  options.cu_seqlens_q = cu_seqlens_q, options.cu_seqlens_k = cu_seqlens_k;
  options.mask = mask, options.sinks = sinks, options.alibi_slopes = alibi_slopes;
}

}  // namespace flashtile::cli
