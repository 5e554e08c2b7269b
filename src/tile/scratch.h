// The memory of one worker. One constructor cuts it, and the same constructor on an empty arena measures it, so that size
// and use cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tile/geometry.h"

namespace flashtile {
namespace {

class Arena {
 public:
  FT_INLINE explicit Arena(std::byte* base) : base_(base) {}

  template <class T>
  FT_INLINE T* take(Index n) {
    T* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  FT_INLINE std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

/// Online softmax state of some rows, one array per quantity (see softmax.h for what they mean).
template <class T>
struct RowStates {
  T *max, *sum;                                    // m, l
  T *top, *moment, *count, *mean, *square;         // statistics; null unless asked for
  T* rounded;                                      // l of the weights as O sees them; null unless they are rounded
  T* out;                                          // (rows, padded value_dim), unnormalised

  FT_INLINE RowStates(Arena& arena, Index rows, Index width, bool statistics, bool rounds_weights) {
    max = arena.take<T>(rows), sum = arena.take<T>(rows);
    rounded = rounds_weights ? arena.take<T>(rows) : nullptr;
    top = moment = count = mean = square = nullptr;
    if (statistics) {
      top = arena.take<T>(rows), moment = arena.take<T>(rows), count = arena.take<T>(rows);
      mean = arena.take<T>(rows), square = arena.take<T>(rows);
    }
    out = arena.take<T>(rows * width);
  }
  /// The states from row `r` on.
  FT_INLINE RowStates from(Index r, Index width) const {
    RowStates s = *this;
    s.max += r, s.sum += r, s.out += r * width;
    if (rounded != nullptr) s.rounded += r;
    if (top != nullptr) s.top += r, s.moment += r, s.count += r, s.mean += r, s.square += r;
    return s;
  }
};

/// A tile of a strip.
struct TileSpan {
  KeyRange some, all;  // keys that at least one of its rows sees, and those that each sees
  bool packed, fresh;  // its queries are packed; no chunk has been folded into it
};

/// What every family needs; panels and what else its products need belong to them (products.h).
template <class T>
struct Scratch {
  Index width;                   // padded value_dim
  T* factor;                     // (strip rows): scale of each row's logits
  KeyRange* visible;             // (strip rows)
  TileSpan* spans;               // (strip tiles)
  T* scores;                     // (block keys, 48): S, then P
  T* mask;                       // (block keys, 48): additive mask; null without one
  KeyRange* ranges;              // (48): visible keys of a row, relative to the block
  T *shift, *shrink;             // (48): see softmax.h
  std::uint8_t* packed;          // (blocks of a chunk): 0 not yet, 1 finite values, 2 with Inf or NaN
  std::uint8_t* redo;            // (strip rows): unnormalised O overflowed
  T *final_max, *final_inverse;  // (rows of a kv head): m and 1/l, for column sums; null without them
  RowStates<T> chunk, total;

  FT_INLINE Scratch(Arena& a, const Problem& p, const TileShape& shape, bool rounds_weights)
      : width(padded_dim<T>(p.value_dim)),
        factor(a.take<T>(shape.strip_rows)),
        visible(a.take<KeyRange>(shape.strip_rows)),
        spans(a.take<TileSpan>(shape.strip_rows / kTileQueries)),
        scores(a.take<T>((shape.block_keys + 8) * kTileQueries)),
        mask(p.mask.present ? a.take<T>(shape.block_keys * kTileQueries) : nullptr),
        ranges(a.take<KeyRange>(kTileQueries)),
        shift(a.take<T>(kTileQueries)),
        shrink(a.take<T>(kTileQueries)),
        packed(a.take<std::uint8_t>(kChunkKeys / 16)),
        redo(a.take<std::uint8_t>(shape.strip_rows)),
        final_max(p.key_weights.present ? a.take<T>(head_rows(p)) : nullptr),
        final_inverse(p.key_weights.present ? a.take<T>(head_rows(p)) : nullptr),
        chunk(a, kTileQueries, width, p.wants_statistics(), rounds_weights),
        total(a, shape.strip_rows, width, p.wants_statistics(), rounds_weights) {}

 private:
  FT_INLINE static Index head_rows(const Problem& p) {
    Index n = 0;
    for (Index s = 0; s < p.sequence_count; ++s) n = larger(n, p.sequences[s].queries);
    return n * p.group() + kTileQueries;  // read by whole vectors
  }
};

}  // namespace
}  // namespace flashtile
