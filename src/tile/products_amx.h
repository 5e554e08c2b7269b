// The two products of the amx family on tiles of 16 × 32 and 32 × 16 bf16, and the panels they read: S = K Qᵀ in groups
// of 32 dims, Oᵀ += Vᵀ Pᵀ in groups of 32 keys, both with queries in the columns.
//
//   keys    tile (i, g): keys 16i … of a block, dims 32g …         as rows
//   queries tile (j, g): dims 32g …, queries 16j … of a query tile   as pairs of dims
//   values  tile (i, g): dims 16i …, keys 32g … of a block          as rows: transposed
//   weights tile (j, g): keys 32g …, queries 16j …                  as pairs of keys
//
// A block's keys lie at their places on the position grid, so that which keys share a group, and which half of it,
// depends on positions alone. Free places are 0 in all operands. Tile (i, g) of an operand with G groups is number i ·
// G + g.
#pragma once

#include <type_traits>

#include "tile/products.h"

namespace flashtile {
namespace {

template <class Unit>
class AmxProducts {
  using V = typename Unit::Vectors::F32;
  static constexpr int kTile = Unit::kTile;
  static constexpr int kColumns = kTileQueries / 16;  // query tiles of the unit in one of ours

 public:
  using Lane = V;
  static constexpr bool kRoundsWeights = true;

  FT_INLINE AmxProducts(Arena& a, const Problem& p, const TileShape& shape)
      : p_(p),
        block_keys_(shape.block_keys),
        width_(padded_dim<float>(p.value_dim)),
        dim_groups_((p.head_dim + 31) / 32),
        queries_(a.take<std::uint16_t>(shape.strip_rows * dim_groups_ * 32)),
        keys_(a.take<std::uint16_t>(kChunkKeys * dim_groups_ * 32)),
        values_(a.take<std::uint16_t>(kChunkKeys * width_)),
        weights_(a.take<std::uint32_t>(shape.block_keys / 2 * kTileQueries)),
        out_(a.take<float>(width_ * kTileQueries)) {}

  FT_INLINE Index lead(Index position) const { return position - floor_div(position, block_keys_) * block_keys_; }
  FT_INLINE void resume() const { Unit::resume(); }

  FT_INLINE void pack_queries(const void* q, const Index* at, Index r0) {
    fill(queries_ + r0 * dim_groups_ * 32, kTileQueries * dim_groups_ * 32, std::uint16_t{0});
    fill(weights_, block_keys_ / 2 * kTileQueries, std::uint32_t{0});  // columns without a query stay 0
    for (int r = 0; r < kTileQueries; ++r) {
      if (at[r] == kNoRow) continue;
      const bf16* row = static_cast<const bf16*>(q) + at[r];
      std::uint16_t* tile = queries_ + (r0 + r / 16 * 16) * dim_groups_ * 32 + r % 16 * 2;
      for (Index d = 0; d < p_.head_dim; ++d) tile[d / 32 * kTile + d % 32 / 2 * 32 + d % 2] = row[d].bits;
    }
  }
  bool pack(BlockPlace b, const void* k, Index k_at, const void* v, Index v_at, Index n) {
    pack_block_keys(static_cast<const bf16*>(k) + k_at, b.lead, n, keys(b));
    return pack_block_values(static_cast<const bf16*>(v) + v_at, b.lead, n, values(b));
  }

  /// S of keys [begin, end) of a block. Whole tiles are computed; what lies outside is not used.
  FT_INLINE void score(BlockPlace b, Index r0, const float* factor, int vectors, const KeyRange*, Index begin, Index end,
                       float* scores) const {
    const Index first = (b.lead + begin) / 16, last = (b.lead + end + 15) / 16;
    multiply(keys(b) + first * dim_groups_ * kTile, dim_groups_, static_cast<int>(last - first),
             queries_ + r0 * dim_groups_ * 32, dim_groups_, columns(vectors * V::kLanes), dim_groups_, true,
             scores + (first * 16 - b.lead) * kTileQueries);
    for (Index j = begin; j < end; ++j)
      for (int r = 0; r < vectors * V::kLanes; r += V::kLanes) {
        float* at = scores + j * kTileQueries + r;
        (V::load(at) * V::load(factor + r)).store(at);
      }
  }

  /// P as bf16 into the panel of weights. `sum`, unless null: sum ← sum · shrink, then plus each group's weights, in
  /// the order in which the unit would multiply them by a column of ones.
  FT_INLINE void round_weights(BlockPlace b, float* weights, int rows, Index begin, Index end, const float* shrink,
                               float* sum) const {
    float* grid = weights - b.lead * kTileQueries;  // the first place of the block
    const KeyRange groups = groups_of(b, begin, end);
    fill(grid + groups.begin * 32 * kTileQueries, (b.lead + begin - groups.begin * 32) * kTileQueries, 0);
    fill(weights + end * kTileQueries, (groups.end * 32 - b.lead - end) * kTileQueries, 0);
    for (int r = 0; r < rows; r += V::kLanes) {
      V total = sum == nullptr ? V::broadcast(0) : V::load(sum + r) * V::load(shrink + r);
      for (Index g = groups.begin; g < groups.end; ++g) {
        const float* p = grid + g * 32 * kTileQueries + r;
        std::uint32_t* pairs = weights_ + (r / 16 * block_groups() + g) * (kTile / 2) + r % 16;
        V even_sum = V::broadcast(0), odd_sum = even_sum;
        for (int k = 0; k < 16; ++k, p += 2 * kTileQueries, pairs += 16) {
          V even = V::load(p), odd = V::load(p + kTileQueries);
          Unit::round_pair(even, odd, pairs);
          even_sum = even_sum + even, odd_sum = odd_sum + odd;
        }
        total = total + (even_sum + odd_sum);
      }
      if (sum != nullptr) total.store(sum + r);
    }
  }

  /// O ← O · shrink, then plus each group's P V.
  FT_INLINE void accumulate(BlockPlace b, const float* weights, int rows, const KeyRange*, Index begin, Index end,
                            const float* shrink, bool first, RowStates<float>) const {
    if (!first) rescale(rows, shrink);
    if (!b.finite) return add_visible(b, weights, rows, begin, end, first);
    const KeyRange groups = groups_of(b, begin, end);
    multiply(values(b) + groups.begin * kTile, block_groups(), static_cast<int>(width_ / 16),
             reinterpret_cast<const std::uint16_t*>(weights_) + groups.begin * kTile, block_groups(), columns(rows),
             groups.size(), first, out_);
  }

  FT_INLINE void close(int rows, RowStates<float> chunk) const {
    for (int r = 0; r < rows; ++r)
      for (Index d = 0; d < width_; ++d) chunk.out[r * width_ + d] = out_[d * kTileQueries + r];
  }

 private:
  FT_INLINE static int columns(int rows) { return (rows + 15) / 16; }
  FT_INLINE Index block_groups() const { return block_keys_ / 32; }
  FT_INLINE static KeyRange groups_of(BlockPlace b, Index begin, Index end) {
    return {(b.lead + begin) / 32, (b.lead + end + 31) / 32};
  }
  FT_INLINE std::uint16_t* keys(BlockPlace b) const { return keys_ + b.panel * block_keys_ * dim_groups_ * 32; }
  FT_INLINE std::uint16_t* values(BlockPlace b) const { return values_ + b.panel * block_keys_ * width_; }

  /// rows × columns tiles of c, two by two: each tile loaded is used twice.
  static void multiply(const std::uint16_t* a, Index a_next, int rows, const std::uint16_t* b, Index b_next, int columns,
                       Index steps, bool fresh, float* c) {
    const auto row_of_tiles = [&](auto r, int i) {
      constexpr int R = decltype(r)::value;
      const std::uint16_t* from = a + i * a_next * kTile;
      float* to = c + i * 16 * kTileQueries;
      int j = 0;
      for (; j + 2 <= columns; j += 2)
        Unit::template product<R, 2>(from, a_next, b + j * b_next * kTile, b_next, steps, fresh, to + j * 16, kTileQueries);
      if (j < columns)
        Unit::template product<R, 1>(from, a_next, b + j * b_next * kTile, b_next, steps, fresh, to + j * 16, kTileQueries);
    };
    int i = 0;
    for (; i + 2 <= rows; i += 2) row_of_tiles(std::integral_constant<int, 2>{}, i);
    if (i < rows) row_of_tiles(std::integral_constant<int, 1>{}, i);
  }

  void pack_block_keys(const bf16* from, Index lead, Index n, std::uint16_t* panel) const {
    if (n < block_keys_ || p_.head_dim % 32 != 0) fill(panel, block_keys_ * dim_groups_ * 32, std::uint16_t{0});
    for (Index j = 0; j < n; ++j) {
      const bf16* row = from + j * p_.k.row;
      std::uint16_t* to = panel + (lead + j) / 16 * dim_groups_ * kTile + (lead + j) % 16 * 32;
      for (Index d = 0; d < p_.head_dim; d += 32, to += kTile)
        __builtin_memcpy(to, row + d, static_cast<std::size_t>(smaller(32, p_.head_dim - d)) * sizeof(bf16));
    }
  }
  bool pack_block_values(const bf16* from, Index lead, Index n, std::uint16_t* panel) const {
    if (n < block_keys_ || p_.value_dim % 16 != 0) fill(panel, block_keys_ * width_, std::uint16_t{0});
    std::uint32_t special = 0;  // bit 7 when an exponent field was all ones
    for (Index j = 0; j < n; ++j) {
      const bf16* row = from + j * p_.v.row;
      std::uint16_t* to = panel + (lead + j) / 32 * kTile + (lead + j) % 32;
      for (Index d = 0; d < p_.value_dim; ++d) {
        const std::uint32_t bits = row[d].bits;
        special |= ((bits & 0x7f80u) + 0x80u) >> 8;
        to[d / 16 * block_groups() * kTile + d % 16 * 32] = row[d].bits;
      }
    }
    return (special & 0x80u) == 0;
  }

  void rescale(int rows, const float* shrink) const {
    for (int r = 0; r < rows; r += V::kLanes) {
      const V s = V::load(shrink + r);
      if (!V::any(less(s, V::broadcast(1)))) continue;  // times 1
      for (Index d = 0; d < width_; ++d) {
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
  std::uint16_t *queries_, *keys_, *values_;  // tiles, see above: of a task, of a chunk, of a chunk
  std::uint32_t* weights_;                    // of a block
  float* out_;                                // Oᵀ of the open chunk: (width, 48)
};

}  // namespace
}  // namespace flashtile
