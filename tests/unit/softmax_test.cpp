// The state of the online softmax itself (tile/softmax.h), on the vectors of one lane. What a wrong state does to results
// differs from one instruction set to another, down to nothing at all; that it is wrong does not.
#include "tile/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "isa/scalar.h"

namespace flashtile {
namespace {

template <class V, class T = typename V::Scalar>
void expect_hidden_keys_leave_the_state_empty() {
  constexpr T kNaN = std::numeric_limits<T>::quiet_NaN(), kInfinity = std::numeric_limits<T>::infinity();
  constexpr Index kRows = kTileQueries, kKeys = 3;
  for (const bool statistics : {false, true}) {
    std::vector<std::byte> memory(64 * 1024);
    Arena arena(memory.data());
    RowStates<T> state(arena, kRows, 1, statistics, false);
    std::vector<T> scores(kRows * kKeys, -kInfinity), shift(kRows, 0), shrink(kRows, kNaN);

    start<V>(state, kRows);
    softmax<V>(scores.data(), kRows, 0, kKeys, false, state, shift.data(), shrink.data());

    for (Index r = 0; r < kRows; ++r) {
      EXPECT_EQ(state.max[r], Limits<V>::kEmpty) << "row " << r;
      EXPECT_EQ(state.sum[r], 0) << "row " << r;
      EXPECT_EQ(shrink[r], 1) << "row " << r;
      if (statistics) {
        EXPECT_EQ(state.top[r], -kInfinity) << "row " << r;
        EXPECT_EQ(state.moment[r], 0) << "row " << r;
        EXPECT_EQ(state.count[r], 0) << "row " << r;
      }
    }
    for (T weight : scores) EXPECT_EQ(weight, 0);
  }
}

TEST(Softmax, HiddenKeysLeaveTheStateEmptyAndFinite) {
  expect_hidden_keys_leave_the_state_empty<Scalar::F32>();
  expect_hidden_keys_leave_the_state_empty<Scalar::F64>();
}

TEST(Softmax, TheStabiliserIsAnIntegerThatNeverFalls) {
  using V = Scalar::F32;
  std::vector<std::byte> memory(64 * 1024);
  Arena arena(memory.data());
  RowStates<float> state(arena, kTileQueries, 1, false, false);
  std::vector<float> shift(kTileQueries, 0), shrink(kTileQueries);
  start<V>(state, kTileQueries);
  const auto see = [&](float logit) {
    std::vector<float> scores(kTileQueries, logit);
    softmax<V>(scores.data(), kTileQueries, 0, 1, false, state, shift.data(), shrink.data());
    return state.max[0];
  };
  EXPECT_EQ(see(-2.5f), -2);
  EXPECT_EQ(see(3.25f), 4);
  EXPECT_EQ(shrink[0], 0x1p-6f);
  EXPECT_EQ(see(1.0f), 4);
  EXPECT_EQ(shrink[0], 1);
  EXPECT_FLOAT_EQ(state.sum[0] * 16, std::exp2(-2.5f) + std::exp2(3.25f) + 2);
}

}  // namespace
}  // namespace flashtile
