// The constants of problem/polynomials.h against exp2, log and tanh in long double. Kernels and model share them, so no
// comparison of the two can see a wrong one; and what a wrong digit costs disappears behind the rounding of fp32.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "problem/polynomials.h"

namespace flashtile {
namespace {

using Long = long double;

template <class T, int N>
Long polynomial(const T (&c)[N], Long x) {
  Long sum = 0;
  for (int i = N - 1; i >= 0; --i) sum = sum * x + static_cast<Long>(c[i]);
  return sum;
}

/// The largest relative error over an even walk from `from` to `to`, ends included.
template <class Approximation, class Function>
Long largest_error(Long from, Long to, const Approximation& approximation, const Function& function) {
  constexpr int kSteps = 4000;
  Long most = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const Long x = from + (to - from) * i / kSteps, want = function(x);
    if (want != 0) most = std::fmax(most, std::fabs((approximation(x) - want) / want));
  }
  return most;
}

template <class T>
void expect_polynomials(Long exp2_error, Long log_error, Long tanh_error) {
  using P = Polynomials<T>;
  EXPECT_LE(largest_error(
                -0.5L, 0.5L, [](Long f) { return 1 + f * polynomial(P::exp2, f); }, [](Long f) { return std::exp2(f); }),
            exp2_error);
  EXPECT_LE(largest_error(
                std::sqrt(0.5L), std::sqrt(2.0L),
                [](Long g) {
                  const Long s = (g - 1) / (g + 1);
                  return 2 * s + s * s * s * polynomial(P::log, s * s);
                },
                [](Long g) { return std::log(g); }),
            log_error);
  const Long small = P::kTanhSmall;
  EXPECT_LE(largest_error(
                -small, small, [](Long x) { return x + x * x * x * polynomial(P::tanh, x * x); },
                [](Long x) { return std::tanh(x); }),
            tanh_error);
}

/// With the rounding of the coefficients, which in fp64 is most of the error.
TEST(Polynomials, RelativeErrorsAreWithinAFewHundredthsOfTheirBestValues) {
  expect_polynomials<float>(9.25e-9L, 2.6e-9L, 1.7e-8L);
  expect_polynomials<double>(2.05e-17L, 4.8e-18L, 1.35e-18L);
}

/// Two parts of ln 2 are to hold twice the digits of one; log2 e is the nearest number.
template <class T>
void expect_constants() {
  using P = Polynomials<T>;
  constexpr Long eps = std::numeric_limits<T>::epsilon();
  const Long ln2 = std::log(2.0L), log2e = 1 / ln2;
  EXPECT_LE(std::fabs(static_cast<Long>(P::kLn2High) + static_cast<Long>(P::kLn2Low) - ln2),
            std::fmax(eps * eps, 2 * std::numeric_limits<Long>::epsilon()));
  EXPECT_EQ(P::kLn2High, static_cast<T>(ln2));
  EXPECT_EQ(P::kLog2E, static_cast<T>(log2e));
}

TEST(Polynomials, ConstantsAreTheNearestNumbers) {
  expect_constants<float>();
  expect_constants<double>();
}

}  // namespace
}  // namespace flashtile
