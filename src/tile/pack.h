// Storage → panels in the compute type (fp32, or fp64 for fp64), so that kernels never see strides, dtypes or ragged ends.
//
//   queries of a tile          keys of a block                        values of a block
//     d0: q0 … q47               d0: k0 … k15                           k0: v0 … v63
//     d1: q0 … q47 …             d1: k0 … k15 …                         k1: v0 … v63 …
//                                then the next 16 keys                  then the next 64 dims, padded with 0
//
// A panel is as wide as what a step of a product loads (the widths here are those of 32 registers of 16 fp32, geometry.h),
// so that products read memory from end to end. Missing rows and keys are 0. A chunk is packed once per task and shared by
// all its query tiles and the heads of its group.
#pragma once

#include "problem/number.h"
#include "tile/elementary.h"
#include "tile/scratch.h"

namespace flashtile {
namespace {

/// The place of a row that is missing.
inline constexpr Index kNoRow = -1;

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

/// The first n ≤ kLanes elements, then zeros. Nothing behind them is read.
template <class V, class S>
FT_INLINE V load_part(const S* from, Index n) {
  if (n >= V::kLanes) return V::load(from);
  typename V::Scalar part[V::kLanes] = {};
  for (Index i = 0; i < n; ++i) part[i] = to_float(from[i]);
  return V::load(part);
}

/// Rows become columns. Zipping the upper half of the rows with the lower one turns the bits of (row, lane) by one place;
/// as often as there are bits, and they have changed sides.
template <class V>
FT_INLINE void transpose(V (&rows)[V::kLanes]) {
  constexpr int L = V::kLanes, H = L / 2;
  FT_UNROLL for (int stage = 1; stage < L; stage *= 2) {
    V next[L];
    FT_UNROLL for (int i = 0; i < H; ++i) {
      next[2 * i] = zip_low(rows[i], rows[i + H]);
      next[2 * i + 1] = zip_high(rows[i], rows[i + H]);
    }
    FT_UNROLL for (int i = 0; i < L; ++i) rows[i] = next[i];
  }
}

/// `rows` rows (a multiple of kLanes), row r from element at[r] on, become columns of a panel of rows `stride` apart.
template <class V, class S, class T = typename V::Scalar>
FT_INLINE void pack_columns(const S* data, const Index* at, int rows, Index dim, Index stride, T* panel) {
  constexpr int L = V::kLanes;
  for (int r = 0; r < rows; r += L)
    for (Index d = 0; d < dim; d += L) {
      const Index n = smaller(L, dim - d);
      V square[L];
      FT_UNROLL for (int i = 0; i < L; ++i) square[i] =
          at[r + i] == kNoRow ? V::broadcast(0) : load_part<V>(data + at[r + i] + d, n);
      transpose(square);
      T* to = panel + d * stride + r;
      if (n == L) {
        FT_UNROLL for (int i = 0; i < L; ++i) square[i].store(to + i * stride);
      } else {
        FT_UNROLL for (int i = 0; i < L; ++i) if (i < n) square[i].store(to + i * stride);
      }
    }
}

/// The first `rows` queries of a tile, a multiple of kLanes; at[r] is the place of row r, kNoRow beyond the rows and for
/// those that see nothing.
template <class Isa, class V, class T = typename V::Scalar>
FT_INLINE void pack_queries(const void* data, DType dtype, const Index* at, int rows, Index head_dim, T* panels) {
  constexpr int W = kPanelQueries<Isa, V>;
  with_storage<T>(dtype, [&](auto* type) {
    for (int r = 0; r < rows; r += W)
      pack_columns<V>(static_cast<decltype(type)>(data), at + r, smaller(W, rows - r), head_dim, W, panels + r * head_dim);
  });
}

/// `n` keys, a row stride apart, into panels; the last one is filled up with zeros.
template <class V, class T = typename V::Scalar>
FT_INLINE void pack_keys(const void* data, DType dtype, Index at, Index stride, Index n, Index head_dim, T* panel) {
  constexpr int P = kPanelKeys<T>;
  with_storage<T>(dtype, [&](auto* type) {
    for (Index j = 0; j < n; j += P, panel += P * head_dim) {
      Index rows[P];
      FT_UNROLL for (int r = 0; r < P; ++r) rows[r] = j + r < n ? at + (j + r) * stride : kNoRow;
      pack_columns<V>(static_cast<decltype(type)>(data), rows, P, head_dim, P, panel);
    }
  });
}

/// `n` value rows into the panels of a block; returns whether all of them are finite.
template <class Isa, class V, class T = typename V::Scalar>
FT_INLINE bool pack_values(const void* data, DType dtype, Index at, Index stride, Index n, Index value_dim, Index width,
                           Index block_keys, T* panels) {
  const V most = V::broadcast(Limits<V>::kMax);
  auto finite = less_equal(most, most);
  with_storage<T>(dtype, [&](auto* type) {
    const auto* row = static_cast<decltype(type)>(data) + at;
    for (Index j = 0; j < n; ++j, row += stride)
      for (Index d = 0; d < width; d += V::kLanes) {
        const ValuePanel<Isa, V> panel(width, block_keys, d);
        const V x = d < value_dim ? load_part<V>(row + d, value_dim - d) : V::broadcast(0);
        finite = V::both(finite, less_equal(abs(x), most));
        x.store(panels + panel.at + j * panel.width);
      }
  });
  return V::all(finite);
}

}  // namespace
}  // namespace flashtile
