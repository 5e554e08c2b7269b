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
  static constexpr int kRows = 6;                   // accumulate: rows of O …
  static constexpr int kColumns = kMany ? 4 : 2;    // … times vectors of value dims
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
