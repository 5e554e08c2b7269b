// Problems whose every operation is exact: integer logits with Σ 2^s a power of two, values that are small integers. So
// O and LSE equal rational arithmetic bit for bit, in any order, tile, dtype, instruction set and family.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/case.h"

namespace flashtile::testing {
namespace {

/// Weights 2^s of `keys` keys in some order, with sum 2^total: one of 2^(total−1), 2^(total−2), … and the rest again and
/// again halved.
std::vector<int> dyadic_logits(Index keys, std::uint64_t seed) {
  std::vector<int> logits{6};
  Random random(seed);
  while (static_cast<Index>(logits.size()) < keys) {  // 2^s = 2^(s−1) + 2^(s−1), of the largest few
    const auto split = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const Index at = random.coin(0.6) ? split : random.integer(0, static_cast<Index>(logits.size()) - 1);
    if (logits[at] <= -9) continue;
    logits.push_back(--logits[at]);
  }
  for (std::size_t i = logits.size(); i > 1; --i)
    std::swap(logits[i - 1], logits[static_cast<std::size_t>(random.integer(0, static_cast<Index>(i) - 1))]);
  return logits;
}

void expect_exact(const Setting& setting, Index keys, Index queries, std::uint64_t seed) {
  Case c({.batch = 2, .queries = queries, .keys = keys, .q_heads = 4, .kv_heads = 2, .head_dim = 5, .value_dim = 19},
         setting.dtype);
  c.options.isa = setting.isa, c.options.scale = std::log(2.0);  // natural logits of ln 2 times integers
  const bool amx = setting.isa == Isa::amx || setting.isa == Isa::amx_emulated;
  c.options.arithmetic = amx ? Arithmetic::automatic : Arithmetic::fma;
  Random random(seed);
  c.q.fill_value(0), c.k.fill_normal(seed), c.v.fill([&] { return static_cast<double>(random.integer(-8, 8)); });
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 2; ++h) {
      const std::vector<int> logits = dyadic_logits(keys, seed + static_cast<std::uint64_t>(2 * b + h));
      for (Index j = 0; j < keys; ++j) c.k.set(logits[static_cast<std::size_t>(j)], b, j, h, 3);
      for (Index i = 0; i < queries; ++i)
        for (Index g = 0; g < 2; ++g) c.q.set(1, b, i, 2 * h + g, 3);
    }
  ASSERT_TRUE(c.run().ok());
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < queries; ++i)
      for (Index h = 0; h < 4; ++h) {
        for (Index d = 0; d < 19; ++d) {
          double sum = 0;  // exact: integers below 2^30 over 2^9
          for (Index j = 0; j < keys; ++j)
            sum += std::ldexp(c.v.get(b, j, h / 2, d), static_cast<int>(c.k.get(b, j, h / 2, 3)));
          ASSERT_EQ(c.out.get(b, i, h, d), static_cast<double>(rounded(c.dtypes.out, sum / 64))) << keys << " keys";
        }
        const double lse = 6 * std::log(2.0);
        const double unit = setting.dtype == DType::f64 ? 0x1p-51 : 0x1p-22;  // half the distance of neighbours at 4.2
        ASSERT_NEAR(c.lse.get(b, h, i), lse, unit);
      }
}

TEST(Dyadic, EveryOrderTileDtypeAndInstructionSetGivesTheRationalAnswer) {
  FT_FOR_EACH_SETTING(s) {
    if ((s.isa == Isa::amx || s.isa == Isa::amx_emulated) && s.dtype != DType::bf16) continue;
    for (Index keys : {1, 2, 7, 48, 63, 64, 65, 128, 130, 511, 512, 513, 700})
      ASSERT_NO_FATAL_FAILURE(expect_exact(s, keys, keys < 100 ? 50 : 3, static_cast<std::uint64_t>(keys)));
  }
}

}  // namespace
}  // namespace flashtile::testing
