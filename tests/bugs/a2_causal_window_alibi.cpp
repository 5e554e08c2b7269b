// Public bugs, group A2: causal alignment, windows, ALiBi. Each test is named after its case; the thread that reported
// the bug is quoted beside it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/compare.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

/// Keys that row i of a case made by fill_to_show_weights() sees: "0 1 2".
std::string seen_by(const Case& c, Index i, Index h = 0) {
  std::string text;
  for (Index j = 0; j < c.shape.keys; ++j)
    if (c.out.get(0, i, h, j) > 0) text += (text.empty() ? "" : " ") + std::to_string(j);
  return text;
}

Case shows_keys(Index queries, Index keys, const Setting& s) {
  Case c({.queries = queries, .keys = keys, .value_dim = keys}, s.dtype);
  c.fill_to_show_weights();
  c.options.isa = s.isa;
  return c;
}

// flash-attention#282, #351, #517, #1778: what causal means when Sq ≠ Sk.
TEST(A2_CausalWindowAlibi, A2_1_CausalIsBottomRight) {
  FT_FOR_EACH_SETTING(s) {
    Case wide = shows_keys(2, 5, s), tall = shows_keys(5, 2, s);
    for (Case* c : {&wide, &tall}) {
      c->options.causal = true;
      ASSERT_TRUE(runs_right(*c));
    }
    EXPECT_EQ(seen_by(wide, 0), "0 1 2 3");
    EXPECT_EQ(seen_by(wide, 1), "0 1 2 3 4");
    for (Index i = 0; i < 3; ++i) {
      EXPECT_EQ(seen_by(tall, i), "");
      EXPECT_EQ(tall.lse.get(0, 0, i), -std::numeric_limits<double>::infinity());
    }
    EXPECT_EQ(seen_by(tall, 3), "0");
    EXPECT_EQ(seen_by(tall, 4), "0 1");
  }
}

TEST(A2_CausalWindowAlibi, A2_1_TopLeftOnlyWhenNamed) {
  FT_FOR_EACH_SETTING(s) {
    Case wide = shows_keys(2, 5, s), tall = shows_keys(5, 2, s);
    for (Case* c : {&wide, &tall}) {
      c->options.causal = true, c->options.alignment = Alignment::top_left;
      ASSERT_TRUE(runs_right(*c));
    }
    EXPECT_EQ(seen_by(wide, 0), "0");
    EXPECT_EQ(seen_by(wide, 1), "0 1");
    EXPECT_EQ(seen_by(tall, 0), "0");
    for (Index i = 1; i < 5; ++i) EXPECT_EQ(seen_by(tall, i), "0 1");
  }
}

// mlx#2835, executorch#22426, onnxruntime#29020: one query over 16 keys in the two conventions.
TEST(A2_CausalWindowAlibi, A2_2_OneQueryOverACacheInBothConventions) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 1, .keys = 16, .q_heads = 2, .kv_heads = 2, .head_dim = 64, .value_dim = 64}, s.dtype);
    c.options.isa = s.isa, c.options.causal = true;
    c.fill_normal(31);
    Case unmasked({.queries = 1, .keys = 16, .q_heads = 2, .kv_heads = 2, .head_dim = 64, .value_dim = 64}, s.dtype);
    unmasked.options.isa = s.isa;
    unmasked.copy_inputs(c);
    EXPECT_TRUE(same_results(c, unmasked));
    c.options.alignment = Alignment::top_left;
    ASSERT_TRUE(runs_right(c));
    for (Index d = 0; d < 64; ++d) EXPECT_NEAR(c.out.get(0, 0, 1, d), c.v.get(0, 0, 1, d), 1e-6) << d;
  }
}

/// Changes keys and values after each position in turn; earlier rows keep their bits, in every head.
void expect_future_does_not_matter(Case& c, const std::vector<Index>& positions) {
  ASSERT_TRUE(runs_right(c));
  const std::vector<double> before = c.out.values(), lse = c.lse.values();
  const Index heads = c.shape.q_heads, dim = c.shape.value_dim, rows = c.shape.queries;
  for (Index position : positions) {
    for (Array* a : {&c.k, &c.v}) {
      Random random(static_cast<std::uint64_t>(position) + 5);
      std::vector<double> changed = a->values();
      const Index row = a->shape(c.varlen ? 1 : 2) * a->shape(c.varlen ? 2 : 3);
      for (std::size_t n = 0; n < changed.size(); ++n)
        if (static_cast<Index>(n) / row % rows > position) changed[n] = 50 * random.normal();
      std::size_t n = 0;
      a->fill([&] { return changed[n++]; });
    }
    ASSERT_TRUE(c.run().ok());
    const std::vector<double> after = c.out.values();
    for (std::size_t n = 0; n < after.size(); ++n) {
      const Index i = static_cast<Index>(n) / (heads * dim) % rows, h = static_cast<Index>(n) / dim % heads;
      if (i > position) continue;
      ASSERT_EQ(after[n], before[n]) << "row " << i << ", head " << h << ", changed " << position;
    }
    const std::vector<double> lse_after = c.lse.values();
    for (std::size_t n = 0; n < lse.size(); ++n) {
      if (static_cast<Index>(n) % rows > position) continue;
      ASSERT_EQ(lse_after[n], lse[n]) << "LSE " << n << ", changed " << position;
    }
  }
}

// candle PR #3606; burn#4484; xformers#103: causal dropped, or right in head 0 only.
TEST(A2_CausalWindowAlibi, A2_3_FutureTokensNeverMatterInAnyHead) {
  FT_FOR_EACH_SETTING(s) {
    Case dense({.batch = 2, .queries = 16, .keys = 16, .q_heads = 4, .kv_heads = 4, .head_dim = 32, .value_dim = 32},
               s.dtype);
    Case packed({.queries = 16, .keys = 16, .q_heads = 4, .kv_heads = 4, .head_dim = 32, .value_dim = 32}, {0, 16}, {0, 16},
                s.dtype);
    for (Case* c : {&dense, &packed}) {
      c->options.isa = s.isa, c->options.causal = true;
      c->fill_normal(32);
      expect_future_does_not_matter(*c, {14, 11, 7, 3, 0});
    }
  }
}

// pytorch#195910: causal was applied once for every four rows in 16-bit types.
TEST(A2_CausalWindowAlibi, A2_4_FutureTokensNeverMatterInAnyDtype) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 64, .keys = 64, .q_heads = 4, .kv_heads = 4, .head_dim = 64, .value_dim = 64}, s.dtype);
    c.options.isa = s.isa, c.options.causal = true;
    c.fill_normal(33);
    expect_future_does_not_matter(c, {62, 61, 60, 33, 5, 0});
  }
}

// flash-attention#1133: names for the same mask, down to the bits; 16384 keys, the last 40 queries.
TEST(A2_CausalWindowAlibi, A2_5_WindowsThatMeanCausalGiveItsBits) {
  const Index kKeys = small_grid() ? 2048 : 16384;
  for (const Setting& s : settings({DType::f32, DType::bf16})) {
    SCOPED_TRACE(s.text());
    const Shape shape{.queries = 10, .keys = kKeys, .head_dim = 128, .value_dim = 16};
    Case causal(shape, s.dtype), window(shape, s.dtype);
    causal.fill_normal(34), window.copy_inputs(causal);
    causal.options.isa = window.options.isa = s.isa;
    causal.options.causal = true;
    ASSERT_TRUE(causal.run().ok());
    for (Index left : {Index{-1}, kKeys, kKeys - 1}) {
      window.options.window = {.left = left, .right = 0};
      ASSERT_TRUE(window.run().ok());
      for (std::size_t n = 0; n < causal.written().size(); ++n)
        EXPECT_TRUE(same_bits(*causal.written()[n], *window.written()[n])) << "left " << left << ", output " << n;
    }
  }
}

// transformers#39408, onnxruntime PR #25927, vllm#3385, mlx-lm PR #390, zml PR #763: windows off by one.
TEST(A2_CausalWindowAlibi, A2_6_FourTokenWindowAveragesFourKeys) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 16, .keys = 16, .value_dim = 1}, s.dtype);
    c.options.isa = s.isa;
    c.fill_normal(35), c.q.fill_value(0), c.v.fill([j = 0]() mutable { return j++; });
    c.options.window = {.left = 3, .right = 0};
    ASSERT_TRUE(runs_right(c));
    EXPECT_EQ(c.out.get(0, 10, 0, 0), 8.5);  // keys 7 … 10; one key fewer gives 9, one more 8
    EXPECT_EQ(c.out.get(0, 0, 0, 0), 0);
    EXPECT_EQ(c.out.get(0, 1, 0, 0), 0.5);
    c.options.causal = true, c.options.window = {.left = 3};
    ASSERT_TRUE(c.run().ok());
    EXPECT_EQ(c.out.get(0, 10, 0, 0), 8.5);
  }
}

TEST(A2_CausalWindowAlibi, A2_6_EveryWindowShowsExactlyItsNeighbours) {
  FT_FOR_EACH_SETTING(s) {
    for (Index left : {-1, 0, 1, 7, 20}) {
      for (Index right : {-1, 0, 2, 20}) {
        Case c = shows_keys(6, 11, s);
        c.options.window = {.left = left, .right = right};
        ASSERT_TRUE(c.run().ok());
        for (Index i = 0; i < 6; ++i) {
          std::string want;
          for (Index j = 0; j < 11; ++j)
            if ((left < 0 || j >= i + 5 - left) && (right < 0 || j <= i + 5 + right))
              want += (want.empty() ? "" : " ") + std::to_string(j);
          EXPECT_EQ(seen_by(c, i), want) << "window (" << left << ", " << right << "), row " << i;
        }
      }
    }
  }
}

// jax#32300: the window was ignored without a mask; flash-attention#1116: a negative one meant infinite, silently.
TEST(A2_CausalWindowAlibi, A2_7_WindowWorksAloneAndNegativeOnesAreRefused) {
  FT_FOR_EACH_SETTING(s) {
    Case c = shows_keys(5, 5, s);
    c.options.window = {.left = 1, .right = 1};
    ASSERT_TRUE(runs_right(c));
    EXPECT_EQ(seen_by(c, 0), "0 1");
    EXPECT_EQ(seen_by(c, 2), "1 2 3");
    for (const Window window : {Window{100, -3}, Window{-2, 0}}) {
      c.options.window = window;
      const Status status = c.run();
      EXPECT_EQ(status.code, Code::invalid_argument);
      EXPECT_NE(std::string(status.text).find("window."), std::string::npos) << status.text;
      EXPECT_TRUE(c.out.untouched());
    }
  }
}

// transformers#37574, PR #45940, LLMs-from-scratch#1008: a cache of exactly the window's length, and two tokens at
// once. The cache keeps only what the next queries can see and says by first_key_position where it begins.
TEST(A2_CausalWindowAlibi, A2_8_EvictedCacheEqualsFullHistory) {
  constexpr Index kTokens = 12, kHeads = 2, kDim = 16;
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{
        .queries = kTokens, .keys = kTokens, .q_heads = kHeads, .kv_heads = 1, .head_dim = kDim, .value_dim = kDim};
    Case full(shape, s.dtype);
    full.fill_normal(36);
    full.options.isa = s.isa, full.options.window = {.left = 7, .right = 0};
    ASSERT_TRUE(runs_right(full));
    for (Index appended : {1, 2, 3}) {
      for (Index tokens = appended; tokens <= kTokens; ++tokens) {
        const Index first_query = tokens - appended, first_key = std::max<Index>(0, first_query - 7);
        Shape small = shape;
        small.queries = appended, small.keys = tokens - first_key;
        Case step(small, s.dtype);
        step.options = full.options;
        step.first_key_position = Array::ints({first_key});
        for (Index d = 0; d < kDim; ++d) {
          for (Index i = 0; i < appended; ++i)
            for (Index h = 0; h < kHeads; ++h) step.q.set(full.q.get(0, first_query + i, h, d), 0, i, h, d);
          for (Index j = 0; j < small.keys; ++j) {
            step.k.set(full.k.get(0, first_key + j, 0, d), 0, j, 0, d);
            step.v.set(full.v.get(0, first_key + j, 0, d), 0, j, 0, d);
          }
        }
        ASSERT_TRUE(step.run().ok());
        for (Index i = 0; i < appended; ++i)
          for (Index h = 0; h < kHeads; ++h) {
            EXPECT_EQ(step.lse.get(0, h, i), full.lse.get(0, h, first_query + i)) << tokens << " tokens";
            for (Index d = 0; d < kDim; ++d)
              EXPECT_EQ(step.out.get(0, i, h, d), full.out.get(0, first_query + i, h, d)) << tokens << " tokens";
          }
      }
    }
  }
}

const std::vector<double> kSlopes6 = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
const std::vector<double> kSlopes12 = {0.5,       0.25,       0.125,      0.0625,     0.03125,    0.015625,
                                       0.0078125, 0.00390625, 0.70710678, 0.35355339, 0.17677670, 0.08838835};

// flash-attention#907; vllm PR #945; attention-gym PR #86; llama.cpp PR #20031: decode equals the row of the prefill.
TEST(A2_CausalWindowAlibi, A2_9_AlibiOverACacheEqualsPrefill) {
  FT_FOR_EACH_SETTING(s) {
    for (const std::vector<double>& slopes : {kSlopes6, kSlopes12}) {
      const Index heads = static_cast<Index>(slopes.size());
      Case prefill({.queries = 10, .keys = 10, .q_heads = heads, .kv_heads = heads}, s.dtype);
      Case decode({.queries = 1, .keys = 10, .q_heads = heads, .kv_heads = heads}, s.dtype);
      prefill.fill_normal(37);
      decode.k.copy_from(prefill.k), decode.v.copy_from(prefill.v);
      for (Index h = 0; h < heads; ++h)
        for (Index d = 0; d < 8; ++d) decode.q.set(prefill.q.get(0, 9, h, d), 0, 0, h, d);
      for (Case* c : {&prefill, &decode}) {
        c->options.isa = s.isa, c->options.causal = true;
        c->slopes = Array::of(DType::f32, {heads}, slopes);
        ASSERT_TRUE(runs_right(*c));
      }
      for (Index h = 0; h < heads; ++h) {
        EXPECT_EQ(decode.lse.get(0, h, 0), prefill.lse.get(0, h, 9)) << h;
        for (Index d = 0; d < 8; ++d) EXPECT_EQ(decode.out.get(0, 0, h, d), prefill.out.get(0, 9, h, d)) << h;
      }
    }
  }
}

// The same threads: far keys weigh less, by exp(−slope) a step, on both sides of the query.
TEST(A2_CausalWindowAlibi, A2_9_AlibiBiasIsMinusSlopeTimesDistance) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 3, .keys = 9, .q_heads = 6, .kv_heads = 6, .value_dim = 9}, s.dtype);
    c.fill_to_show_weights();
    c.options.isa = s.isa;
    c.slopes = Array::of(DType::f32, {6}, kSlopes6);
    ASSERT_TRUE(runs_right(c));
    for (Index h = 0; h < 6; ++h)
      for (Index i = 0; i < 3; ++i) {
        double sum = 0;
        for (Index j = 0; j < 9; ++j) sum += std::exp(-kSlopes6[h] * std::abs(i + 6 - j));
        EXPECT_NEAR(c.lse.get(0, h, i), std::log(sum), 1e-6);
        EXPECT_NEAR(c.out.get(0, i, h, 2) / c.out.get(0, i, h, 3), std::exp(-kSlopes6[h]), 1e-2) << "head " << h;
      }
  }
}

}  // namespace
}  // namespace flashtile::testing
