// The choice of kernels: by dtype and family, by what the processor has, and by the lower of two caps, the option's and
// that of the environment variable.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "isa/dispatch.h"
#include "support/case.h"

namespace flashtile::testing {
namespace {

constexpr Isa kCaps[] = {Isa::automatic, Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512, Isa::amx};

CpuFeatures everything() {
  CpuFeatures have;
  have.neon = have.avx2 = have.avx512 = have.amx = true;
  return have;
}

Problem problem_of(DType q, DType k, DType v) {
  Problem p;
  p.q.dtype = q, p.k.dtype = k, p.v.dtype = v;
  return p;
}

bool built(Isa isa) {
  for (const Implementation& i : all_implementations())
    if (i.isa == isa) return i.kernels != nullptr;
  return false;
}

/// The best instruction set of the fma family that is built and not above either cap.
Isa best_below(Isa a, Isa b) {
  for (Isa isa : {Isa::avx512, Isa::avx2, Isa::neon})
    if (built(isa) && (a == Isa::automatic || isa <= a) && (b == Isa::automatic || isa <= b)) return isa;
  return Isa::scalar;
}

TEST(Dispatch, TheLowerOfBothCapsHolds) {
  Problem p = problem_of(DType::f32, DType::f32, DType::f32);
  for (Isa option : kCaps)
    for (Isa environment : kCaps) {
      p.isa = option;
      const Kernels* kernels = choose_kernels(p, everything(), environment);
      ASSERT_NE(kernels, nullptr);
      EXPECT_EQ(kernels->isa, best_below(option, environment)) << name_of(option) << " and " << name_of(environment);
    }
}

TEST(Dispatch, TheProcessorMustHaveIt) {
  const Problem p = problem_of(DType::f32, DType::f32, DType::f32);
  EXPECT_EQ(choose_kernels(p, CpuFeatures{}, Isa::automatic)->isa, Isa::scalar);
  CpuFeatures old = everything();
  old.avx512 = old.amx = false;
  EXPECT_EQ(choose_kernels(p, old, Isa::automatic)->isa, best_below(Isa::avx2, Isa::automatic));
}

TEST(Dispatch, TheAmxFamilyComputesBf16Only) {
  for (DType q : {DType::bf16, DType::f32})
    for (DType k : {DType::bf16, DType::f16})
      for (DType v : {DType::bf16, DType::f32}) {
        Problem p = problem_of(q, k, v);
        const bool bf16 = q == DType::bf16 && k == DType::bf16 && v == DType::bf16;
        const std::string family = choose_kernels(p, everything(), Isa::amx_emulated)->arithmetic;
        EXPECT_EQ(family, bf16 ? "amx" : "fma");
        EXPECT_EQ(choose_kernels(p, everything(), Isa::automatic)->isa == Isa::amx, bf16 && built(Isa::amx));
        p.arithmetic = Arithmetic::fma;
        EXPECT_STREQ(choose_kernels(p, everything(), Isa::amx_emulated)->arithmetic, "fma");
        p.arithmetic = Arithmetic::amx;
        const Kernels* kernels = choose_kernels(p, everything(), Isa::avx2);
        EXPECT_EQ(kernels, nullptr) << "amx was asked for and is capped: nothing else may take its place";
      }
}

TEST(Dispatch, TheEnvironmentVariableReachesThePlan) {
  const char* found = std::getenv("FLASHTILE_ISA");
  const std::string before = found == nullptr ? "" : found;
  const Case c({.queries = 2, .keys = 2});
  setenv("FLASHTILE_ISA", "scalar", 1);
  EXPECT_STREQ(c.planned().facts().isa, "scalar");
  setenv("FLASHTILE_ISA", "sse9", 1);
  Plan plan;
  const Status status = try_plan(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired(), plan);
  EXPECT_EQ(std::string(status.text).rfind("FLASHTILE_ISA = sse9", 0), 0u) << status.text;
  if (found == nullptr) unsetenv("FLASHTILE_ISA");
  else setenv("FLASHTILE_ISA", before.c_str(), 1);
}

}  // namespace
}  // namespace flashtile::testing
