// Who computes what, read off plans: shares that are even, complete and in order, and strips of neighbouring rows.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "support/case.h"

namespace flashtile::testing {
namespace {

struct Cut {
  Problem problem;
  TileShape shape;
  Work work;
};

/// The plan's parts for a case; only shapes matter.
Cut cut(const Case& c, int threads) {
  Cut x;
  EXPECT_TRUE(try_problem(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired(), x.problem).ok());
  x.shape = choose_tile_shape(x.problem, threads);
  EXPECT_TRUE(make_work(x.problem, x.shape, x.work));
  return x;
}

Index cost_of(const Work& work, TaskRange r) { return work.cost[r.end] - work.cost[r.begin]; }

/// Without column sums, for which a head is one task.
void for_each_kind(const std::function<void(const char*, const Case&)>& body) {
  Case causal({.batch = 1, .queries = 5000, .keys = 5000, .head_dim = 2, .value_dim = 2});
  causal.options.causal = true, causal.outputs = Outputs::lse;
  body("causal", causal);
  Case grouped({.batch = 3, .queries = 700, .keys = 700, .q_heads = 8, .kv_heads = 2, .head_dim = 2, .value_dim = 2});
  grouped.options.causal = true, grouped.outputs = Outputs::lse;
  body("grouped causal", grouped);
  std::vector<Index> bounds{0};
  for (Index n : {17, 2048, 1, 900, 0, 333, 1500, 64, 2000}) bounds.push_back(bounds.back() + n);
  Case ragged({1, bounds.back(), bounds.back(), 4, 4, 2, 2}, bounds, bounds, DType::f32);
  ragged.options.causal = true, ragged.outputs = Outputs::lse;
  body("ragged causal", ragged);
}

TEST(Plan, WorkersDifferByAtMostThreePercent) {
  for_each_kind([](const char* name, const Case& c) {
    for (int workers : {1, 2, 3, 5, 8}) {
      const Cut x = cut(c, workers);
      if (x.work.tasks.size() < 32 * workers) continue;
      Index least = cost_of(x.work, tasks_of(x.work, 0, workers)), most = least;
      for (int w = 1; w < workers; ++w) {
        const Index cost = cost_of(x.work, tasks_of(x.work, w, workers));
        least = smaller(least, cost), most = larger(most, cost);
      }
      EXPECT_LE(static_cast<double>(most), 1.03 * static_cast<double>(least)) << name << ", " << workers << " workers";
    }
  });
}

TEST(Plan, SharesFollowEachOtherWithoutGapOrOverlap) {
  for_each_kind([](const char* name, const Case& c) {
    for (int n : {1, 2, 3, 7, 64}) {
      const Cut x = cut(c, n);
      Index next = 0;
      for (int w = 0; w < n; ++w) {
        const TaskRange r = tasks_of(x.work, w, n);
        EXPECT_EQ(r.begin, next) << name;
        next = r.end;
      }
      EXPECT_EQ(next, x.work.tasks.size()) << name;
      next = 0;
      for (Index s = 0; s < guided_shares(n); ++s) {
        const TaskRange r = guided_tasks_of(x.work, s, n);
        EXPECT_EQ(r.begin, next) << name << ", share " << s << " for " << n;
        next = r.end;
      }
      EXPECT_EQ(next, x.work.tasks.size()) << name;
    }
  });
}

TEST(Plan, GuidedSharesBeginLargeAndEndSmall) {
  for_each_kind([](const char* name, const Case& c) {
    const Cut x = cut(c, 2);
    const double all = static_cast<double>(x.work.cost[x.work.tasks.size()]);
    const auto part = [&](Index share) {
      return static_cast<double>(cost_of(x.work, guided_tasks_of(x.work, share, 2))) / all;
    };
    EXPECT_NEAR(part(0), 0.25, 0.02) << name;
    EXPECT_NEAR(part(1), 0.25, 0.02) << name;
    EXPECT_NEAR(part(2), 0.125, 0.02) << name;
    EXPECT_LT(part(guided_shares(2) - 1), 0.05) << name;
  });
}

TEST(Plan, StripsAreNeighbouringRowsOfOneHead) {
  for_each_kind([](const char* name, const Case& c) {
    const Cut x = cut(c, 2);
    Index next = 0, strips = 0;
    while (next < x.work.tasks.size()) {
      const Index first = next;
      const Task& task = x.work.tasks[first];
      const Task strip = strip_from(x.work, x.shape, next, x.work.tasks.size());
      ++strips;
      EXPECT_EQ(strip.row, task.row) << name;
      EXPECT_LE(strip.rows, x.shape.strip_rows) << name;
      Index rows = 0;
      for (Index i = first; i < next; ++i) {
        EXPECT_EQ(x.work.tasks[i].sequence, strip.sequence) << name;
        EXPECT_EQ(x.work.tasks[i].kv_head, strip.kv_head) << name;
        EXPECT_EQ(x.work.tasks[i].row, strip.row + rows) << name;
        rows += x.work.tasks[i].rows;
      }
      EXPECT_EQ(rows, strip.rows) << name;
    }
    EXPECT_LT(strips, x.work.tasks.size()) << name;
  });
}

}  // namespace
}  // namespace flashtile::testing
