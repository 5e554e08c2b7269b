// The table of entry points of one instruction set. Every ISA object exports one of these and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "problem/work.h"

namespace flashtile {

struct Kernels {
  Isa isa;
  const char* name;
  const char* arithmetic;  // "fma" or "amx": kernels of one family give the same bits
  /// Bytes of scratch that one worker needs, alignment 64.
  std::size_t (*scratch_bytes)(const Problem&, const TileShape&);
  /// One task: rows of one kv head. Scratch need not be cleared.
  void (*forward)(const Problem&, const Tensors&, const TileShape&, const Task&, std::byte* scratch);
  /// C += A B on one tile: 16 × 32 bf16, 32 × 16 bf16 as pairs of rows, 16 × 16 fp32, each without gaps. What the amx
  /// family is made of, by itself, so that instructions and twin can be compared; null in other families.
  void (*multiply_tile)(const std::uint16_t* a, const std::uint16_t* b, float* c);
};

}  // namespace flashtile
