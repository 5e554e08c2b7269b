// Instruction sets are judged by what they use, and by CPUID and XCR0 together.
#include "isa/cpu_features.h"

#include <gtest/gtest.h>

#include <string>

namespace flashtile {
namespace {

constexpr std::uint32_t bit(int i) { return 1u << i; }

// leaf 1, ecx
constexpr std::uint32_t kFma = bit(12), kOsxsave = bit(27), kAvx = bit(28), kF16c = bit(29);
// leaf 7, ebx and edx
constexpr std::uint32_t kAvx2 = bit(5), kF = bit(16), kDq = bit(17), kBw = bit(30), kVl = bit(31);
constexpr std::uint32_t kBf16 = bit(22), kTile = bit(24);
// leaf 7 subleaf 1, eax
constexpr std::uint32_t kVectorBf16 = bit(5);
// XCR0
constexpr std::uint64_t kX87Sse = 3, kYmm = 4, kZmm = 0xe0, kTiles = 0x60000;
constexpr std::uint64_t kAll = kX87Sse | kYmm | kZmm | kTiles;

constexpr Cpuid kHaswell = {kFma | kOsxsave | kAvx | kF16c, kAvx2, 0, 0};
constexpr Cpuid kSkylake = {kHaswell.leaf1_ecx, kAvx2 | kF | kDq | kBw | kVl, 0, 0};
constexpr Cpuid kSapphireRapids = {kSkylake.leaf1_ecx, kSkylake.leaf7_ebx, kBf16 | kTile, kVectorBf16};

TEST(CpuFeatures, EverythingIsThereOnAMachineThatHasEverything) {
  const CpuFeatures f = features_from(kSapphireRapids, kAll);
  EXPECT_TRUE(f.avx2 && f.avx512 && f.amx);
  EXPECT_STREQ(f.why_not_avx2, "");
  EXPECT_STREQ(f.why_not_avx512, "");
  EXPECT_STREQ(f.why_not_amx, "");
  EXPECT_FALSE(f.neon);
  EXPECT_STREQ(f.why_not_neon, "not an Arm processor");
}

TEST(CpuFeatures, AnOldProcessorHasNothingAndSaysWhy) {
  const CpuFeatures f = features_from({}, kAll);
  EXPECT_FALSE(f.avx2 || f.avx512 || f.amx || f.neon);
  EXPECT_STREQ(f.why_not_avx2, "CPUID lacks AVX");
  EXPECT_STREQ(f.why_not_avx512, "CPUID lacks AVX");
  EXPECT_STREQ(f.why_not_amx, "CPUID lacks AVX");
}

TEST(CpuFeatures, EachInstructionOfAvx2IsNeeded) {
  const auto without = [](std::uint32_t ecx, std::uint32_t ebx) {
    return features_from({kHaswell.leaf1_ecx & ~ecx, kHaswell.leaf7_ebx & ~ebx, 0}, kAll);
  };
  EXPECT_TRUE(without(0, 0).avx2);
  EXPECT_STREQ(without(kAvx, 0).why_not_avx2, "CPUID lacks AVX");
  EXPECT_STREQ(without(0, kAvx2).why_not_avx2, "CPUID lacks AVX2");
  EXPECT_STREQ(without(kFma, 0).why_not_avx2, "CPUID lacks FMA");
  EXPECT_STREQ(without(kF16c, 0).why_not_avx2, "CPUID lacks F16C");
  for (std::uint32_t ecx : {kAvx, kFma, kF16c, kOsxsave}) EXPECT_FALSE(without(ecx, 0).avx2) << ecx;
  EXPECT_FALSE(without(0, kAvx2).avx2);
}

TEST(CpuFeatures, EachSubsetOfAvx512IsNeeded) {
  EXPECT_TRUE(features_from(kSkylake, kAll).avx512);
  const struct {
    std::uint32_t bit;
    const char* why;
  } subsets[] = {{kF, "CPUID lacks AVX512F"},
                 {kBw, "CPUID lacks AVX512BW"},
                 {kDq, "CPUID lacks AVX512DQ"},
                 {kVl, "CPUID lacks AVX512VL"}};
  for (const auto& s : subsets) {
    const CpuFeatures f = features_from({kSkylake.leaf1_ecx, kSkylake.leaf7_ebx & ~s.bit, kTile | kBf16, kVectorBf16}, kAll);
    EXPECT_TRUE(f.avx2);
    EXPECT_FALSE(f.avx512 || f.amx) << s.why;
    EXPECT_STREQ(f.why_not_avx512, s.why);
    EXPECT_STREQ(f.why_not_amx, s.why);
  }
}

TEST(BugCases, A9_6_RegistersThatTheSystemDoesNotSaveAreNotUsed) {
  // Xen and old kernels: CPUID shows everything, XCR0 does not.
  const CpuFeatures ymm = features_from(kSapphireRapids, kX87Sse | kYmm);
  EXPECT_TRUE(ymm.avx2);
  EXPECT_FALSE(ymm.avx512 || ymm.amx);
  EXPECT_STREQ(ymm.why_not_avx512, "the operating system does not save ZMM registers (XCR0)");
  for (std::uint64_t part : {0x20u, 0x40u, 0x80u}) {  // all three components or none
    EXPECT_FALSE(features_from(kSapphireRapids, kAll & ~part).avx512) << part;
    EXPECT_FALSE(features_from(kSapphireRapids, kAll & ~part).amx) << part;
  }
  for (std::uint64_t part : {0x2u, 0x4u}) {
    const CpuFeatures f = features_from(kSapphireRapids, kAll & ~part);
    EXPECT_FALSE(f.avx2 || f.avx512 || f.amx) << part;
    EXPECT_STREQ(f.why_not_avx2, "the operating system does not save YMM registers (XCR0)");
  }
  for (std::uint64_t part : {0x20000u, 0x40000u}) {
    const CpuFeatures f = features_from(kSapphireRapids, kAll & ~part);
    EXPECT_TRUE(f.avx512);
    EXPECT_FALSE(f.amx) << part;
    EXPECT_STREQ(f.why_not_amx, "the operating system does not save tile registers (XCR0)");
  }
  Cpuid no_osxsave = kSapphireRapids;
  no_osxsave.leaf1_ecx &= ~kOsxsave;
  const CpuFeatures no_xsave = features_from(no_osxsave, kAll);
  EXPECT_FALSE(no_xsave.avx2 || no_xsave.avx512 || no_xsave.amx);
  EXPECT_STREQ(no_xsave.why_not_avx2, "the operating system has not enabled XSAVE (CPUID OSXSAVE)");
}

TEST(BugCases, A9_7_EachLevelIsChosenByWhatItUses) {
  // AVX-512 does not wait for AMX, and AMX asks for bf16 products, not for any other kind.
  const CpuFeatures amd = features_from({kSkylake.leaf1_ecx, kSkylake.leaf7_ebx, 0, 0}, kX87Sse | kYmm | kZmm);
  EXPECT_TRUE(amd.avx2 && amd.avx512);
  EXPECT_STREQ(amd.why_not_amx, "CPUID lacks AMX-TILE");
  const CpuFeatures int8_only = features_from({kSkylake.leaf1_ecx, kSkylake.leaf7_ebx, kTile | bit(25), kVectorBf16}, kAll);
  EXPECT_TRUE(int8_only.avx512);
  EXPECT_STREQ(int8_only.why_not_amx, "CPUID lacks AMX-BF16");
  const CpuFeatures no_rounding = features_from({kSkylake.leaf1_ecx, kSkylake.leaf7_ebx, kTile | kBf16, 0}, kAll);
  EXPECT_TRUE(no_rounding.avx512);
  EXPECT_STREQ(no_rounding.why_not_amx, "CPUID lacks AVX512_BF16");
}

TEST(CpuFeatures, ThisProcessorIsConsistent) {
  const CpuFeatures f = this_cpu();
  EXPECT_EQ(f.avx2, std::string(f.why_not_avx2).empty());
  EXPECT_EQ(f.avx512, std::string(f.why_not_avx512).empty());
  EXPECT_EQ(f.amx, std::string(f.why_not_amx).empty());
  EXPECT_EQ(f.neon, std::string(f.why_not_neon).empty());
  const CpuFeatures again = this_cpu();
  EXPECT_EQ(f.why_not_avx512, again.why_not_avx512);
  EXPECT_EQ(f.avx512, again.avx512);
#if defined(__aarch64__)
  EXPECT_TRUE(f.neon);
  EXPECT_FALSE(f.avx2);
#elif defined(__x86_64__)
  EXPECT_FALSE(f.neon);
  // The compiler's run time asks CPUID and XCR0 by itself.
  EXPECT_EQ(f.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"));
  EXPECT_EQ(f.avx512, f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  if (!f.avx512) {
    EXPECT_FALSE(f.amx);
  }
#endif
}

}  // namespace
}  // namespace flashtile
