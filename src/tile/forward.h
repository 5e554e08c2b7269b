// The forward pass of one task: a strip of query rows of one key-value head against all keys that they see.
//
//   for chunk of 512 keys:  pack K and V once
//     for tile of 48 rows:  S = Q Kᵀ → logits → P = 2^(S − m) → O += P V, block by block; fold the chunk into the rows
//   for row:                sink, O / l, LSE, statistics
//
// No kernel allocates, throws, looks anything up or knows threads.
#pragma once

#include "tile/finish.h"
#include "tile/logit.h"
#include "tile/merge.h"
#include "tile/products.h"
#include "tile/softmax.h"

namespace flashtile {
namespace {

template <class Products>
class Forward {
  using V = typename Products::Lane;
  using T = typename V::Scalar;
  static constexpr int kLanes = V::kLanes;

 public:
  using Number = T;

  FT_INLINE Forward(const Problem& p, const Tensors& t, const TileShape& shape, Arena& arena)
      : p_(p),
        t_(t),
        shape_(shape),
        scratch_(arena, p, shape, Products::kRoundsWeights),
        products_(arena, p, shape),
        constants_(p) {}

  /// REQUIRES: task.rows ≤ shape.strip_rows.
  void run(const Task& task) {
    begin(task, 0);
    if (fold_all()) return;
    // Some unnormalised O overflowed where the answer need not: those rows once more with smaller weights. A property of
    // the row alone, so its bits do not depend on its neighbours.
    begin(task, kOverflowShift);
    fold_all();
  }

  /// Adds the weights of the task's rows to the sums of their keys, rows ascending. REQUIRES: run() has been called for
  /// all rows of the head, with this memory.
  void add_key_weights(const Task& task) {
    begin(task, 0);
    for (Index j = seen_.begin; j < seen_.end;) {
      open_chunk(cell_of(*s_, j, kChunkKeys, {0, s_->keys}));
      for (Index r = 0; r < rows_; r += kTileQueries)
        for (Index k = chunk_.begin; k < chunk_.end;) {
          const KeyRange block = cell_of(*s_, k, shape_.block_keys, chunk_);
          if (logits(tile_rows(r), r, block)) sum_keys(tile_rows(r), block);
          k = block.end;
        }
      j = chunk_.end;
    }
  }

 private:
  FT_INLINE TileRows tile_rows(Index r) const {
    const Index left = rows_ - r;
    return {s_,         s_->batch, kv_head_ * p_.group(),
            p_.group(), row_ + r,  static_cast<int>(left < kTileQueries ? left : kTileQueries)};
  }
  FT_INLINE static int vectors_of(int rows) { return (rows + kLanes - 1) / kLanes; }

  /// Finds what each row sees.
  void begin(const Task& task, T shift) {
    s_ = &p_.sequences[task.sequence];
    kv_head_ = task.kv_head, row_ = task.row, rows_ = task.rows;
    seen_ = {0, 0}, shift_ = shift;
    fill(scratch_.shift, kTileQueries, shift);
    start<V>(scratch_.total, static_cast<int>((rows_ + kTileQueries - 1) / kTileQueries * kTileQueries));
    for (Index r0 = 0; r0 < rows_; r0 += kTileQueries) {
      const TileRows rows = tile_rows(r0);
      TileSpan& span = scratch_.spans[r0 / kTileQueries];
      span = {{0, 0}, {0, s_->keys}, false, true};
      for (int r = 0; r < rows.rows; ++r) {
        const KeyRange keys = s_->padding ? KeyRange{0, 0} : visible_keys(p_, t_, *s_, rows.query(r));
        scratch_.visible[r0 + r] = keys;
        span.some = covering(span.some, keys), span.all = common(span.all, keys);
      }
      seen_ = covering(seen_, span.some);
    }
  }

  /// Packs the queries of a tile when they are first needed. Of a row that sees nothing, nothing is read.
  void pack_queries(const TileRows& rows, Index r0) {
    Index at[kTileQueries];
    fill(at, kTileQueries, kNoRow);
    T* factor = scratch_.factor + r0;
    fill(factor, kTileQueries, T{0});
    for (int r = 0; r < rows.rows; ++r) {
      if (scratch_.visible[r0 + r].empty()) continue;
      const Index row = s_->first_query + rows.query(r), h = rows.head(r);
      at[r] = p_.q.at(s_->batch, row, h);
      factor[r] = constants_.factor;
      if (p_.row_scale.present) factor[r] *= static_cast<const float*>(t_.row_scale)[p_.row_scale.at(s_->batch, row, h)];
    }
    products_.pack_queries(t_.q, at, vectors_of(rows.rows), r0);
  }

  /// Chunks ascending, and in each the tiles; a tile is finished when its last chunk is in, while it is in the caches.
  /// False when some row has to be done again.
  bool fold_all() {
    bool done = true;
    for (Index r = 0; r < rows_; r += kTileQueries)
      if (scratch_.spans[r / kTileQueries].some.empty()) done = finish(tile_rows(r), r) && done;
    for (Index j = seen_.begin; j < seen_.end;) {
      open_chunk(cell_of(*s_, j, kChunkKeys, {0, s_->keys}));
      for (Index r = 0; r < rows_; r += kTileQueries) {
        const KeyRange some = scratch_.spans[r / kTileQueries].some;
        if (common(chunk_, some).empty()) continue;
        const TileRows rows = tile_rows(r);
        fold_chunk(rows, r);
        if (some.end <= chunk_.end) done = finish(rows, r) && done;
      }
      j = chunk_.end;
    }
    return done;
  }

  FT_INLINE void open_chunk(KeyRange chunk) {
    chunk_ = chunk;
    fill(scratch_.packed, kChunkKeys / 16, std::uint8_t{0});
  }

  /// Finds a block's place in the panels of the open chunk, and its scores. Blocks are cut on the position grid, so all
  /// but the first and last of a sequence are whole: count from the grid.
  FT_INLINE void place(KeyRange block) {
    const Index at = s_->key_position + block.begin;
    place_.panel = floor_div(at, shape_.block_keys) - floor_div(s_->key_position + chunk_.begin, shape_.block_keys);
    place_.lead = products_.lead(at);
    scores_ = scratch_.scores + place_.lead * kTileQueries;
  }

  /// Packs the placed block when it is first needed.
  void pack(KeyRange block) {
    std::uint8_t& packed = scratch_.packed[place_.panel];
    if (packed == 0) {
      const Index row = s_->first_key + block.begin, b = s_->batch;
      const Index k = p_.k.at(b, row, kv_head_), v = p_.v.at(b, row, kv_head_);
      packed = products_.pack(place_, t_.k, k, t_.v, v, block.size()) ? 1 : 2;
    }
    place_.finite = packed == 1;
  }

  /// Logits of one tile and block into scores_, for the keys in live_ (relative to the block). False when no row
  /// sees any of them; then nothing was computed.
  bool logits(const TileRows& rows, Index r0, KeyRange block) {
    const int vectors = vectors_of(rows.rows);
    TileSpan& span = scratch_.spans[r0 / kTileQueries];
    KeyRange some = within(block, span.some), all = within(block, span.all);  // keys that some row sees, that all rows see
    live_ = some;
    if (some.empty()) return false;
    KeyRange seen[kTileQueries / kLanes];  // keys that some row of a vector sees
    if (all.size() == block.size()) {
      fill(scratch_.ranges, kTileQueries, all);
      fill(seen, kTileQueries / kLanes, all);
    } else {
      fill(seen, kTileQueries / kLanes, KeyRange{0, 0});
      for (int r = 0; r < rows.rows; ++r) {
        const KeyRange keys = scratch_.ranges[r] = within(block, scratch_.visible[r0 + r]);
        seen[r / kLanes] = covering(seen[r / kLanes], keys);
      }
      for (int r = rows.rows; r < kTileQueries; ++r) scratch_.ranges[r] = {0, block.size()};
    }
    bool modified = p_.score_modifier.apply != nullptr;
    if (modified && p_.score_modifier.coverage != nullptr) {
      const Coverage c = coverage(rows, block);
      products_.resume();
      if (c == Coverage::empty) return false;
      if (c == Coverage::full) modified = false;
    }
    if (p_.mask.present && !load_mask<T>(p_, t_, rows, block.begin, some.begin, some.end, scratch_.mask)) return false;

    if (!span.packed) pack_queries(rows, r0), span.packed = true;
    place(block);
    pack(block);
    T* s = scores_;
    if (constants_.natural) fill(seen, vectors, some);  // a modifier meets no score that was not computed
    products_.score(place_, r0, scratch_.factor + r0, vectors, seen, some.begin, some.end, s);
    if (p_.softcap > 0) apply_softcap<V>(s, vectors, some.begin, some.end, constants_.cap);
    if (constants_.natural) {
      static constexpr ScoreModifier kNone = {[](void*, const ScoreTile&) {}, nullptr, nullptr};
      apply_modifier<V>(modified ? p_.score_modifier : kNone, rows, s, vectors, block.begin, some.begin, some.end,
                        constants_.log2e);
      products_.resume();
    }
    if (p_.alibi_slopes.present)
      apply_alibi<V>(p_, t_, rows, s, vectors, block.begin, some.begin, some.end, constants_.log2e);
    if (p_.mask.present)
      apply_mask<V>(scratch_.mask, p_.mask.dtype == DType::boolean, s, vectors, some.begin, some.end, constants_.log2e);
    if (all.empty()) all = {some.end, some.end};
    if (all.begin > some.begin) hide_outside<V>(scratch_.ranges, s, vectors, some.begin, all.begin);
    if (all.end < some.end) hide_outside<V>(scratch_.ranges, s, vectors, all.end, some.end);
    return true;
  }

  /// What the modifier says of a block, over the heads of the tile.
  FT_INLINE Coverage coverage(const TileRows& rows, KeyRange block) const {
    bool all_empty = true, all_full = true;
    for (Index r = 0; r < rows.group && r < rows.rows; ++r) {
      const Index last = r + (rows.rows - 1 - r) / rows.group * rows.group;
      const Coverage c = p_.score_modifier.coverage(p_.score_modifier.context, rows.batch, rows.head(r), rows.query(r),
                                                    rows.query(last) + 1, block.begin, block.end);
      all_empty = all_empty && c == Coverage::empty, all_full = all_full && c == Coverage::full;
    }
    return all_empty ? Coverage::empty : all_full ? Coverage::full : Coverage::mixed;
  }

  /// Folds the open chunk into the rows of one tile: blocks from a fresh state, then one merge.
  void fold_chunk(const TileRows& rows, Index r0) {
    const int vectors = vectors_of(rows.rows);
    bool first = true;
    for (Index j = chunk_.begin; j < chunk_.end;) {
      const KeyRange block = cell_of(*s_, j, shape_.block_keys, chunk_);
      j = block.end;
      if (!logits(rows, r0, block)) continue;  // S (keys, queries)
      if (first) start<V>(scratch_.chunk, kTileQueries);
      softmax<V>(scores_, vectors, live_.begin, live_.end, !place_.finite, scratch_.chunk, scratch_.shift,
                 scratch_.shrink);  // P = 2^(S − m)
      if constexpr (Products::kRoundsWeights) {
        products_.round_weights(place_, scores_, rows.rows, live_.begin, live_.end);
        products_.sum_weights(place_, rows.rows, live_.begin, live_.end, scratch_.shrink, first);
      }
      if (p_.dropout.probability > 0) {
        apply_dropout(p_.dropout, rows, block.begin, live_.begin, live_.end, scores_);
        if constexpr (Products::kRoundsWeights) products_.round_weights(place_, scores_, rows.rows, live_.begin, live_.end);
      }
      products_.accumulate(place_, scores_, rows.rows, scratch_.ranges, live_.begin, live_.end, scratch_.shrink, first,
                           scratch_.chunk);  // O ← 2^(m_old − m) O + P V
      first = false;
    }
    if (first) return;
    products_.close(rows.rows, scratch_.chunk);
    bool& fresh = scratch_.spans[r0 / kTileQueries].fresh;
    merge<V>(scratch_.total.from(r0, scratch_.width), fresh, scratch_.chunk, rows.rows, scratch_.width);
    fresh = false;
  }

  /// Σ over rows of P = 2^(S − m) / l for one tile. A hidden key stays untouched, whatever its row has become.
  void sum_keys(const TileRows& rows, KeyRange block) {
    const V hidden = V::broadcast(-Limits<V>::kInfinity), zero = V::broadcast(0);
    for (int r = 0; r < rows.rows; r += kLanes) {
      const V max = V::load(scratch_.final_max + rows.row + r), inverse = V::load(scratch_.final_inverse + rows.row + r);
      for (Index j = live_.begin; j < live_.end; ++j) {
        T* at = scores_ + j * kTileQueries + r;
        const V t = V::load(at);
        select(equal(t, hidden), zero, exp2_shifted(t, max) * inverse).store(at);
      }
    }
    T* sums = static_cast<T*>(t_.key_weights);
    const Axes& axes = p_.key_weights;
    for (Index j = live_.begin; j < live_.end; ++j)
      for (int r = 0; r < rows.rows; ++r)
        sums[axes.at(s_->batch, s_->first_key + block.begin + j, rows.head(r))] += scores_[j * kTileQueries + r];
  }

  /// Writes the rows of a tile (with a shift: those marked before). False when some row has to be done again.
  bool finish(const TileRows& rows, Index r0) {
    bool done = true;
    const Index width = scratch_.width;
    const T keep = static_cast<T>(1.0 / (1.0 - p_.dropout.probability));
    if (scratch_.spans[r0 / kTileQueries].fresh) fill(scratch_.total.from(r0, width).out, rows.rows * width, T{0});
    for (int r = 0; r < rows.rows; ++r) {
      std::uint8_t& redo = scratch_.redo[r0 + r];
      if (shift_ != 0 && redo == 0) continue;
      const Index b = s_->batch, h = rows.head(r), row = s_->first_query + rows.query(r);
      const RowStates<T> state = scratch_.total.from(r0 + r, width);
      if (shift_ == 0) {
        redo = !all_finite<V>(state.out, width) && *state.sum - *state.sum == 0;
        done = done && redo == 0;
        if (redo != 0) continue;
      }
      const bool sink = p_.sinks.present && !s_->padding;
      const T sink_logit = sink ? static_cast<const float*>(t_.sinks)[p_.sinks.at(0, 0, h)] : 0;
      const FinalRow<T> f = join_sink(*state.max, *state.sum, shift_, sink, sink_logit);
      write_statistics(p_, t_, b, row, h, f, shift_, state);
      if (p_.key_weights.present) {
        scratch_.final_max[rows.row + r] = f.max + shift_, scratch_.final_inverse[rows.row + r] = f.inverse;
      }
      // Rounding the weights moves their sum too; dividing by the sum of what O has seen takes that out again.
      T inverse = f.inverse;
      if constexpr (Products::kRoundsWeights)
        inverse = join_sink(*state.max, *state.rounded, shift_, sink, sink_logit).inverse;
      write_row<V>(state.out, f.shrink, p_.dropout.probability > 0 ? inverse * keep : inverse, width, t_.out, p_.out.dtype,
                   p_.out.at(b, row, h), p_.value_dim);
    }
    return done;
  }

  const Problem& p_;
  const Tensors& t_;
  const TileShape shape_;
  Scratch<T> scratch_;
  Products products_;
  const LogitConstants<T> constants_;
  const Sequence* s_ = nullptr;
  Index kv_head_ = 0, row_ = 0, rows_ = 0;
  T shift_ = 0;  // see softmax.h
  KeyRange seen_{0, 0}, chunk_{0, 0}, live_{0, 0};
  BlockPlace place_{0, 0, true};  // of the block at hand …
  T* scores_ = nullptr;  // … and its S, then P: (keys of the block, 48)
};

}  // namespace
}  // namespace flashtile
