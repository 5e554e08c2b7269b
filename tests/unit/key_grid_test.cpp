// The grid that sums follow is part of every answer (docs/numerics.md), and kernels and model cut by the same functions:
// only here would a change of it be seen.
#include "problem/key_grid.h"

#include <gtest/gtest.h>

namespace flashtile::testing {
namespace {

TEST(KeyGrid, SizesDependOnDtypeAndHeadDimsAlone) {
  EXPECT_EQ(kChunkKeys, 512);
  EXPECT_EQ(block_keys(false, 1, 1), 128);
  EXPECT_EQ(block_keys(false, 64, 64), 128);
  EXPECT_EQ(block_keys(false, 65, 64), 64);
  EXPECT_EQ(block_keys(false, 64, 65), 64);
  EXPECT_EQ(block_keys(true, 1, 1), 64);
}

TEST(KeyGrid, CellsLieAtMultiplesOfTheirSizeInKeyPositions) {
  Sequence s;
  s.keys = 1000;
  const auto expect_cell = [&](Index position, Index key, KeyRange want) {
    s.key_position = position;
    const KeyRange cell = cell_of(s, key, 512, {0, s.keys});
    EXPECT_EQ(cell.begin, want.begin) << position << ", " << key;
    EXPECT_EQ(cell.end, want.end) << position << ", " << key;
  };
  expect_cell(0, 0, {0, 512});
  expect_cell(0, 511, {0, 512});
  expect_cell(0, 512, {512, 1000});
  expect_cell(500, 11, {0, 12});
  expect_cell(500, 12, {12, 524});
  expect_cell(-1, 0, {0, 1});
  expect_cell(-1, 1, {1, 513});
  expect_cell(-512, 5, {0, 512});
  expect_cell(-513, 0, {0, 1});
}

TEST(KeyGrid, DivisionRoundsDown) {
  for (Index a = -9; a <= 9; ++a)
    for (Index b : {1, 2, 4}) {
      EXPECT_LE(floor_div(a, b) * b, a);
      EXPECT_GT(floor_div(a, b) * b + b, a);
    }
}

}  // namespace
}  // namespace flashtile::testing
