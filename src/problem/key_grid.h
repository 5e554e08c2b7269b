// Where keys are cut. Sums round, so their order is part of the answer (docs/numerics.md): keys are folded in blocks at
// multiples of block_keys() and in chunks at multiples of kChunkKeys, counted in key positions. These are constants of
// dtype and head dims, never of cache sizes, threads, batch or storage.
#pragma once

#include "problem/visibility.h"

namespace flashtile {

/// A chunk starts from an empty state and is folded into the row once: the unit of split keys and of packed panels.
inline constexpr int kChunkKeys = 512;

/// Keys per block. The score tile of a block is 48 queries × block keys of fp32 and shares the 32 KiB of L1 with a line
/// of K and V: 128 keys make it 24 KiB. With wide heads (or fp64) the panels themselves press, so 64.
FT_INLINE constexpr int block_keys(bool f64, Index head_dim, Index value_dim) {
  return !f64 && head_dim <= 64 && value_dim <= 64 ? 128 : 64;
}

/// ⌊a / b⌋ for b > 0; positions may be negative.
FT_INLINE constexpr Index floor_div(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// The part of `keys` in the grid cell (block or chunk of `size` positions) that holds key `j`.
FT_INLINE KeyRange cell_of(const Sequence& s, Index j, Index size, KeyRange keys) {
  const Index begin = floor_div(s.key_position + j, size) * size - s.key_position;
  return {larger(keys.begin, begin), smaller(keys.end, begin + size)};
}

}  // namespace flashtile
