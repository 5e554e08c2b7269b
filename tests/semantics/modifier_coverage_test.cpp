// What a score modifier says of whole blocks (ScoreModifier::coverage) saves time and changes no bit: blocks called empty
// are skipped, blocks called full are left alone, for every edge that falls anywhere in a tile of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

/// Query i of head h sees the keys below first + slope · i + h, and nothing else is changed.
struct Stairs {
  Index first = 0, slope = 1;
  std::atomic<int> applied{0};

  Index end(Index head, Index query) const { return first + slope * query + head; }

  static void apply(void* context, const ScoreTile& tile) {
    auto& stairs = *static_cast<Stairs*>(context);
    ++stairs.applied;
    for (Index i = 0; i < tile.queries; ++i)
      for (Index j = 0; j < tile.keys; ++j) {
        if (tile.key + j < stairs.end(tile.head, tile.query + i)) continue;
        if (tile.dtype == DType::f64) tile.at<double>(i, j) = -HUGE_VAL;
        else tile.at<float>(i, j) = -HUGE_VALF;
      }
  }
  static Coverage coverage(void* context, Index, Index head, Index query_begin, Index query_end, Index key_begin,
                           Index key_end) {
    const auto& stairs = *static_cast<Stairs*>(context);
    const Index a = stairs.end(head, query_begin), b = stairs.end(head, query_end - 1);
    if (key_end <= std::min(a, b)) return Coverage::full;
    return key_begin >= std::max(a, b) ? Coverage::empty : Coverage::mixed;
  }
};

Case with(const Setting& s, Stairs& stairs, bool says, Index group) {
  Case c({.batch = 1, .queries = 60, .keys = 200, .q_heads = group, .kv_heads = 1, .head_dim = 8, .value_dim = 8}, s.dtype);
  c.fill_normal(21);
  c.options.isa = s.isa;
  if (s.isa == Isa::amx || s.isa == Isa::amx_emulated) c.options.arithmetic = Arithmetic::automatic;
  c.options.score_modifier = {Stairs::apply, says ? Stairs::coverage : nullptr, &stairs};
  return c;
}

TEST(ModifierCoverage, ChangesNoBitWhereverTheEdgeFalls) {
  FT_FOR_EACH_SETTING(s)
  for (Index group : {1, 2})
    for (Index slope : {1, -1})
        // The edge of the last row of the first tile, or of the first, passes the end of a block.
      for (Index first = 128 - 47 / group * slope - 2; first <= 128 - 47 / group * slope + 2; ++first) {
        Stairs stairs{first, slope, {}};
        Case silent = with(s, stairs, false, group), told = with(s, stairs, true, group);
        ASSERT_TRUE(same_results(silent, told)) << "first " << first << ", slope " << slope;
      }
}

TEST(ModifierCoverage, FullBlocksAreLeftAloneAndEmptyOnesSkipped) {
  FT_FOR_EACH_SETTING(s) {
    Stairs all{1000, 1, {}}, none{-1000, 1, {}};
    Case seen = with(s, all, true, 2), hidden = with(s, none, true, 2), plain = with(s, all, true, 2);
    ASSERT_TRUE(seen.run().ok());
    ASSERT_TRUE(hidden.run().ok());
    EXPECT_EQ(all.applied, 0);
    EXPECT_EQ(none.applied, 0);
    for (double x : hidden.out.values()) ASSERT_EQ(x, 0);
    for (double x : hidden.lse.values()) ASSERT_EQ(x, -HUGE_VAL);
    plain.options.score_modifier = {};
    EXPECT_TRUE(runs_right(plain));
    for (Index i = 0; i < 60; ++i) EXPECT_NEAR(seen.lse.get(0, 1, i), plain.lse.get(0, 1, i), 1e-5);
  }
}

}  // namespace
}  // namespace flashtile::testing
