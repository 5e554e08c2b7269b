// The bodies behind stages.h, for one instruction set. The only code of the micro-benchmarks that calls the kernels:
// `Tile` prepares what a stage needs and has a member for each.
#pragma once

#include "bench/stages/stages.h"
#include "tile/merge.h"
#include "tile/products.h"

namespace flashtile::bench {
namespace {

template <class Isa>
class Tile {
  using V = typename Isa::F32;

 public:
  FT_INLINE explicit Tile(const Setting& s)
      : s_(s),
        p_(s.problem),
        rows_(static_cast<int>(p_.q_rows)),
        vectors_(rows_ / V::kLanes),
        keys_(s.shape.block_keys),
        arena_(s.scratch),
        scratch_(arena_, p_, s.shape, false),
        products_(arena_, p_, s.shape) {
    for (int r = 0; r < rows_; ++r) at_[r] = p_.q.at(0, r, 0);
    fill(seen_, vectors_, KeyRange{0, keys_});
    fill(scratch_.ranges, rows_, KeyRange{0, keys_});
    fill(scratch_.factor, rows_, 0.125f);
    fill(scratch_.shift, rows_, 0.0f);
    fill(scratch_.shrink, rows_, 0.5f);  // O stays of one size, however often P V is added
    start<V>(scratch_.chunk, rows_);
    start<V>(scratch_.total, rows_);
  }

  FT_INLINE void score() { products_.score({}, 0, scratch_.factor, vectors_, seen_, 0, keys_, scratch_.scores); }
  /// In place: the weights of one round are the logits of the next.
  FT_INLINE void softmax() {
    flashtile::softmax<V>(scratch_.scores, vectors_, 0, keys_, false, scratch_.chunk, scratch_.shift, scratch_.shrink);
  }
  FT_INLINE void accumulate() {
    products_.accumulate({}, scratch_.scores, rows_, scratch_.ranges, 0, keys_, scratch_.shrink, false, scratch_.chunk);
  }
  FT_INLINE void pack_queries() { products_.pack_queries(s_.q, at_, vectors_, 0); }
  FT_INLINE void pack_keys() { flashtile::pack_keys<V>(s_.k, p_.k.dtype, 0, p_.k.row, keys_, p_.head_dim, s_.panel); }
  FT_INLINE void pack_values() {
    scratch_.packed[0] =  // whether the values are finite is wanted, too
        flashtile::pack_values<Isa, V>(s_.v, p_.v.dtype, 0, p_.v.row, keys_, p_.value_dim, scratch_.width, keys_, s_.panel);
  }
  FT_INLINE void merge() { flashtile::merge<V>(scratch_.total, false, scratch_.chunk, rows_, scratch_.width); }

 private:
  const Setting& s_;
  const Problem& p_;
  int rows_, vectors_;
  Index keys_;
  Arena arena_;
  Scratch<float> scratch_;
  FmaProducts<Isa, V> products_;
  Index at_[kTileQueries];
  KeyRange seen_[kTileQueries / V::kLanes];
};

template <class Isa, void (Tile<Isa>::*kStage)()>
void repeat(const Setting& s, long rounds) {
  Tile<Isa> tile(s);
  for (long n = 0; n < rounds; ++n) {
    (tile.*kStage)();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // each round is wanted
  }
}

template <class Isa>
Stages make_stages() {
  using T = Tile<Isa>;
  return {.score = repeat<Isa, &T::score>,
          .softmax = repeat<Isa, &T::softmax>,
          .accumulate = repeat<Isa, &T::accumulate>,
          .pack_queries = repeat<Isa, &T::pack_queries>,
          .pack_keys = repeat<Isa, &T::pack_keys>,
          .pack_values = repeat<Isa, &T::pack_values>,
          .merge = repeat<Isa, &T::merge>};
}

}  // namespace
}  // namespace flashtile::bench
