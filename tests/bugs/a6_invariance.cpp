// Public bugs, group A6, the cases of the forward: a row's bits depend neither on the other rows of the call nor on the
// threads. Each test is named after its case; the thread that reported the bug is quoted beside it.
#include <gtest/gtest.h>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

void copy_rows(Array& to, const Array& from, Index batches, Index rows, Index first) {
  for (Index b = 0; b < batches; ++b)
    for (Index i = 0; i < rows; ++i)
      for (Index h = 0; h < to.shape(2); ++h)
        for (Index d = 0; d < to.shape(3); ++d) to.set(from.get(0, first + i, h, d), b, i, h, d);
}

void expect_equal_row(const Case& a, Index b, Index i, const Case& full, Index row) {
  for (Index h = 0; h < a.shape.q_heads; ++h) {
    ASSERT_EQ(a.lse.get(b, h, i), full.lse.get(0, h, row)) << place(b, h, i);
    ASSERT_EQ(a.entropy.get(b, h, i), full.entropy.get(0, h, row)) << place(b, h, i);
    ASSERT_EQ(a.logit_deviation.get(b, h, i), full.logit_deviation.get(0, h, row)) << place(b, h, i);
    ASSERT_EQ(a.largest_weight.get(b, h, i), full.largest_weight.get(0, h, row)) << place(b, h, i);
    for (Index d = 0; d < a.shape.value_dim; ++d)
      ASSERT_EQ(a.out.get(b, i, h, d), full.out.get(0, row, h, d)) << place(b, h, i, d);
  }
}

// mlx#3573, TabPFN#800, flash-attention#1897, vllm#53257: row 0 of a chunk of new rows over a cache, causal. The row is
// computed once in a prefill of all 160 rows and again in chunks of 1 … 17 rows, alone and in a batch.
TEST(A6_Invariance, A6_4_RowKeepsItsBitsForEveryNumberOfRows) {
  constexpr Index kKeys = 160, kFirst = 137;
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = kKeys, .keys = kKeys, .q_heads = 4, .kv_heads = 2, .head_dim = 40, .value_dim = 24};
    Case full(shape, s.dtype);
    full.options.isa = s.isa, full.options.causal = true;
    full.fill_normal(81);
    ASSERT_TRUE(full.run().ok());
    for (Index rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17}) {
      for (Index batch : {1, 3}) {
        Shape chunk = shape;
        chunk.batch = batch, chunk.queries = rows, chunk.keys = kFirst + rows;
        Case c(chunk, s.dtype, batch == 1 ? Layout::bshd : Layout::bhsd);
        c.options = full.options;
        copy_rows(c.q, full.q, batch, rows, kFirst);
        copy_rows(c.k, full.k, batch, chunk.keys, 0), copy_rows(c.v, full.v, batch, chunk.keys, 0);
        ASSERT_TRUE(c.run().ok());
        for (Index b = 0; b < batch; ++b)
          for (Index i = 0; i < rows; ++i) expect_equal_row(c, b, i, full, kFirst + i);
        if (::testing::Test::HasFatalFailure()) FAIL() << rows << " rows, batch " << batch;
      }
    }
  }
}

// The same over several chunks of keys (512), where a decode step and a prefill may split the work differently.
TEST(A6_Invariance, A6_4_DecodeOverALongCacheEqualsPrefill) {
  constexpr Index kKeys = 1300;
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = 40, .keys = kKeys, .q_heads = 2, .kv_heads = 1, .head_dim = 16, .value_dim = 16};
    Case full(shape, s.dtype);
    full.options.isa = s.isa, full.options.causal = true;
    full.fill_normal(82);
    ASSERT_TRUE(full.run().ok());
    for (Index row : {0, 17, 39}) {
      Shape one = shape;
      one.queries = 1, one.keys = kKeys - 39 + row;
      for (int threads : {1, 4}) {
        Case c(one, s.dtype);
        c.options = full.options, c.options.threads = threads;
        copy_rows(c.q, full.q, 1, 1, row), copy_rows(c.k, full.k, 1, one.keys, 0), copy_rows(c.v, full.v, 1, one.keys, 0);
        ASSERT_TRUE(c.run().ok());
        expect_equal_row(c, 0, 0, full, row);
        if (::testing::Test::HasFatalFailure()) FAIL() << "row " << row << ", threads " << threads;
      }
    }
  }
}

// A head keeps its bits whatever the number of heads beside it and however they share keys.
TEST(A6_Invariance, A6_4_HeadKeepsItsBitsForEveryNumberOfHeads) {
  FT_FOR_EACH_SETTING(s) {
    for (Index kv_heads : {1, 2, 4, 8}) {
      Case all({.queries = 5, .keys = 150, .q_heads = 8, .kv_heads = kv_heads, .head_dim = 24, .value_dim = 16}, s.dtype);
      all.options.isa = s.isa;
      all.fill_normal(83);
      ASSERT_TRUE(runs_right(all));
      for (Index h = 0; h < 8; ++h) {
        Case one({.queries = 5, .keys = 150, .head_dim = 24, .value_dim = 16}, s.dtype);
        one.options.isa = s.isa;
        for (Index d = 0; d < 24; ++d) {
          for (Index i = 0; i < 5; ++i) one.q.set(all.q.get(0, i, h, d), 0, i, 0, d);
          for (Index j = 0; j < 150; ++j) {
            one.k.set(all.k.get(0, j, h / (8 / kv_heads), d), 0, j, 0, d);
            if (d < 16) one.v.set(all.v.get(0, j, h / (8 / kv_heads), d), 0, j, 0, d);
          }
        }
        ASSERT_TRUE(one.run().ok());
        for (Index i = 0; i < 5; ++i) {
          ASSERT_EQ(one.lse.get(0, 0, i), all.lse.get(0, h, i)) << place(0, h, i);
          for (Index d = 0; d < 16; ++d) ASSERT_EQ(one.out.get(0, i, 0, d), all.out.get(0, i, h, d)) << place(0, h, i, d);
        }
      }
    }
  }
}

// llama.cpp#95, pytorch#88718: the number of threads changed results.
TEST(A6_Invariance, A6_5_ThreadsChangeNoBit) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shapes[] = {
        {.batch = 2, .queries = 37, .keys = 90, .q_heads = 3, .kv_heads = 3, .head_dim = 16, .value_dim = 16},
        {.queries = 1, .keys = 2100, .q_heads = 2, .kv_heads = 1, .head_dim = 16, .value_dim = 16},
    };
    for (const Shape& shape : shapes) {
      Case one(shape, s.dtype), many(shape, s.dtype);
      for (Case* c : {&one, &many}) c->options.isa = s.isa, c->options.causal = true, c->fill_normal(84);
      one.options.threads = 1;
      ASSERT_TRUE(one.run().ok());
      for (int threads = 2; threads <= 9; ++threads) {
        many.options.threads = threads;
        ASSERT_TRUE(many.run().ok());
        for (std::size_t n = 0; n < one.written().size(); ++n)
          EXPECT_TRUE(same_bits(*one.written()[n], *many.written()[n])) << threads << " threads, output " << n;
      }
    }
  }
}

// The same question one level down: shares of a plan, run backwards and one after another.
TEST(A6_Invariance, A6_5_SharesOfAPlanRunInAnyOrderChangeNoBit) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.batch = 2, .queries = 37, .keys = 90, .q_heads = 3, .kv_heads = 3, .head_dim = 16, .value_dim = 16}, s.dtype);
    c.options.isa = s.isa, c.options.causal = true;
    c.fill_normal(85);
    ASSERT_TRUE(c.run().ok());
    std::vector<std::vector<double>> want;
    for (Array* a : c.written()) want.push_back(a->values());
    const Plan plan = c.planned();
    const Tensors tensors = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired());
    for (int workers : {1, 2, 5, 16}) {
      for (Array* a : c.written()) a->poison();
      const GuardedBytes workspace(workspace_bytes(plan, workers));
      for (int worker = workers - 1; worker >= 0; --worker) {
        const Status status = run(plan, tensors, workspace.data(), workspace.size(), worker, workers);
        ASSERT_TRUE(status.ok()) << status.text;
      }
      EXPECT_TRUE(workspace.guards_intact());
      for (std::size_t n = 0; n < want.size(); ++n) EXPECT_EQ(c.written()[n]->values(), want[n]) << workers << ", " << n;
    }
  }
}

}  // namespace
}  // namespace flashtile::testing
