// The two products of the amx family on tiles of 16 × 32 and 32 × 16 bf16, and the panels they read: S = K Qᵀ in groups
// of 32 dims, Oᵀ += Vᵀ Pᵀ in groups of 32 keys, both with queries in the columns.
//
//   keys    tile (i, g): keys 16i … of a block, dims 32g …         as rows
//   queries tile (j, g): dims 32g …, queries 16j … of a query tile   as pairs of dims
//   values  tile (i, g): dims 16i …, keys 32g … of a block          as rows: transposed; last, a row of ones
//   weights tile (j, g): keys 32g …, queries 16j …                  as pairs of keys
//
// A block's keys lie at their places on the position grid, so that which keys share a group, and which half of it,
// depends on positions alone. Free places are 0 in all operands. Tile (i, g) of an operand with G groups is number i ·
// G + g. Times the row of ones, the weights give their own sum, which O is divided by.
#pragma once

#include <type_traits>

#include "tile/products.h"

namespace flashtile {
namespace {

template <class Unit>
class AmxProducts {
  using V = typename Unit::Vectors::F32;
  static constexpr int kTile = Unit::kTile, L = V::kLanes;
  static constexpr int kColumns = kTileQueries / 16;  // query tiles of the unit in one of ours
  static_assert(kColumns == 3);

 public:
  using Lane = V;
  static constexpr bool kRoundsWeights = true;

  FT_INLINE AmxProducts(Arena& a, const Problem& p, const TileShape& shape)
      : p_(p),
        block_keys_(shape.block_keys),
        width_(padded_dim<float>(p.value_dim)),
        dim_groups_((p.head_dim + 31) / 32),
        queries_(a.take<std::uint16_t>(shape.strip_rows * dim_groups_ * 32)),
        keys_(a.take<std::uint16_t>(panels() * block_keys_ * dim_groups_ * 32)),
        values_(a.take<std::uint16_t>(panels() * value_numbers())),
        weights_(a.take<std::uint16_t>(block_keys_ * kTileQueries)),
        out_(a.take<float>((width_ + 16) * kTileQueries)) {}

  FT_INLINE Index lead(Index position) const { return position - floor_div(position, block_keys_) * block_keys_; }
  FT_INLINE void resume() const { Unit::resume(); }

  /// The tile that starts at row `r0` of the task; at[r] is the place of its row r, or kNoRow.
  FT_INLINE void pack_queries(const void* q, const Index* at, int, Index r0) {
    fill(weights_, block_keys_ * kTileQueries, std::uint16_t{0});  // columns without a query stay 0
    for (int r = 0; r < kTileQueries; r += L)
      for (Index d = 0; d < dim_groups_ * 32; d += 2 * L) {
        V square[L];
        FT_UNROLL for (int i = 0; i < L; ++i) square[i] =
            at[r + i] == kNoRow ? V::broadcast(0) : Unit::load_words(bits(q) + at[r + i] + d, p_.head_dim - d);
        transpose(square);
        std::uint16_t* tile = queries_ + ((r0 + r / 16 * 16) * dim_groups_ + d / 32 * 16) * 32;
        FT_UNROLL for (int i = 0; i < L; ++i) Unit::store_words(square[i], tile + (d % 32 / 2 + i) * 32 + r % 16 * 2);
      }
  }
  FT_INLINE bool pack(BlockPlace b, const void* k, Index k_at, const void* v, Index v_at, Index n) {
    pack_keys(bits(k) + k_at, b.lead, n, keys(b));
    return pack_values(static_cast<const bf16*>(v) + v_at, b.lead, n, values(b));
  }

  /// S of keys [begin, end) of a block. Whole tiles are computed; what lies outside is not used.
  FT_INLINE void score(BlockPlace b, Index r0, const float* factor, int vectors, const KeyRange*, Index begin, Index end,
                       float* scores) const {
    const Index first = (b.lead + begin) / 16, last = (b.lead + end + 15) / 16;
    multiply(keys(b) + first * dim_groups_ * kTile, dim_groups_, last - first, queries_ + r0 * dim_groups_ * 32, dim_groups_,
             vectors * L, dim_groups_, true, scores + (first * 16 - b.lead) * kTileQueries);
    for (Index j = begin; j < end; ++j)
      for (int r = 0; r < vectors * L; r += L) {
        float* at = scores + j * kTileQueries + r;
        (V::load(at) * V::load(factor + r)).store(at);
      }
  }

  /// P as bf16 into the panel of weights.
  FT_INLINE void round_weights(BlockPlace b, float* weights, int rows, Index begin, Index end) const {
    float* grid = weights - b.lead * kTileQueries;  // the first place of the block
    const KeyRange groups = groups_of(b, begin, end);
    fill(grid + groups.begin * 32 * kTileQueries, (b.lead + begin - groups.begin * 32) * kTileQueries, 0);
    fill(weights + end * kTileQueries, (groups.end * 32 - b.lead - end) * kTileQueries, 0);
    for (int r = 0; r < rows; r += L) {
      const float* p = grid + groups.begin * 32 * kTileQueries + r;
      std::uint16_t* pairs = weights_ + (r / 16 * block_groups() + groups.begin) * kTile + r % 16 * 2;
      for (Index k = groups.begin * 16; k < groups.end * 16; ++k, p += 2 * kTileQueries, pairs += 32)
        Unit::store_words(Unit::round_pair(V::load(p), V::load(p + kTileQueries)), pairs);
    }
  }

  /// Sum of P ← sum · shrink, then plus each group's.
  FT_INLINE void sum_weights(BlockPlace b, int rows, Index begin, Index end, const float* shrink, bool first) const {
    if (!first) rescale(width_, width_ + 1, rows, shrink);
    add(b, width_, width_ + 16, rows, groups_of(b, begin, end), first);
  }
  /// O ← O · shrink, then plus each group's P V.
  FT_INLINE void accumulate(BlockPlace b, const float* weights, int rows, const KeyRange*, Index begin, Index end,
                            const float* shrink, bool first, RowStates<float>) const {
    if (!first) rescale(0, width_, rows, shrink);
    if (b.finite) add(b, 0, width_, rows, groups_of(b, begin, end), first);
    else add_visible(b, weights, rows, begin, end, first);
  }

  /// All blocks of a chunk are in: O, and the sums of P as O has seen them.
  FT_INLINE void close(int rows, RowStates<float> chunk) const {
    for (int r = 0; r < rows; r += L) {
      V::load(out_ + width_ * kTileQueries + r).store(chunk.rounded + r);
      for (Index d = 0; d < width_; d += L) {
        V square[L];
        FT_UNROLL for (int i = 0; i < L; ++i) square[i] = V::load(out_ + (d + i) * kTileQueries + r);
        transpose(square);
        FT_UNROLL for (int i = 0; i < L; ++i) square[i].store(chunk.out + (r + i) * width_ + d);
      }
    }
  }

 private:
  FT_INLINE static const std::uint16_t* bits(const void* numbers) { return static_cast<const std::uint16_t*>(numbers); }
  FT_INLINE Index panels() const { return kChunkKeys / block_keys_; }
  FT_INLINE Index block_groups() const { return block_keys_ / 32; }
  FT_INLINE Index value_numbers() const { return block_keys_ * (width_ + 16); }
  FT_INLINE static KeyRange groups_of(BlockPlace b, Index begin, Index end) {
    return {(b.lead + begin) / 32, (b.lead + end + 31) / 32};
  }
  FT_INLINE std::uint16_t* keys(BlockPlace b) const { return keys_ + b.panel * block_keys_ * dim_groups_ * 32; }
  FT_INLINE std::uint16_t* values(BlockPlace b) const { return values_ + b.panel * value_numbers(); }

  /// Tiles of c: `rows` of them times those that hold `queries` columns.
  static void multiply(const std::uint16_t* a, Index a_next, Index rows, const std::uint16_t* b, Index b_next, int queries,
                       Index steps, bool fresh, float* c) {
    if (queries > 32) Unit::template product<3>(a, a_next, rows, b, b_next, steps, fresh, c, kTileQueries);
    else if (queries > 16) Unit::template product<2>(a, a_next, rows, b, b_next, steps, fresh, c, kTileQueries);
    else Unit::template product<1>(a, a_next, rows, b, b_next, steps, fresh, c, kTileQueries);
  }
  /// Rows [d_begin, d_end) of Oᵀ.
  FT_INLINE void add(BlockPlace b, Index d_begin, Index d_end, int rows, KeyRange groups, bool fresh) const {
    multiply(values(b) + (d_begin * block_groups() / 16 + groups.begin) * kTile, block_groups(), (d_end - d_begin) / 16,
             weights_ + groups.begin * kTile, block_groups(), rows, groups.size(), fresh, out_ + d_begin * kTileQueries);
  }

  void pack_keys(const std::uint16_t* from, Index lead, Index n, std::uint16_t* panel) const {
    for (Index place = 0; place < block_keys_; ++place) {
      const Index j = place - lead;
      std::uint16_t* to = panel + place / 16 * dim_groups_ * kTile + place % 16 * 32;
      for (Index d = 0; d < dim_groups_ * 32; d += 32, to += kTile)
        for (int w = 0; w < 32; w += 2 * L)
          Unit::store_words(
              j < 0 || j >= n ? V::broadcast(0) : Unit::load_words(from + j * p_.k.row + d + w, p_.head_dim - d - w),
              to + w);
    }
  }
  /// Returns whether all values are finite.
  bool pack_values(const bf16* from, Index lead, Index n, std::uint16_t* panel) const {
    const V most = V::broadcast(Limits<V>::kMax);
    auto finite = less_equal(most, most);
    const auto load = [&](Index place, Index d) {
      const Index j = place - lead;
      const V x =
          j < 0 || j >= n || d >= p_.value_dim ? V::broadcast(0) : load_part<V>(from + j * p_.v.row + d, p_.value_dim - d);
      finite = V::both(finite, less_equal(abs(x), most));
      return x;
    };
    for (Index d = 0; d < width_; d += L)
      for (Index k = 0; k < block_keys_; k += 2 * L) {
        V square[L];
        FT_UNROLL for (int i = 0; i < L; ++i) square[i] = Unit::pair(load(k + 2 * i, d), load(k + 2 * i + 1, d));
        transpose(square);
        std::uint16_t* tile = panel + (d / 16 * block_groups() + k / 32) * kTile;
        FT_UNROLL for (int i = 0; i < L; ++i) Unit::store_words(square[i], tile + (d % 16 + i) * 32 + k % 32);
      }
    std::uint16_t* ones = panel + block_keys_ * width_;
    fill(ones, block_keys_ * 16, std::uint16_t{0});
    for (Index g = 0; g < block_groups(); ++g) fill(ones + g * kTile, 32, std::uint16_t{0x3f80});
    return V::all(finite);
  }

  FT_INLINE void rescale(Index d_begin, Index d_end, int rows, const float* shrink) const {
    for (int r = 0; r < rows; r += L) {
      const V s = V::load(shrink + r);
      if (!V::any(less(s, V::broadcast(1)))) continue;  // times 1
      for (Index d = d_begin; d < d_end; ++d) {
        float* o = out_ + d * kTileQueries + r;
        (V::load(o) * s).store(o);
      }
    }
  }

  /// What the unit computes, where V holds an Inf or NaN: hidden keys (weight −0, see softmax.h) are left out, because
  /// 0 · NaN is NaN. Rows that see only finite values get the same bits either way.
  void add_visible(BlockPlace b, const float* weights, int rows, Index begin, Index end, bool first) const {
    const KeyRange groups = groups_of(b, begin, end);
    for (int r = 0; r < rows; ++r)
      for (Index d = 0; d < width_; ++d) {
        float& o = out_[d * kTileQueries + r];
        if (first) o = 0;
        const std::uint16_t* v = values(b) + d / 16 * block_groups() * kTile + d % 16 * 32;
        for (Index g = groups.begin; g < groups.end; ++g) {
          float chain[2] = {0, 0};
          for (Index j = larger(g * 32, b.lead + begin); j < smaller(g * 32 + 32, b.lead + end); ++j) {
            const float p = weights[(j - b.lead) * kTileQueries + r];
            if (p == 0 && __builtin_signbit(p)) continue;
            chain[j % 2] = __builtin_fmaf(to_float(to_bf16(p)), to_float(bf16{v[g * kTile + j % 32]}), chain[j % 2]);
          }
          o = o + (chain[0] + chain[1]);
        }
      }
  }

  const Problem& p_;
  Index block_keys_, width_, dim_groups_;
  std::uint16_t *queries_, *keys_, *values_, *weights_;  // tiles, see above: of a strip, of a chunk, of a chunk, of a block
  float* out_;  // Oᵀ of the open chunk, (width, 48), and sixteen rows more, the first of them the sums of P
};

}  // namespace
}  // namespace flashtile
