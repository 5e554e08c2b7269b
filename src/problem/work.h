// The words that plan and kernels share: how big tiles are, and what one task is.
#pragma once

#include "problem/key_grid.h"

namespace flashtile {

/// Rows of a query tile, whatever the instruction set: 48 is a multiple of every vector length and of the six rows that
/// O += P V holds in registers, and 48 × 128 fp32 scores are 24 KiB.
inline constexpr int kTileQueries = 48;

struct TileShape {
  int block_keys = 128;           // a constant of the arithmetic: key_grid.h
  int task_rows = kTileQueries;   // rows of one task: the grain of balance
  int strip_rows = kTileQueries;  // most rows of neighbouring tasks that a kernel takes at once: they share packed keys
};

/// Rows [row, row + rows) of one key-value head of one sequence. Row r is query r / group of head r % group: the query
/// heads that share a key-value head lie side by side, so that one packed chunk serves them all.
struct Task {
  Index sequence = 0;
  Index kv_head = 0;
  Index row = 0, rows = 0;
};

}  // namespace flashtile
