// One row, one answer: the bits of a row against everything that may not change them. On every instruction set and dtype,
// and for both families; tests/bugs/a6_invariance.cpp has the public cases.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "support/compare.h"
#include "support/fp_mode.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

constexpr Shape kShape = {
    .batch = 2, .queries = 61, .keys = 150, .q_heads = 4, .kv_heads = 2, .head_dim = 24, .value_dim = 20};

Case plain(const Setting& s, Shape shape = kShape, Layout layout = Layout::bshd, Placement placement = {}) {
  Case c(shape, s.dtype, layout, placement);
  c.fill_normal(5);
  c.options.isa = s.isa;
  return c;
}

/// Row i of `queries` sees keys [begin(i), end(i)); says so in five ways.
template <class Begin, class End>
std::vector<Case> sayings(const Setting& s, const Begin& begin, const End& end) {
  std::vector<Case> all;
  for (int way = 0; way < 3; ++way) {
    Case c = plain(s);
    if (way == 0) {
      c.key_begin = Array(DType::i32, {1, kShape.queries}), c.key_end = Array(DType::i32, {1, kShape.queries});
      for (Index i = 0; i < kShape.queries; ++i) c.key_begin.set(begin(i), 0, i), c.key_end.set(end(i), 0, i);
    } else {
      c.mask = Array(way == 1 ? DType::boolean : DType::f32, {1, 1, kShape.queries, kShape.keys});
      for (Index i = 0; i < kShape.queries; ++i)
        for (Index j = 0; j < kShape.keys; ++j) {
          const bool visible = j >= begin(i) && j < end(i);
          c.mask.set(way == 1 ? visible : visible ? 0 : -HUGE_VAL, 0, 0, i, j);
        }
    }
    all.push_back(std::move(c));
  }
  return all;
}

TEST(Invariance, TheSameVisibleKeysSaidInAnyWay) {
  FT_FOR_EACH_SETTING(s) {
    const Index shift = kShape.keys - kShape.queries;
    Case causal = plain(s), window = plain(s);
    causal.options.causal = true;
    window.options.window = {13, 4};
    for (Case& c : sayings(s, [](Index) { return 0; }, [&](Index i) { return i + shift + 1; }))
      ASSERT_TRUE(same_results(causal, c));
    const auto from = [&](Index i) { return std::max<Index>(0, i + shift - 13); };
    const auto to = [&](Index i) { return std::min(kShape.keys, i + shift + 5); };
    for (Case& c : sayings(s, from, to)) ASSERT_TRUE(same_results(window, c));
  }
}

/// out and LSE of rows [from, from + n) of batch entry b of `whole`, head by head, equal those of `part`'s last n rows.
::testing::AssertionResult same_rows(const Case& whole, Index b, Index from, const Case& part, Index n) {
  for (Index i = 0; i < n; ++i)
    for (Index h = 0; h < whole.shape.q_heads; ++h) {
      const Index r = part.shape.queries - n + i;
      if (whole.lse.get(b, h, from + i) != part.lse.get(0, h, r))
        return ::testing::AssertionFailure() << "lse of row " << from + i << ", head " << h;
      for (Index d = 0; d < whole.shape.value_dim; ++d)
        if (whole.out.get(b, from + i, h, d) != part.out.get(0, r, h, d))
          return ::testing::AssertionFailure() << "out of row " << from + i << ", head " << h << ", dim " << d;
    }
  return ::testing::AssertionSuccess();
}

TEST(Invariance, LastRowsOverACacheForAnyNumberOfQueries) {
  FT_FOR_EACH_SETTING(s) {
    Case whole = plain(s);
    whole.options.causal = true;
    ASSERT_TRUE(whole.run().ok());
    for (Index n = 1; n <= 17; n += small_grid() ? 7 : 1) {
      Shape shape = kShape;
      shape.batch = 1, shape.queries = n;
      Case part = plain(s, shape);
      for (Index h = 0; h < shape.q_heads; ++h)
        for (Index i = 0; i < n; ++i)
          for (Index d = 0; d < shape.head_dim; ++d) part.q.set(whole.q.get(1, kShape.queries - n + i, h, d), 0, i, h, d);
      for (Index h = 0; h < shape.kv_heads; ++h)
        for (Index j = 0; j < shape.keys; ++j) {
          for (Index d = 0; d < shape.head_dim; ++d) part.k.set(whole.k.get(1, j, h, d), 0, j, h, d);
          for (Index d = 0; d < shape.value_dim; ++d) part.v.set(whole.v.get(1, j, h, d), 0, j, h, d);
        }
      part.options.causal = true;
      ASSERT_TRUE(part.run().ok());
      ASSERT_TRUE(same_rows(whole, 1, kShape.queries - n, part, n)) << n << " queries";
    }
  }
}

TEST(Invariance, ThreadsLayoutsAndPlacesInMemory) {
  FT_FOR_EACH_SETTING(s) {
    Case want = plain(s);
    for (int threads = 1; threads <= 9; threads += small_grid() ? 4 : 1) {
      Case c = plain(s);
      c.options.threads = threads;
      ASSERT_TRUE(same_results(want, c)) << threads << " threads";
    }
    for (Layout layout : {Layout::bhsd, Layout::padded})
      for (Placement::Edge edge : {Placement::Edge::begin, Placement::Edge::end})
        for (std::size_t shift = 0; shift < 64; shift += small_grid() ? 24 : 8) {
          Case c = plain(s, kShape, layout, {edge, shift});
          c.copy_inputs(want);
          ASSERT_TRUE(same_results(want, c)) << "shift " << shift;
        }
  }
}

TEST(Invariance, SharesInAnyOrderAndOnAnyThread) {
  FT_FOR_EACH_SETTING(s) {
    Case want = plain(s);
    ASSERT_TRUE(want.run().ok());
    for (int workers : {1, 2, 3, 5, 9})
      for (bool threads : {false, true}) {
        Case c = plain(s);
        const Options o = c.wired();
        const Plan p = plan(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o);
        std::vector<std::byte> workspace(workspace_bytes(p, workers), std::byte{0xff});
        const Tensors t = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o);
        std::vector<std::thread> pool;
        for (int w = workers - 1; w >= 0; --w) {
          const auto share = [&, w] { EXPECT_TRUE(run(p, t, workspace.data(), workspace.size(), w, workers).ok()); };
          if (threads) pool.emplace_back(share);
          else share();
        }
        for (std::thread& thread : pool) thread.join();
        for (std::size_t i = 0; i < c.written().size(); ++i)
          ASSERT_TRUE(same_bits(*want.written()[i], *c.written()[i])) << workers << " workers, output " << i;
      }
  }
}

TEST(Invariance, NeighbourRowsAndHiddenKeysOfAnyValue) {
  FT_FOR_EACH_SETTING(s) {
    const double large = s.dtype == DType::f16 ? 6e4 : 1e30;
    Case want = plain(s), c = plain(s);
    want.options.causal = c.options.causal = true;
    ASSERT_TRUE(want.run().ok());
    // Row 20 of the last entry turns wild, and so does the last key, which only the last row may see.
    for (double x : {large, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      for (Index d = 0; d < kShape.head_dim; ++d) c.q.set(x, 1, 20, 2, d), c.k.set(x, 1, kShape.keys - 1, 1, d);
      for (Index d = 0; d < kShape.value_dim; ++d) c.v.set(-x, 1, kShape.keys - 1, 1, d);
      ASSERT_TRUE(c.run().ok());
      for (Index i = 0; i + 1 < kShape.queries; ++i) {
        if (i == 20) continue;
        for (Index h = 0; h < kShape.q_heads; ++h) {
          ASSERT_EQ(want.lse.get(1, h, i), c.lse.get(1, h, i)) << x << " row " << i;
          for (Index d = 0; d < kShape.value_dim; ++d)
            ASSERT_EQ(want.out.get(1, i, h, d), c.out.get(1, i, h, d)) << x << " row " << i << " head " << h;
        }
      }
    }
  }
}

TEST(Invariance, TheCallersFloatingPointModeIsIgnoredAndRestored) {
  if (kModeBits == 0) GTEST_SKIP() << "this processor's floating-point mode is not known to the tests";
  FT_FOR_EACH_SETTING(s) {
    Case want = plain(s), c = plain(s);
    want.k.set(1e-39, 0, 3, 1, 2), c.k.set(1e-39, 0, 3, 1, 2);
    ASSERT_TRUE(want.run().ok());
    for (std::uint64_t bits : {kFlushToZero, kRoundUp, kFlushToZero | kRoundUp}) {
      bool ok = false, restored = false;
      {
        const FpMode mode(bits);
        const std::uint64_t before = fp_mode() & kModeBits;
        ok = c.run().ok();
        restored = (fp_mode() & kModeBits) == before;
      }
      ASSERT_TRUE(ok && restored);
      for (std::size_t i = 0; i < c.written().size(); ++i)
        ASSERT_TRUE(same_bits(*want.written()[i], *c.written()[i])) << "output " << i;
    }
  }
}

TEST(Invariance, WhatElseIsAskedFor) {
  FT_FOR_EACH_SETTING(s) {
    Case all = plain(s), lse = plain(s);
    lse.outputs = Outputs::lse;
    ASSERT_TRUE(all.run().ok());
    ASSERT_TRUE(lse.run().ok());
    ASSERT_TRUE(same_bits(all.out, lse.out));
    ASSERT_TRUE(same_bits(all.lse, lse.lse));
  }
}

}  // namespace
}  // namespace flashtile::testing
