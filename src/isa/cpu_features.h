// Which instruction sets this processor and this operating system let us use, and why not the
// others.
//
// A level is decided by exactly the instructions its kernels use (vllm#49640 asked for AMX where
// AVX-512 was enough), and by CPUID *and* XCR0: a hypervisor or kernel that does not save the wide
// registers makes them unusable whatever CPUID says (jax#2906). Permission to use AMX's tiles is
// asked for elsewhere: run/environment.h.
#pragma once

#include <cstdint>

namespace flashtile {

/// Reasons are sentences without an end, in static storage, and empty for what can be used.
struct CpuFeatures {
  bool avx2 = false;    // AVX, AVX2, FMA, F16C
  bool avx512 = false;  // avx2 and AVX-512 F, BW, DQ, VL
  bool amx = false;     // avx512 and AMX-TILE, AMX-BF16, AVX512-BF16
  bool neon = false;
  const char* why_not_avx2 = "not an x86 processor";
  const char* why_not_avx512 = "not an x86 processor";
  const char* why_not_amx = "not an x86 processor";
  const char* why_not_neon = "not an Arm processor";
};

/// The words of CPUID that matter, as the processor gives them.
struct Cpuid {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0, leaf7_edx = 0;  // subleaf 0; 0 when the leaf does not exist
  std::uint32_t leaf7_1_eax = 0;               // subleaf 1
};

/// What an x86 processor with these words can do under an operating system that saves the state
/// components of xcr0. xcr0 counts only if leaf1_ecx says OSXSAVE.
CpuFeatures features_from(const Cpuid& cpuid, std::uint64_t xcr0) noexcept;

/// This processor. CPUID, which is slow in virtual machines, is asked once.
CpuFeatures this_cpu() noexcept;

}  // namespace flashtile
