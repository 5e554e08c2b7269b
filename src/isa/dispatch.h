// Which kernels run: one list knows the implementations; dispatch, `flashtile info`, tests and benchmarks iterate over it.
#pragma once

#include <span>

#include "isa/cpu_features.h"
#include "tile/kernels.h"

namespace flashtile {

const Kernels& kernels_scalar();
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
const Kernels& kernels_amx();
const Kernels& kernels_amx_emulated();
const Kernels& kernels_neon();

/// One instruction set of the library's list.
struct Implementation {
  Isa isa;
  const char* name;
  const Kernels& (*kernels)();                       // null when not built for this architecture
  const char* (*why_not)(const CpuFeatures& have);   // null when the machine has it
};
std::span<const Implementation> all_implementations();  // best first

/// "avx2" → Isa::avx2, "auto" → automatic; false for an unknown name.
bool parse_isa_name(const char* name, Isa& isa);
const char* name_of(Isa isa);

/// The best kernels for a problem on a machine, none of them above either cap. A cap on an instruction set that this
/// architecture or machine lacks picks the best below it. `amx` problems (bf16 q, k, v) may run on the tile unit.
/// Null when the problem asks for the amx family and nothing here can compute it.
const Kernels* choose_kernels(const Problem& p, const CpuFeatures& have, Isa environment_cap);

}  // namespace flashtile
