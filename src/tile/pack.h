// Storage → panels in the compute type (fp32, or fp64 for fp64), so that kernels never see strides, dtypes or ragged ends.
//
//   queries (48 rows)          keys of a block, G at a time          values of a block
//     d0: q0 q1 … q47            d0: k0 … k(G−1)   d1: k0 …            k0: v0 v1 … padding 0
//     d1: q0 q1 … q47            then the next G keys                  k1: v0 v1 … padding 0
//
// Missing rows and keys are 0. A chunk is packed once per task and shared by all its query tiles and the heads of its
// group. Packed panels also have no power-of-two strides, whose lines would fight for the same few places of a cache.
#pragma once

#include "problem/number.h"
#include "tile/scratch.h"

namespace flashtile {
namespace {

/// Calls body with a typed null pointer of the dtype's storage type.
template <class T, class Body>
FT_INLINE void with_storage(DType dtype, const Body& body) {
  if constexpr (sizeof(T) == 8) {
    body(static_cast<const double*>(nullptr));
  } else {
    if (dtype == DType::f32) body(static_cast<const float*>(nullptr));
    else if (dtype == DType::bf16) body(static_cast<const bf16*>(nullptr));
    else body(static_cast<const f16*>(nullptr));
  }
}

/// One query row into lane `r` of a panel.
template <class T>
FT_INLINE void pack_query(const void* data, DType dtype, Index at, Index head_dim, Index r, T* panel) {
  with_storage<T>(dtype, [&](auto* type) {
    const auto* row = static_cast<decltype(type)>(data) + at;
    for (Index d = 0; d < head_dim; ++d) panel[d * kTileQueries + r] = to_float(row[d]);
  });
}

/// `n` keys, a row stride apart, into groups of kGroup keys; the last group is filled up with zeros.
template <int kGroup, class T>
FT_INLINE void pack_keys(const void* data, DType dtype, Index at, Index stride, Index n, Index head_dim, T* panel) {
  with_storage<T>(dtype, [&](auto* type) {
    const auto* first = static_cast<decltype(type)>(data) + at;
    for (Index j = 0; j < n; j += kGroup) {
      if (n - j >= kGroup) {
        for (Index d = 0; d < head_dim; ++d)
          FT_UNROLL for (int r = 0; r < kGroup; ++r) panel[d * kGroup + r] = to_float(first[(j + r) * stride + d]);
      } else {
        for (Index d = 0; d < head_dim; ++d)
          for (int r = 0; r < kGroup; ++r) panel[d * kGroup + r] = j + r < n ? to_float(first[(j + r) * stride + d]) : 0;
      }
      panel += head_dim * kGroup;
    }
  });
}

/// `n` value rows; returns whether all of them are finite.
template <class T>
FT_INLINE bool pack_values(const void* data, DType dtype, Index at, Index stride, Index n, Index value_dim, Index width,
                           T* panel) {
  bool finite = true;
  with_storage<T>(dtype, [&](auto* type) {
    const auto* row = static_cast<decltype(type)>(data) + at;
    for (Index j = 0; j < n; ++j, row += stride, panel += width) {
      T largest = 0;  // x − x is 0 for finite x and NaN for the others; NaN stays
      for (Index d = 0; d < value_dim; ++d) {
        const T x = to_float(row[d]);
        panel[d] = x;
        largest += x - x;
      }
      for (Index d = value_dim; d < width; ++d) panel[d] = 0;
      finite = finite && largest == 0;
    }
  });
  return finite;
}

}  // namespace
}  // namespace flashtile
