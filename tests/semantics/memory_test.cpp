// What is read and written: inputs that end or begin at a page that may not be touched, outputs written whole and nothing
// beside them, workspace of exactly the stated size whose content does not matter, and no memory that grows with Sq · Sk.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>

#include "support/compare.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

constexpr Index kDims[][2] = {{1, 3}, {7, 17}, {16, 16}, {31, 33}, {64, 40}, {65, 64}, {96, 130}};

TEST(Memory, NothingOutsideTheArraysIsTouchedAndEveryOutputIsWritten) {
  FT_FOR_EACH_SETTING(s) {
    int n = 0;
    for (const auto& dims : kDims)
      for (Layout layout : {Layout::bshd, Layout::bhsd, Layout::padded})
        for (Placement::Edge edge : {Placement::Edge::begin, Placement::Edge::end}) {
          if (small_grid() && ++n % 5 != 0) continue;
          Case c({.batch = 2, .queries = 37, .keys = 71, .q_heads = 2, .head_dim = dims[0], .value_dim = dims[1]}, s.dtype,
                 layout, {edge, 0});
          c.fill_normal(3);
          c.options.isa = s.isa, c.options.causal = layout != Layout::bhsd;
          ASSERT_TRUE(runs_right(c));  // poison left in an output is a NaN, which agrees with no number
        }
  }
}

/// All shares, one after the other, in the workspace given.
void run_in(Case& c, const GuardedBytes& workspace, int workers) {
  const Options o = c.wired();
  const Plan p = plan(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o);
  const Tensors t = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o);
  for (int w = 0; w < workers; ++w) ASSERT_TRUE(run(p, t, workspace.data(), workspace.size(), w, workers).ok());
}

TEST(Memory, TheWorkspaceIsAsLargeAsStatedAndItsContentDoesNotMatter) {
  FT_FOR_EACH_SETTING(s)
  for (int workers : {1, 3})
    for (int kind = small_grid() ? workers : 0; kind < 4; ++kind) {  // reduced: 1, 2, 3 and 3
      Case poisoned({.batch = 1, .queries = 70, .keys = 600, .q_heads = 4, .kv_heads = 2, .head_dim = 33, .value_dim = 70},
                    s.dtype);
      poisoned.fill_normal(9);
      poisoned.options.isa = s.isa, poisoned.options.causal = kind == 1;
      poisoned.outputs = kind == 2 ? Outputs::out : Outputs::all;
      if (kind == 3) poisoned.mask = Array(DType::f32, {1, 1, 70, 600}), poisoned.mask.fill_normal(2);
      const Plan p = poisoned.planned();
      GuardedBytes workspace(workspace_bytes(p, workers));
      run_in(poisoned, workspace, workers);
      const std::vector<double> out = poisoned.out.values();
      std::vector<std::vector<double>> all;
      for (Array* a : poisoned.written()) all.push_back(a->values()), a->poison();
      std::memset(workspace.data(), 0, workspace.size());
      run_in(poisoned, workspace, workers);
      for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], poisoned.written()[i]->values()) << "output " << i;
      ASSERT_TRUE(workspace.guards_intact());
      for (double x : out) ASSERT_EQ(x, x);
    }
}

TEST(Memory, TheWorkspaceDoesNotGrowWithTheSquareOfTheSequence) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const auto bytes = [&](Index s) {
      SparseBytes memory(static_cast<std::size_t>(s) * 64 * size_of(dtype));
      EXPECT_TRUE(memory.valid());
      Tensor x;
      x.data = memory.data(), x.dtype = dtype, x.rank = 4;
      const Index shape[4] = {1, s, 1, 64}, strides[4] = {s * 64, 64, 64, 1};
      for (int i = 0; i < 4; ++i) x.shape[i] = shape[i], x.stride[i] = strides[i];
      SparseBytes other(static_cast<std::size_t>(s) * 64 * size_of(dtype));
      Tensor out = x;
      out.data = other.data();
      Plan p;
      EXPECT_TRUE(try_plan(x, x, x, out, {}, p).ok());
      return workspace_bytes(p, 1);
    };
    EXPECT_LE(bytes(262144), 2 * bytes(4096));
    EXPECT_LT(bytes(262144), std::size_t{32} << 20);
  }
}

TEST(Memory, AnOutputOfTwoRowsInOnePlaceIsRefused) {
  Case c({.batch = 1, .queries = 2, .keys = 3});
  c.fill_normal(1), c.outputs = Outputs::out;
  Tensor out = c.out.view();
  out.stride[1] = 0;
  const Status status = try_attention(c.q.view(), c.k.view(), c.v.view(), out, c.wired());
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::strstr(status.text, "out.stride[1] = 0 over 2 elements"), nullptr) << status.text;
}

TEST(Memory, AThreadWithASmallStackIsEnough) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.batch = 1, .queries = 100, .keys = 700, .q_heads = 2, .head_dim = 96, .value_dim = 96}, s.dtype);
    c.fill_normal(4);
    c.options.isa = s.isa, c.options.threads = 1, c.options.causal = true, c.options.softcap = 9;
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
    pthread_t thread;
    const auto body = [](void* context) -> void* { return static_cast<Case*>(context)->run().ok() ? context : nullptr; };
    ASSERT_EQ(pthread_create(&thread, &attributes, body, &c), 0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    pthread_attr_destroy(&attributes);
    ASSERT_EQ(result, &c);
    ASSERT_TRUE(agrees(c, default_tolerance(c)));
  }
}

}  // namespace
}  // namespace flashtile::testing
