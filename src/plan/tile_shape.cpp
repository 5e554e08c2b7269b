#include "plan/tile_shape.h"

namespace flashtile {

TileShape choose_tile_shape(const Problem& p, const Machine& machine, int threads) noexcept {
  TileShape shape;
  shape.block_keys = block_keys(p.is_f64(), p.head_dim, p.value_dim);

  // A task packs each chunk of keys once and uses it for all its tiles. Packing a key costs about as much as scoring it
  // against two vectors of queries, so 8 tiles (24 vectors of 16) bring it under a tenth. More tiles than that only
  // help while the rows' queries and outputs stay in L2 beside the chunk.
  const Index bytes = p.is_f64() ? 8 : 4;
  const Index chunk = (kChunkKeys + 2 * shape.block_keys) * (p.head_dim + p.value_dim) * bytes;
  const Index tile = kTileQueries * (p.head_dim + p.value_dim) * bytes;
  constexpr Index kMostTiles = 16;
  Index tiles = (machine.l2 * 3 / 4 - chunk) / tile;
  tiles = tiles < 4 ? 4 : tiles > kMostTiles ? kMostTiles : tiles;

  // Enough tasks for the threads to share the work evenly: at least four each, as far as there are rows.
  Index rows = 0;
  for (Index s = 0; s < p.sequence_count; ++s) rows += p.sequences[s].queries * p.group();
  rows *= p.kv_heads;
  const Index for_balance = rows / (kTileQueries * 4 * (threads < 1 ? 1 : threads));
  if (threads > 1 && tiles > for_balance) tiles = for_balance < 1 ? 1 : for_balance;
  shape.task_rows = static_cast<int>(tiles * kTileQueries);
  return shape;
}

}  // namespace flashtile
