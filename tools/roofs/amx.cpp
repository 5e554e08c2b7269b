// The tile unit's own limit: TDPBF16PS on tiles that stay in the unit, four independent sums as in the kernels.
#include <immintrin.h>

#include <cstdint>

#include "isa/amx.h"
#include "roofs/loops.h"

namespace flashtile::roofs {

namespace {

double peak(long rounds) {
  const Amx::Session session;
  alignas(64) std::uint16_t ones[Amx::kTile];
  for (std::uint16_t& x : ones) x = 0x3f80;
  alignas(64) float kept[256] = {};
  asm volatile("" : : : "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones, 64);
  _tile_loadd(5, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_loadd(7, ones, 64);
  for (long n = 0; n < rounds; ++n) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    asm volatile("" : : : "memory");
  }
  // The sums are wanted.
  _tile_stored(0, kept, 64);
  _tile_stored(1, kept, 64);
  _tile_stored(2, kept, 64);
  _tile_stored(3, kept, 64);
  asm volatile("" : : "r"(kept) : "memory");
  return 4 * 2.0 * 16 * 16 * 32 * static_cast<double>(rounds);
}

}  // namespace

Loops loops_amx() { return {.peak = peak}; }

}  // namespace flashtile::roofs
