#include "plan/tile_shape.h"

namespace flashtile {
namespace {

Index tiles_of(Index rows) { return (rows + kTileQueries - 1) / kTileQueries; }

Index clamp(Index x, Index least, Index most) { return larger(least, smaller(x, most)); }

}  // namespace

TileShape choose_tile_shape(const Problem& p, int threads) noexcept {
  Index rows = 0, longest = 1;
  for (Index s = 0; s < p.sequence_count; ++s) {
    const Index of_head = p.sequences[s].queries * p.group();
    rows += of_head * p.kv_heads, longest = larger(longest, of_head);
  }
  if (threads < 1) threads = 1;

  // Shares are cut between tasks, so they differ by up to one: 128 for each thread keep that below a hundredth, where a
  // causal task at the end of a head costs twice the mean. Eight rows are no loss, since neighbours become one strip.
  constexpr Index kTasksOfThread = 128, kGrain = 8;
  TileShape shape;
  shape.block_keys = block_keys(p.is_f64(), p.head_dim, p.value_dim);
  shape.task_rows = static_cast<int>(clamp(rows / (kTasksOfThread * threads * kGrain), 1, 2 * kTileQueries) * kGrain);

  // A strip packs each chunk of keys once and uses it for all its tiles. Packing a key reads it from afar and costs about
  // as much as four vectors of queries, so 64 tiles (192 vectors of 16 fp32) bring that to 2 %. They are visited one
  // after the other while the chunk stays in L2: what a tile itself needs of queries and outputs, 1/10 of a chunk, is
  // read ahead by the processor. Rows that a thread will not get are not provided for.
  constexpr Index kMostTiles = 64, kMostBytes = 8 << 20;
  const Index tile_bytes = kTileQueries * (p.head_dim + p.value_dim) * (p.is_f64() ? 8 : 4);
  Index tiles = tiles_of(smaller(longest, (rows + threads - 1) / threads));
  tiles = smaller(tiles, tile_bytes == 0 ? kMostTiles : smaller(kMostTiles, kMostBytes / tile_bytes));
  shape.strip_rows = static_cast<int>(larger(tiles, tiles_of(shape.task_rows)) * kTileQueries);
  return shape;
}

}  // namespace flashtile
