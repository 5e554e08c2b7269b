// The two products of the fma family, S = Q Kᵀ and O += P V, and the panels they read. forward.h is written against this
// class and against AmxProducts (products_amx.h), which has the same members: what else a row goes through is shared.
#pragma once

#include "tile/accumulate.h"
#include "tile/pack.h"
#include "tile/score.h"

namespace flashtile {
namespace {

/// Where a block of keys lies in the panels of the open chunk.
struct BlockPlace {
  Index panel = 0;      // counted from the first block of the chunk
  Index lead = 0;       // free places before its first key
  bool finite = true;   // no Inf or NaN among its values; known once it is packed
};

template <class Isa, class Vector>
class FmaProducts {
  using V = Vector;
  using T = typename V::Scalar;

 public:
  using Lane = V;
  static constexpr bool kRoundsWeights = false;

  FT_INLINE FmaProducts(Arena& a, const Problem& p, const TileShape& shape)
      : p_(p),
        block_keys_(shape.block_keys),
        width_(padded_dim<T>(p.value_dim)),
        queries_(a.take<T>(shape.strip_rows * p.head_dim)),
        keys_(a.take<T>((kChunkKeys + 2 * shape.block_keys) * p.head_dim)),
        values_(a.take<T>((kChunkKeys + 2 * shape.block_keys) * width_)) {}

  /// Free places before a block that starts at this key position.
  FT_INLINE Index lead(Index) const { return 0; }
  /// After a call into the caller's code.
  FT_INLINE void resume() const {}

  /// The tile that starts at row `r0` of the task, `vectors` vectors of rows; at[r] is the place of its row r, or kNoRow.
  FT_INLINE void pack_queries(const void* q, const Index* at, int vectors, Index r0) {
    flashtile::pack_queries<Isa, V>(q, p_.q.dtype, at, vectors * V::kLanes, p_.head_dim, queries_ + r0 * p_.head_dim);
  }
  /// A block of `n` keys; returns whether its values are finite.
  FT_INLINE bool pack(BlockPlace b, const void* k, Index k_at, const void* v, Index v_at, Index n) {
    pack_keys<V>(k, p_.k.dtype, k_at, p_.k.row, n, p_.head_dim, keys(b));
    return pack_values<Isa, V>(v, p_.v.dtype, v_at, p_.v.row, n, p_.value_dim, width_, block_keys_, values(b));
  }

  /// S of keys [begin, end) of a block, where the rows of vector c see seen[c] of it.
  FT_INLINE void score(BlockPlace b, Index r0, const T* factor, int vectors, const KeyRange* seen, Index begin, Index end,
                       T* scores) const {
    flashtile::score<Isa, V>(queries_ + r0 * p_.head_dim, keys(b), p_.head_dim, factor, vectors, seen, begin, end, scores);
  }
  /// O ← O · shrink + P V, row r over its keys ranges[r] of a block, which lie in [begin, end); `first` means that O is
  /// still 0 and not yet written.
  FT_INLINE void accumulate(BlockPlace b, const T* weights, int rows, const KeyRange* ranges, Index begin, Index end,
                            const T* shrink, bool first, RowStates<T> chunk) const {
    if (b.finite)
      flashtile::accumulate<Isa, V>(weights, values(b), block_keys_, width_, rows, ranges, shrink, first, chunk.out);
    else accumulate_visible<Isa, V>(weights, values(b), block_keys_, width_, rows, begin, end, shrink, first, chunk.out);
  }
  /// All blocks of a chunk are in: chunk.out is to hold O.
  FT_INLINE void close(int, RowStates<T>) const {}

 private:
  FT_INLINE T* keys(BlockPlace b) const { return keys_ + b.panel * block_keys_ * p_.head_dim; }
  FT_INLINE T* values(BlockPlace b) const { return values_ + b.panel * block_keys_ * width_; }

  const Problem& p_;
  Index block_keys_, width_;
  T* queries_;  // panels of the strip's tiles, see pack.h …
  T* keys_;     // … and of the chunk's blocks
  T* values_;
};

}  // namespace
}  // namespace flashtile
