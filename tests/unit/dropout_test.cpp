// Kernels, model and definition draw from the same generator, so only published numbers can tell a wrong one.
#include "problem/dropout.h"

#include <gtest/gtest.h>

namespace flashtile::testing {
namespace {

/// Known answers of Philox4x32-10 from the tests of its authors' library (Random123, kat_vectors).
TEST(Dropout, PhiloxGivesThePublishedNumbers) {
  const struct {
    Philox counter;
    std::uint64_t key;
    Philox want;
  } answers[] = {
      {{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffffffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0x299f31d0a4093822,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const auto& a : answers) {
    const Philox got = philox(a.key, a.counter);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], a.want.word[i]) << std::hex << a.key << ", word " << i;
  }
}

/// The mask is part of the interface: a function of these numbers that may not change between versions.
TEST(Dropout, WordsAreThoseOfSeedOffsetAndCoordinates) {
  const Dropout d = {0.25, 5, 2};
  const Philox got = dropout_words(d, 1, 2, 3, 4), want = philox(5 + 2 * 0x9E3779B97F4A7C15, {{4, 3, 2, 1}});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], want.word[i]);
  for (int j = 0; j < 4; ++j) EXPECT_EQ(keeps(d, 1, 2, 3, 16 + j), want.word[j] >= 0x40000000u) << j;
}

}  // namespace
}  // namespace flashtile::testing
