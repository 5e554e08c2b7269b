// Tensors → Axes: shape, dtype and stride checks for the arrays of a call.
#pragma once

#include "problem/problem.h"

namespace flashtile {

struct Extent {
  const char* name;  // "Sq"
  Index size;
  bool broadcasts = false;  // an extent of 1 is accepted too and gets stride 0
  bool may_exceed = false;  // a larger extent is accepted (only the first `size` entries are used)
};

/// Checks rank, dtype, extents and that no element's offset overflows. `strides` gets one stride per extent.
Status check_tensor(const char* name, const ConstTensor& t, std::initializer_list<DType> dtypes,
                    std::initializer_list<Extent> extents, Index* strides) noexcept;

/// Outputs may not be written twice: no stride 0 over more than one element.
Status check_writable(const char* name, const Tensor& t) noexcept;

/// q, k, v and out: ranks, dtypes, heads, head dims, innermost strides. Fills sizes and axes of the problem.
Status check_operands(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                      Problem& p) noexcept;

/// Cuts the batch into sequences, by lengths and cu_seqlens, and gives them positions.
Status make_sequences(const Options& options, Problem& p) noexcept;

}  // namespace flashtile
