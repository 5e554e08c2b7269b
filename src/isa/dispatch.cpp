#include "isa/dispatch.h"

#include <cstring>

namespace flashtile {
namespace {

const char* always(const CpuFeatures&) { return nullptr; }
[[maybe_unused]] const char* has_neon(const CpuFeatures& f) { return f.neon ? nullptr : f.why_not_neon; }
[[maybe_unused]] const char* has_avx2(const CpuFeatures& f) { return f.avx2 ? nullptr : f.why_not_avx2; }
[[maybe_unused]] const char* has_avx512(const CpuFeatures& f) { return f.avx512 ? nullptr : f.why_not_avx512; }
[[maybe_unused]] const char* has_amx(const CpuFeatures& f) { return f.amx ? nullptr : f.why_not_amx; }
[[maybe_unused]] const char* never(const CpuFeatures&) { return "not built for this architecture"; }

constexpr Implementation kImplementations[] = {
#if defined(__x86_64__)
    {Isa::amx, "amx", kernels_amx, has_amx},
    {Isa::avx512, "avx512", kernels_avx512, has_avx512},
    {Isa::avx2, "avx2", kernels_avx2, has_avx2},
    {Isa::neon, "neon", nullptr, never},
#else
    {Isa::amx, "amx", nullptr, never},
    {Isa::avx512, "avx512", nullptr, never},
    {Isa::avx2, "avx2", nullptr, never},
#if defined(__aarch64__)
    {Isa::neon, "neon", kernels_neon, has_neon},
#else
    {Isa::neon, "neon", nullptr, never},
#endif
#endif
    {Isa::scalar, "scalar", kernels_scalar, always},
    {Isa::amx_emulated, "amx-emulated", kernels_amx_emulated, always},  // a twin for tests, not a level: by name only
};

/// The amx family computes bf16 problems; everything else belongs to fma.
bool fits_amx(const Problem& p) { return p.q.dtype == DType::bf16 && p.k.dtype == DType::bf16 && p.v.dtype == DType::bf16; }

bool within(Isa isa, Isa cap) {
  return cap == Isa::automatic || cap == Isa::amx_emulated || static_cast<int>(isa) <= static_cast<int>(cap);
}

/// One of the caps names the twin, and the other does not exclude what it stands for.
bool names_twin(Isa a, Isa b) {
  return (a == Isa::amx_emulated && within(Isa::amx, b)) || (b == Isa::amx_emulated && within(Isa::amx, a));
}

}  // namespace

std::span<const Implementation> all_implementations() { return kImplementations; }

bool parse_isa_name(const char* name, Isa& isa) {
  if (name == nullptr || std::strcmp(name, "auto") == 0 || name[0] == '\0') {
    isa = Isa::automatic;
    return true;
  }
  for (const Implementation& i : kImplementations)
    if (std::strcmp(name, i.name) == 0) {
      isa = i.isa;
      return true;
    }
  return false;
}

const char* name_of(Isa isa) {
  for (const Implementation& i : kImplementations)
    if (i.isa == isa) return i.name;
  return "auto";
}

const Kernels* choose_kernels(const Problem& p, const CpuFeatures& have, Isa environment_cap) {
  const bool amx = fits_amx(p) && p.arithmetic != Arithmetic::fma;
  // The twin is chosen by name only, and computes what the tile unit would; the rest of its problems are fma's.
  if (amx && names_twin(p.isa, environment_cap)) return &kernels_amx_emulated();
  for (const Implementation& i : kImplementations) {
    const bool tile_unit = i.isa == Isa::amx;
    if (i.isa == Isa::amx_emulated || i.kernels == nullptr || i.why_not(have) != nullptr) continue;
    if (!within(i.isa, p.isa) || !within(i.isa, environment_cap)) continue;
    if (tile_unit ? !amx : p.arithmetic == Arithmetic::amx) continue;
    return &i.kernels();
  }
  return nullptr;
}

}  // namespace flashtile
