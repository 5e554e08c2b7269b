// Public bugs, group A4: empty and odd shapes. Each test is named after its case; the thread that reported the bug is
// quoted beside it.
#include <gtest/gtest.h>
#include <pthread.h>

#include <limits>

#include "support/compare.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// pytorch#141219, #141218, #174939, PR #175063: floating-point exceptions and crashes on zero sizes.
TEST(A4_EmptyOddShapes, A4_1_EveryExtentMayBeZero) {
  FT_FOR_EACH_SETTING(s) {
    for (bool causal : {false, true}) {
      const Shape usual{.batch = 2, .queries = 3, .keys = 4, .q_heads = 4, .kv_heads = 2, .head_dim = 7, .value_dim = 5};
      for (int zeros = 1; zeros < 16; ++zeros) {
        Shape shape = usual;
        if (zeros & 1) shape.batch = 0;
        if (zeros & 2) shape.queries = 0;
        if (zeros & 4) shape.keys = 0;
        if (zeros & 8) shape.q_heads = shape.kv_heads = 0;
        Case c(shape, s.dtype);
        c.options.isa = s.isa, c.options.causal = causal;
        c.fill_normal(51);
        EXPECT_TRUE(runs_right(c)) << "zeros " << zeros;
      }
      Case no_queries_heads({.batch = 2, .queries = 3, .keys = 4, .q_heads = 0, .kv_heads = 2}, s.dtype);
      no_queries_heads.options.isa = s.isa;
      EXPECT_TRUE(runs_right(no_queries_heads));
    }
  }
}

TEST(A4_EmptyOddShapes, A4_1_NoKeyValueHeadsForSomeQueryHeadsIsAClearError) {
  for (Index keys : {0, 4}) {
    Case c({.queries = 3, .keys = keys, .q_heads = 4, .kv_heads = 0});
    const Status status = c.run();
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_NE(std::string(status.text).find("k.heads = 0"), std::string::npos) << status.text;
    EXPECT_TRUE(c.out.untouched());
  }
}

TEST(A4_EmptyOddShapes, A4_1_HeadDimZeroIsRefusedByName) {
  Case no_head_dim({.queries = 3, .keys = 4, .head_dim = 0}), no_value_dim({.queries = 3, .keys = 4, .value_dim = 0});
  EXPECT_NE(std::string(no_head_dim.run().text).find("q.head_dim = 0"), std::string::npos);
  EXPECT_NE(std::string(no_value_dim.run().text).find("v.head_dim = 0"), std::string::npos);
}

// flash-attention PR #2470: Sk = 0 killed the process.
TEST(A4_EmptyOddShapes, A4_2_NoKeysGiveZeroAndMinusInfinity) {
  FT_FOR_EACH_SETTING(s) {
    for (bool causal : {false, true}) {
      for (Layout layout : {Layout::bshd, Layout::bhsd, Layout::padded}) {
        Case c({.batch = 2, .queries = 19, .keys = 0, .q_heads = 4, .kv_heads = 2, .head_dim = 64, .value_dim = 40}, s.dtype,
               layout);
        c.options.isa = s.isa, c.options.causal = causal;
        c.fill_normal(52);
        ASSERT_TRUE(runs_right(c));
        for (double x : c.out.values()) ASSERT_EQ(x, 0);
        for (double x : c.lse.values()) ASSERT_EQ(x, -kInf);
      }
    }
  }
}

/// Each sequence of a packed case, computed alone, has the same bits.
void expect_equals_separate_calls(Case& packed, const std::vector<Index>& cu_q, const std::vector<Index>& cu_k) {
  ASSERT_TRUE(packed.run().ok());
  for (std::size_t b = 0; b + 1 < cu_q.size(); ++b) {
    Shape shape = packed.shape;
    shape.batch = 1, shape.queries = cu_q[b + 1] - cu_q[b], shape.keys = cu_k[b + 1] - cu_k[b];
    Case alone(shape, packed.dtypes);
    alone.options = packed.options;
    const auto cut = [&](Array& to, const Array& from, Index first) {
      for (Index i = 0; i < to.shape(1); ++i)
        for (Index h = 0; h < to.shape(2); ++h)
          for (Index d = 0; d < to.shape(3); ++d) to.set(from.get(first + i, h, d), 0, i, h, d);
    };
    cut(alone.q, packed.q, cu_q[b]), cut(alone.k, packed.k, cu_k[b]), cut(alone.v, packed.v, cu_k[b]);
    ASSERT_TRUE(alone.run().ok());
    for (Index h = 0; h < shape.q_heads; ++h) {
      for (Index i = 0; i < shape.queries; ++i) {
        ASSERT_EQ(packed.lse.get(h, cu_q[b] + i), alone.lse.get(0, h, i)) << "sequence " << b;
        ASSERT_EQ(packed.entropy.get(h, cu_q[b] + i), alone.entropy.get(0, h, i)) << "sequence " << b;
        for (Index d = 0; d < shape.value_dim; ++d)
          ASSERT_EQ(packed.out.get(cu_q[b] + i, h, d), alone.out.get(0, i, h, d)) << "sequence " << b << ", row " << i;
      }
      for (Index j = 0; j < shape.keys; ++j)
        ASSERT_EQ(packed.key_weights.get(h, cu_k[b] + j), alone.key_weights.get(0, h, j)) << "sequence " << b;
    }
  }
}

void expect_packed_right(const std::vector<Index>& cu_q, const std::vector<Index>& cu_k, Index q_heads, Index kv_heads,
                         Index head_dim) {
  FT_FOR_EACH_SETTING(s) {
    for (bool causal : {false, true}) {
      Case c({.queries = cu_q.back(),
              .keys = cu_k.back(),
              .q_heads = q_heads,
              .kv_heads = kv_heads,
              .head_dim = head_dim,
              .value_dim = head_dim},
             cu_q, cu_k, s.dtype);
      c.options.isa = s.isa, c.options.causal = causal;
      c.fill_normal(53);
      ASSERT_TRUE(runs_right(c));
      expect_equals_separate_calls(c, cu_q, cu_k);
    }
  }
}

// flash-attention#1537, #1619: at most one query a sequence, sequences of length 0, GQA.
TEST(A4_EmptyOddShapes, A4_3_PackedSequencesOfLengthZeroAndOne) {
  expect_packed_right({0, 0, 1, 1, 2}, {0, 0, 3, 3, 8}, 9, 3, 64);
  expect_packed_right({0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, 21, 7, 120);
}

// flash-attention#2562, PR #2568, PR #1155: keys without queries and queries without keys. Shrunk.
TEST(A4_EmptyOddShapes, A4_4_SegmentsWithoutQueriesGiveTheirKeysNoWeight) {
  expect_packed_right({0, 0, 3, 5, 5}, {0, 4, 7, 9, 12}, 4, 1, 256);
  expect_packed_right({0, 5, 9, 12}, {0, 0, 140, 140}, 4, 2, 16);
  Case c({.queries = 5, .keys = 12, .q_heads = 4}, {0, 0, 3, 5, 5}, {0, 4, 7, 9, 12});
  c.fill_normal(54);
  ASSERT_TRUE(c.run().ok());
  for (Index h = 0; h < 4; ++h)
    for (Index j : {0, 1, 2, 3, 9, 10, 11}) EXPECT_EQ(c.key_weights.get(h, j), 0) << j;
}

// vllm PR #37442, vllm-fork PR #318: decode slots of length 0 kept what was in the output.
TEST(A4_EmptyOddShapes, A4_5_EmptySlotsOfADecodeBatchAreWritten) {
  FT_FOR_EACH_SETTING(s) {
    for (bool causal : {false, true}) {
      Case c({.batch = 8, .queries = 1, .keys = 16, .q_heads = 4, .kv_heads = 2, .head_dim = 32, .value_dim = 32}, s.dtype);
      c.options.isa = s.isa, c.options.causal = causal;
      c.fill_normal(55);
      c.key_lengths = Array::ints({5, 0, 0, 16, 0, 1, 0, 0});
      ASSERT_TRUE(runs_right(c));
      for (Index b : {1, 2, 4, 6, 7})
        for (Index h = 0; h < 4; ++h) {
          EXPECT_EQ(c.lse.get(b, h, 0), -kInf);
          for (Index d = 0; d < 32; ++d) ASSERT_EQ(c.out.get(b, 0, h, d), 0);
        }
    }
  }
}

// pytorch#133321, #133674; tiny-flash-attention#12; vllm PR #31968; flashinfer#528; flash-attention#753, #952, #1471.
TEST(A4_EmptyOddShapes, A4_6_EveryHeadDimIsRight) {
  constexpr Index kDims[] = {1, 3, 7, 8, 63, 64, 65, 80, 96, 112, 128, 192, 224, 256, 512, 576};
  constexpr std::size_t kCount = sizeof kDims / sizeof kDims[0];
  FT_FOR_EACH_SETTING(s) {
    for (std::size_t n = 0; n < kCount; ++n) {
      for (std::size_t step : {std::size_t{0}, std::size_t{5}}) {  // Dv = D, and Dv ≠ D
        const Shape shape{
            .queries = 7, .keys = 21, .q_heads = 2, .head_dim = kDims[n], .value_dim = kDims[(n + step) % kCount]};
        Case c(shape, s.dtype, step == 0 ? Layout::bshd : Layout::padded);
        c.options.isa = s.isa, c.options.causal = step != 0;
        c.fill_normal(56 + n);
        EXPECT_TRUE(runs_right(c)) << "D " << shape.head_dim << ", Dv " << shape.value_dim;
      }
    }
  }
}

struct OnSmallStack {
  Case* c;
  Status status;
};

// colibri PR #122: a score buffer on the stack limited the length. 128 KiB of stack, more than 8192 keys, wide heads.
TEST(A4_EmptyOddShapes, A4_7_LongRowsRunOnSmallStacks) {
  FT_FOR_EACH_SETTING(s) {
    if (small_grid() && s.dtype != DType::bf16) continue;
    Case c({.queries = 3, .keys = 8200, .head_dim = 576, .value_dim = 512}, s.dtype);
    c.options.isa = s.isa, c.options.causal = true;
    c.fill_normal(57);
    for (int threads : {3, 1}) {
      c.options.threads = threads;
      OnSmallStack job{&c, {}};
      pthread_attr_t attributes;
      ASSERT_EQ(pthread_attr_init(&attributes), 0);
      ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 * 1024), 0);
      pthread_t thread;
      const auto body = [](void* data) -> void* {
        OnSmallStack& work = *static_cast<OnSmallStack*>(data);
        work.status = work.c->run();
        return nullptr;
      };
      ASSERT_EQ(pthread_create(&thread, &attributes, body, &job), 0);
      ASSERT_EQ(pthread_join(thread, nullptr), 0);
      pthread_attr_destroy(&attributes);
      ASSERT_TRUE(job.status.ok()) << job.status.text;
    }
    Tolerance t = default_tolerance(c);
    t.row_step = 2;
    EXPECT_TRUE(agrees(c, t));
  }
}

// jax#24491, #23349: Sq ≠ Sk was wrong in a kernel; key lengths were ignored.
TEST(A4_EmptyOddShapes, A4_8_MoreKeysThanQueriesWithoutCausal) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 512, .keys = 2048, .head_dim = 16, .value_dim = 16}, s.dtype);
    c.options.isa = s.isa;
    c.fill_normal(58);
    Tolerance t = default_tolerance(c);
    t.row_step = 73;
    EXPECT_TRUE(runs_right(c, t));
  }
}

TEST(A4_EmptyOddShapes, A4_8_KeyLengthsEqualAMask) {
  FT_FOR_EACH_SETTING(s) {
    const std::vector<Index> lengths = {24, 125, 53, 128, 0, 1};
    const Shape shape{.batch = 6, .queries = 5, .keys = 128, .q_heads = 2, .head_dim = 24, .value_dim = 24};
    Case by_length(shape, s.dtype), by_mask(shape, s.dtype);
    for (Case* c : {&by_length, &by_mask}) c->options.isa = s.isa, c->fill_normal(59);
    by_length.key_lengths = Array::ints(lengths);
    by_mask.mask = Array(DType::boolean, {6, 1, 1, 128});
    for (Index b = 0; b < 6; ++b)
      for (Index j = 0; j < 128; ++j) by_mask.mask.set(j < lengths[b], b, 0, 0, j);
    EXPECT_TRUE(same_results(by_length, by_mask));
    EXPECT_TRUE(agrees(by_length, default_tolerance(by_length)));
  }
}

}  // namespace
}  // namespace flashtile::testing
