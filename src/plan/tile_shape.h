// Tile sizes from cache sizes and head dims. Register shapes belong to the instruction set (tile/geometry.h); key
// boundaries belong to the arithmetic (problem/key_grid.h). What is left is speed only and never changes a bit.
#pragma once

#include "plan/machine.h"
#include "problem/work.h"

namespace flashtile {

TileShape choose_tile_shape(const Problem& p, const Machine& machine, int threads) noexcept;

}  // namespace flashtile
