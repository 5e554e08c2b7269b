// How many registers hold what, derived from the instruction set. These shapes never change a bit of a result.
#pragma once

#include "problem/work.h"

namespace flashtile {
namespace {

/// FMA takes 4 cycles and two can start in each, so at least 8 independent sums are needed; more of them also means fewer
/// loads per FMA. With 32 registers 3 × 8 (score) and 6 × 4 (accumulate) = 24 sums leave 8 for operands; with 16, 3 × 4 and
/// 6 × 2 = 12 sums leave 4.
template <class Isa>
struct Geometry {
  static constexpr bool kMany = Isa::kRegisters >= 32;
  static constexpr int kQueryVectors = 3;           // score: vectors of queries …
  static constexpr int kKeys = kMany ? 8 : 4;       // … times keys
  static constexpr int kColumns = kMany ? 4 : 2;    // accumulate: vectors of value dims …
  static constexpr int rows(int columns) {          // … times rows of O
    constexpr int kMost = 12, kSums = 6 * kColumns;
    return kSums / columns < kMost ? kSums / columns : kMost;
  }
};

/// Queries of a panel: as many as a step of the score loads, so that it reads the panel from end to end.
template <class Isa, class V>
inline constexpr int kPanelQueries = Geometry<Isa>::kQueryVectors * V::kLanes;

/// Where value dim `d` lies in the panels of a block. A panel is as wide as what a step of O += P V loads (the last one of
/// a width may be narrower): whole rows of V would have strides of powers of two, whose lines fight for few places of L1.
template <class Isa, class V>
struct ValuePanel {
  Index at;     // of key 0
  Index width;  // from one key to the next

  FT_INLINE ValuePanel(Index all, Index block_keys, Index d) {
    constexpr Index kWidth = Geometry<Isa>::kColumns * V::kLanes;
    const Index first = d / kWidth * kWidth;
    width = smaller(kWidth, all - first), at = first * block_keys + d - first;
  }
};

/// Keys of a panel: a line of the cache. The same for every instruction set, so that a panel once made serves all.
template <class T>
inline constexpr int kPanelKeys = 64 / sizeof(T);

/// Value rows and O rows are padded to whole vectors of the widest instruction set: 64 bytes.
template <class T>
FT_INLINE constexpr Index padded_dim(Index value_dim) {
  constexpr Index kLine = 64 / sizeof(T);
  return (value_dim + kLine - 1) / kLine * kLine;
}

}  // namespace
}  // namespace flashtile
