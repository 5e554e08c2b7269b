// Kernels from a tile unit: what an object of the amx family consists of.
#pragma once

#include "tile/entry.h"
#include "tile/products_amx.h"

namespace flashtile {
namespace {

template <class Unit>
void forward_amx(const Problem& p, const Tensors& t, const TileShape& shape, const Task& task, std::byte* scratch) {
  const typename Unit::Session session;
  forward_with<AmxProducts<Unit>>(p, t, shape, task, scratch);
}

template <class Unit>
std::size_t scratch_bytes_amx(const Problem& p, const TileShape& shape) {
  return scratch_bytes_with<AmxProducts<Unit>>(p, shape);
}

template <class Unit>
void multiply_tile(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  const typename Unit::Session session;
  Unit::template product<1>(a, 0, 1, b, 0, 1, false, c, 16);
}

/// For problems whose q, k and v are bf16: dispatch gives it no others.
template <class Unit>
constexpr Kernels make_amx_kernels(flashtile::Isa isa, const char* name) {
  return {isa, name, "amx", scratch_bytes_amx<Unit>, forward_amx<Unit>, multiply_tile<Unit>};
}

}  // namespace
}  // namespace flashtile
