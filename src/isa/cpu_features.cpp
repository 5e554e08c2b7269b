#include "isa/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace flashtile {
namespace {

struct Requirement {
  std::uint64_t word, bits;  // all of the bits must be set in the word
  const char* otherwise;
};

constexpr std::uint64_t bit(int i) { return std::uint64_t{1} << i; }

/// The first requirement that is not met, or "".
template <int N>
const char* first_unmet(const Requirement (&list)[N]) noexcept {
  for (const Requirement& r : list)
    if ((r.word & r.bits) != r.bits) return r.otherwise;
  return "";
}

const char* why_not_avx2(const Cpuid& cpuid, std::uint64_t xcr0) noexcept {
  const Requirement list[] = {
      {cpuid.leaf1_ecx, bit(28), "CPUID lacks AVX"},
      {cpuid.leaf7_ebx, bit(5), "CPUID lacks AVX2"},
      {cpuid.leaf1_ecx, bit(12), "CPUID lacks FMA"},
      {cpuid.leaf1_ecx, bit(29), "CPUID lacks F16C"},
      {cpuid.leaf1_ecx, bit(27), "the operating system has not enabled XSAVE (CPUID OSXSAVE)"},
      {xcr0, bit(1) | bit(2), "the operating system does not save YMM registers (XCR0)"},
  };
  return first_unmet(list);
}

const char* why_not_avx512(const Cpuid& cpuid, std::uint64_t xcr0) noexcept {
  const Requirement list[] = {
      {cpuid.leaf7_ebx, bit(16), "CPUID lacks AVX512F"},
      {cpuid.leaf7_ebx, bit(30), "CPUID lacks AVX512BW"},
      {cpuid.leaf7_ebx, bit(17), "CPUID lacks AVX512DQ"},
      {cpuid.leaf7_ebx, bit(31), "CPUID lacks AVX512VL"},
      // Mask registers, upper halves of ZMM0–15, ZMM16–31.
      {xcr0, bit(5) | bit(6) | bit(7), "the operating system does not save ZMM registers (XCR0)"},
  };
  return first_unmet(list);
}

const char* why_not_amx(const Cpuid& cpuid, std::uint64_t xcr0) noexcept {
  const Requirement list[] = {
      {cpuid.leaf7_edx, bit(24), "CPUID lacks AMX-TILE"},
      {cpuid.leaf7_edx, bit(22), "CPUID lacks AMX-BF16"},
      {cpuid.leaf7_1_eax, bit(5), "CPUID lacks AVX512_BF16"},
      {xcr0, bit(17) | bit(18), "the operating system does not save tile registers (XCR0)"},  // shapes, contents
  };
  return first_unmet(list);
}

#if defined(__x86_64__)
constexpr std::uint32_t kOsxsave = 1u << 27;

/// XCR0. REQUIRES: CPUID says OSXSAVE, or the instruction traps. Assembly, so that no -mxsave is
/// needed.
std::uint64_t read_xcr0() noexcept {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

void ask(Cpuid& cpuid, std::uint64_t& xcr0) noexcept {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) cpuid.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) cpuid.leaf7_ebx = ebx, cpuid.leaf7_edx = edx;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) cpuid.leaf7_1_eax = eax;
  xcr0 = (cpuid.leaf1_ecx & kOsxsave) != 0 ? read_xcr0() : 0;
}

// The answers. Threads that come first together all ask and store the same: no lock, so a fork
// cannot leave one held.
std::uint64_t words[5];
bool words_known = false;
#endif

}  // namespace

CpuFeatures features_from(const Cpuid& cpuid, std::uint64_t xcr0) noexcept {
  CpuFeatures f;
  f.why_not_avx2 = why_not_avx2(cpuid, xcr0);
  f.avx2 = *f.why_not_avx2 == '\0';
  f.why_not_avx512 = f.avx2 ? why_not_avx512(cpuid, xcr0) : f.why_not_avx2;
  f.avx512 = *f.why_not_avx512 == '\0';
  f.why_not_amx = f.avx512 ? why_not_amx(cpuid, xcr0) : f.why_not_avx512;
  f.amx = *f.why_not_amx == '\0';
  return f;
}

CpuFeatures this_cpu() noexcept {
#if defined(__x86_64__)
  Cpuid cpuid;
  std::uint64_t xcr0 = 0;
  if (!__atomic_load_n(&words_known, __ATOMIC_ACQUIRE)) {
    ask(cpuid, xcr0);
    const std::uint64_t found[5] = {cpuid.leaf1_ecx, cpuid.leaf7_ebx, cpuid.leaf7_edx, cpuid.leaf7_1_eax, xcr0};
    for (int i = 0; i < 5; ++i) __atomic_store_n(&words[i], found[i], __ATOMIC_RELAXED);
    __atomic_store_n(&words_known, true, __ATOMIC_RELEASE);
  }
  cpuid.leaf1_ecx = static_cast<std::uint32_t>(__atomic_load_n(&words[0], __ATOMIC_RELAXED));
  cpuid.leaf7_ebx = static_cast<std::uint32_t>(__atomic_load_n(&words[1], __ATOMIC_RELAXED));
  cpuid.leaf7_edx = static_cast<std::uint32_t>(__atomic_load_n(&words[2], __ATOMIC_RELAXED));
  cpuid.leaf7_1_eax = static_cast<std::uint32_t>(__atomic_load_n(&words[3], __ATOMIC_RELAXED));
  xcr0 = __atomic_load_n(&words[4], __ATOMIC_RELAXED);
  return features_from(cpuid, xcr0);
#elif defined(__aarch64__)
  CpuFeatures f;
  f.neon = true;  // part of the architecture
  f.why_not_neon = "";
  return f;
#else
  return {};
#endif
}

}  // namespace flashtile
