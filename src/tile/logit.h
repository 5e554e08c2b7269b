// From scaled scores to logits in base 2, in the order of docs/semantics.md: softcap → score modifier → ALiBi → mask →
// visibility. A plain tile needs none of it: score.h has already multiplied by scale · log2 e. Hidden means that −inf is
// selected, never added.
#pragma once

#include "problem/dropout.h"
#include "problem/number.h"
#include "tile/elementary.h"
#include "tile/scratch.h"

namespace flashtile {
namespace {

/// The constants of a problem in the compute type.
template <class T>
struct LogitConstants {
  T factor;          // what score.h multiplies by: see factor()
  T cap;             // softcap · log2 e, or softcap where a modifier wants natural units
  T log2e;
  bool natural;      // scores stay in natural units until the modifier has seen them

  FT_INLINE explicit LogitConstants(const Problem& p) {
    constexpr double kLog2E = Polynomials<double>::kLog2E;
    natural = p.score_modifier.apply != nullptr;
    log2e = Polynomials<T>::kLog2E;
    const double unit = natural ? 1.0 : kLog2E;
    cap = static_cast<T>(p.softcap * unit);
    factor = p.softcap > 0 ? static_cast<T>(p.scale / p.softcap) : static_cast<T>(p.scale * unit);
  }
};

/// The rows of a tile: row r is row `row + r` of a task's kv head, query (row + r) / group of head (row + r) % group.
struct TileRows {
  const Sequence* sequence;
  Index batch, first_head, group, row;
  int rows;

  FT_INLINE Index query(Index r) const { return (row + r) / group; }
  FT_INLINE Index head(Index r) const { return first_head + (row + r) % group; }
};

/// t = cap · tanh(t), over vectors of the tile.
template <class V, class T = typename V::Scalar>
FT_INLINE void apply_softcap(T* scores, int vectors, Index begin, Index end, T cap) {
  const V c = V::broadcast(cap);
  for (Index j = begin; j < end; ++j)
    for (int r = 0; r < vectors; ++r) {
      T* at = scores + j * kTileQueries + r * V::kLanes;
      (c * tanh(V::load(at))).store(at);
    }
}

/// Hands the tile to the modifier, once per head of the group, then goes to base 2.
template <class V, class T = typename V::Scalar>
FT_INLINE void apply_modifier(const ScoreModifier& modifier, const TileRows& rows, T* scores, int vectors, Index first_key,
                              Index begin, Index end, T log2e) {
  // Not `ScoreTile tile;`: unoptimised, its constructor would be a function that the linker shares (problem/inline.h).
  ScoreTile tile = {.dtype = sizeof(T) == 8 ? DType::f64 : DType::f32,
                    .query_stride = rows.group,
                    .key_stride = kTileQueries,
                    .keys = end - begin,
                    .batch = rows.batch,
                    .key = first_key + begin,
                    .key_position = rows.sequence->key_position + first_key + begin};
  for (Index r = 0; r < rows.group && r < rows.rows; ++r) {
    tile.scores = scores + begin * kTileQueries + r;
    tile.queries = (rows.rows - r + rows.group - 1) / rows.group;
    tile.head = rows.head(r), tile.query = rows.query(r);
    tile.query_position = rows.sequence->query_position + tile.query;
    modifier.apply(modifier.context, tile);
  }
  const V unit = V::broadcast(log2e);
  for (Index j = begin; j < end; ++j)
    for (int r = 0; r < vectors; ++r) {
      T* at = scores + j * kTileQueries + r * V::kLanes;
      (V::load(at) * unit).store(at);
    }
}

/// t + bias · log2 e. A −inf bias hides; two finite numbers stay finite, so that finfo.min remains a number.
template <class V, class T = typename V::Scalar>
FT_INLINE V biased(V t, V bias, V log2e) {
  const V most = V::broadcast(Limits<V>::kMax), least = V::broadcast(Limits<V>::kEmpty);
  const V hidden = V::broadcast(-Limits<V>::kInfinity);
  const V sum = fma(bias, log2e, t);
  const auto finite = V::both(less_equal(abs(t), most), less_equal(abs(bias), most));
  const V clamped = select(finite, max_second(min_second(sum, most), least), sum);
  return select(V::either(equal(bias, hidden), equal(t, hidden)), hidden, clamped);
}

/// ALiBi's bias −slope · |query position − key position|.
template <class V, class T = typename V::Scalar>
FT_INLINE void apply_alibi(const Problem& p, const Tensors& t, const TileRows& rows, T* scores, int vectors, Index first_key,
                           Index begin, Index end, T log2e) {
  T slope[kTileQueries] = {};
  for (Index r = 0; r < rows.rows; ++r)
    slope[r] = -static_cast<const float*>(t.alibi_slopes)[p.alibi_slopes.at(rows.batch, 0, rows.head(r))];
  for (Index j = begin; j < end; ++j) {
    T bias[kTileQueries] = {};
    for (Index r = 0; r < rows.rows; ++r)
      bias[r] = slope[r] * static_cast<T>(distance(*rows.sequence, rows.query(r), first_key + j));
    for (int r = 0; r < vectors; ++r) {
      T* at = scores + j * kTileQueries + r * V::kLanes;
      biased(V::load(at), V::load(bias + r * V::kLanes), V::broadcast(log2e)).store(at);
    }
  }
}

/// Reads the mask of a tile, transposed, as what is to be added (a boolean: 0 or −inf). Returns whether any key of any
/// row is not hidden.
template <class T>
FT_INLINE bool load_mask(const Problem& p, const Tensors& t, const TileRows& rows, Index first_key, Index begin, Index end,
                         T* mask) {
  bool any = false;
  const auto fill = [&](auto* type, auto convert) {
    for (Index r = 0; r < kTileQueries; ++r) {
      if (r >= rows.rows) {
        for (Index j = begin; j < end; ++j) mask[j * kTileQueries + r] = 0;
        continue;
      }
      const auto* row = static_cast<decltype(type)>(t.mask) + p.mask.at(rows.batch, rows.head(r), rows.query(r), first_key);
      for (Index j = begin; j < end; ++j) {
        const T x = convert(row[j * p.mask.key]);
        any = any || !(x == T(-__builtin_inf()));
        mask[j * kTileQueries + r] = x;
      }
    }
  };
  // A finite fp64 bias beyond fp32 stays the largest finite number: finite is never "masked".
  const auto widen = [](auto x) {
    constexpr double most = sizeof(T) == 4 ? 0x1.fffffep+127 : 0x1.fffffffffffffp+1023;
    const double wide = to_float(x);
    const bool finite = wide - wide == 0;
    return static_cast<T>(finite && wide > most ? most : finite && wide < -most ? -most : wide);
  };
  switch (p.mask.dtype) {
    case DType::boolean:
      fill(static_cast<const std::uint8_t*>(nullptr), [](std::uint8_t x) { return x != 0 ? T{0} : T(-__builtin_inf()); });
      break;
    case DType::f32: fill(static_cast<const float*>(nullptr), widen); break;
    case DType::f64: fill(static_cast<const double*>(nullptr), widen); break;
    case DType::f16: fill(static_cast<const f16*>(nullptr), widen); break;
    default: fill(static_cast<const bf16*>(nullptr), widen); break;
  }
  return any;
}

template <class V, class T = typename V::Scalar>
FT_INLINE void apply_mask(const T* mask, bool boolean, T* scores, int vectors, Index begin, Index end, T log2e) {
  const V hidden = V::broadcast(-Limits<V>::kInfinity);
  for (Index j = begin; j < end; ++j)
    for (int r = 0; r < vectors; ++r) {
      const Index at = j * kTileQueries + r * V::kLanes;
      const V t = V::load(scores + at), m = V::load(mask + at);
      (boolean ? select(equal(m, hidden), hidden, t) : biased(t, m, V::broadcast(log2e))).store(scores + at);
    }
}

/// Selects −inf outside each row's own range of keys (relative to the block).
template <class V, class T = typename V::Scalar>
FT_INLINE void hide_outside(const KeyRange* ranges, T* scores, int vectors, Index begin, Index end) {
  const V hidden = V::broadcast(-Limits<V>::kInfinity);
  T first[kTileQueries], last[kTileQueries];
  for (int r = 0; r < vectors * V::kLanes; ++r) {
    first[r] = static_cast<T>(ranges[r].begin), last[r] = static_cast<T>(ranges[r].end);
  }
  for (int r = 0; r < vectors; ++r) {
    const V from = V::load(first + r * V::kLanes), to = V::load(last + r * V::kLanes);
    for (Index j = begin; j < end; ++j) {
      T* at = scores + j * kTileQueries + r * V::kLanes;
      const V key = V::broadcast(static_cast<T>(j));
      select(V::both(less_equal(from, key), less(key, to)), V::load(at), hidden).store(at);
    }
  }
}

/// Multiplies weights by dropout's 0 or 1. The row sums have been taken before: only O sees dropout.
template <class T>
FT_INLINE void apply_dropout(const Dropout& dropout, const TileRows& rows, Index first_key, Index begin, Index end,
                             T* weights) {
  const std::uint32_t threshold = dropout_threshold(dropout);
  for (Index r = 0; r < rows.rows; ++r)
    for (Index j = begin; j < end;) {
      const Index key = first_key + j;
      const Philox words = dropout_words(dropout, rows.batch, rows.head(r), rows.query(r), key >> 2);
      for (Index lane = key & 3; lane < 4 && j < end; ++lane, ++j)
        weights[j * kTileQueries + r] *= words.word[lane] >= threshold ? T{1} : T{0};
    }
}

}  // namespace
}  // namespace flashtile
