// Kernels from an instruction set: what an ISA object consists of.
#pragma once

#include "tile/forward.h"
#include "tile/kernels.h"

namespace flashtile {
namespace {

/// All strips of a head, then the column sums of its weights, which need every row's m and l.
template <class F>
FT_INLINE void forward_with_key_weights(F& kernel, const Problem& p, const Tensors& t, const TileShape& shape,
                                        const Task& task) {
  using T = typename F::Number;
  const Sequence& s = p.sequences[task.sequence];
  T* sums = static_cast<T*>(t.key_weights);
  for (Index g = 0; g < p.group(); ++g)
    for (Index j = 0; j < s.keys; ++j) sums[p.key_weights.at(s.batch, s.first_key + j, task.kv_head * p.group() + g)] = 0;
  for (Index pass = 0; pass < 2; ++pass)
    for (Index r = 0; r < task.rows; r += shape.strip_rows) {
      const Task strip{task.sequence, task.kv_head, task.row + r, smaller(shape.strip_rows, task.rows - r)};
      if (pass == 0) kernel.run(strip);
      else kernel.add_key_weights(strip);
    }
}

template <class Products>
FT_INLINE void forward_with(const Problem& p, const Tensors& t, const TileShape& shape, const Task& task,
                            std::byte* scratch) {
  Arena arena(scratch);
  Forward<Products> kernel(p, t, shape, arena);
  if (p.key_weights.present) forward_with_key_weights(kernel, p, t, shape, task);
  else kernel.run(task);
}

template <class Products>
FT_INLINE std::size_t scratch_bytes_with(const Problem& p, const TileShape& shape) {
  Arena arena(nullptr);
  Scratch<typename Products::Lane::Scalar>(arena, p, shape, Products::kRoundsWeights);
  Products(arena, p, shape);
  return arena.used();
}

template <class Isa>
void forward(const Problem& p, const Tensors& t, const TileShape& shape, const Task& task, std::byte* scratch) {
  if (p.is_f64()) forward_with<FmaProducts<Isa, typename Isa::F64>>(p, t, shape, task, scratch);
  else forward_with<FmaProducts<Isa, typename Isa::F32>>(p, t, shape, task, scratch);
}

template <class Isa>
std::size_t scratch_bytes(const Problem& p, const TileShape& shape) {
  return p.is_f64() ? scratch_bytes_with<FmaProducts<Isa, typename Isa::F64>>(p, shape)
                    : scratch_bytes_with<FmaProducts<Isa, typename Isa::F32>>(p, shape);
}

template <class Isa>
constexpr Kernels make_kernels(flashtile::Isa isa, const char* name) {
  return {isa, name, "fma", scratch_bytes<Isa>, forward<Isa>, nullptr};
}

}  // namespace
}  // namespace flashtile
