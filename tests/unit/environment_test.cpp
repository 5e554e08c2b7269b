// Kernels compute in the documented environment whatever the caller's is, and the caller's comes back.
#include "run/environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <thread>
#include <vector>

#include "support/fp_mode.h"

namespace flashtile::testing {
namespace {

// Arithmetic that the compiler neither does itself nor moves.
__attribute__((noinline)) float product(volatile const float& a, volatile const float& b) { return a * b; }
__attribute__((noinline)) float sum(volatile const float& a, volatile const float& b) { return a + b; }

constexpr float kDenormal = 1e-40f;
constexpr float kUlp = 1.1920929e-7f;  // of 1

class FloatEnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__) && !defined(__aarch64__)
    GTEST_SKIP() << "nothing to set on this architecture";
#endif
    found_ = fp_mode();
  }
  void TearDown() override { set_fp_mode(found_); }

 private:
  std::uint64_t found_ = 0;
};

TEST_F(FloatEnvironmentTest, DenormalsCountAsZeroInsideAndAreBackOutside) {
  const float tiny = kDenormal, two = 2, small = 1.2e-38f, half = 0.5f;
  EXPECT_GT(product(tiny, two), 0);
  {
    FloatEnvironment environment;
    EXPECT_EQ(product(tiny, two), 0);    // operand
    EXPECT_EQ(product(small, half), 0);  // result
    EXPECT_EQ(product(small, two), 2.4e-38f);
  }
  EXPECT_GT(product(tiny, two), 0);
  EXPECT_GT(product(small, half), 0);
}

TEST_F(FloatEnvironmentTest, RoundingIsToNearestInsideWhateverTheCallerChose) {
  const float one = 1, quarter = kUlp / 4;
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const float outside = sum(one, quarter);
    float inside = 0;
    {
      FloatEnvironment environment;
      inside = sum(one, quarter);
    }
    const int after = std::fegetround();
    const float again = sum(one, quarter);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(inside, 1);
    EXPECT_EQ(after, mode);
    EXPECT_EQ(outside, again);
    EXPECT_EQ(outside > 1, mode == FE_UPWARD);
  }
}

TEST_F(FloatEnvironmentTest, TheControlWordIsTheDocumentedOneAndComesBackToTheBit) {
#if defined(__x86_64__)
  const std::uint64_t wanted = 0x9fc0, others[] = {0x1f80, 0x9fc0, 0x5fa1, 0x7f80, 0x9f80, 0x1fc0, 0x1fbf};
#else
  const std::uint64_t wanted = 1u << 24, others[] = {0, 1u << 24, 1u << 22, 3u << 22, 1u << 25};
#endif
  for (std::uint64_t other : others) {
    set_fp_mode(other);
    std::uint64_t inside = 0, nested = 0, between = 0;
    {
      FloatEnvironment environment;
      inside = fp_mode();
      {
        FloatEnvironment again;
        nested = fp_mode();
      }
      between = fp_mode();
    }
    const std::uint64_t after = fp_mode();
    set_fp_mode(others[0]);
    EXPECT_EQ(inside, wanted) << other;
    EXPECT_EQ(nested, wanted) << other;
    EXPECT_EQ(between, wanted) << other;
    EXPECT_EQ(after, other);
  }
}

TEST_F(FloatEnvironmentTest, ExceptionFlagsRaisedInsideAreNotSeenOutside) {
#if defined(__aarch64__)
  GTEST_SKIP() << "on Arm the flags are in FPSR, which kernels may change";
#endif
  std::feclearexcept(FE_ALL_EXCEPT);
  const float huge = 3e38f;
  {
    FloatEnvironment environment;
    EXPECT_TRUE(std::isinf(product(huge, huge)));
  }
  EXPECT_EQ(std::fetestexcept(FE_OVERFLOW), 0);
}

TEST(BugCases, A9_5_AmxPermissionIsTheSameAnswerForEveryThread) {
  std::vector<int> answers(8, -1);
  std::vector<std::thread> threads;
  for (int& answer : answers) threads.emplace_back([&answer] { answer = request_amx_permission() ? 1 : 0; });
  for (std::thread& t : threads) t.join();
  for (int answer : answers) EXPECT_EQ(answer, request_amx_permission() ? 1 : 0);
#if !defined(__x86_64__)
  EXPECT_FALSE(request_amx_permission());
#endif
}

}  // namespace
}  // namespace flashtile::testing
