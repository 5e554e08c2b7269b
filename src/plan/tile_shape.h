// How the rows of a problem are cut into tasks and strips. Register shapes belong to the instruction set
// (tile/geometry.h), key boundaries to the arithmetic (problem/key_grid.h). What is left is speed only and never changes a
// bit.
#pragma once

#include "problem/work.h"

namespace flashtile {

TileShape choose_tile_shape(const Problem& p, int threads) noexcept;

}  // namespace flashtile
