// The pool in processes that fork, exit, or may not have threads.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <vector>

#include "support/shares.h"

namespace flashtile::testing {
namespace {

TEST(Threads, AForkedChildMakesWorkersOfItsOwn) {
  if (const std::string reason = no_threads_in_children(); !reason.empty()) GTEST_SKIP() << reason;
  Tally warm(3, 100);
  ASSERT_TRUE(warm.run());
  EXPECT_TRUE(in_child([] {
    for (int i = 0; i < 20; ++i) {
      Tally tally(3, 100);
      if (!tally.run()) return false;
    }
    struct Pair {
      std::atomic<int> begun{0};
    } pair;
    run_shares(
        2, 2,
        [](void* context, int, std::int64_t) noexcept {
          Pair& p = *static_cast<Pair*>(context);
          ++p.begun;
          while (p.begun < 2) sched_yield();
        },
        &pair);
    return in_child([] { return Tally(2, 50).run(); });  // and a grandchild
  }));
  Tally after(3, 100);
  EXPECT_TRUE(after.run());
}

TEST(Threads, AChildForkedWhileOthersAreInsideTheirCallsWorks) {
  if (const std::string reason = no_threads_in_children(); !reason.empty()) GTEST_SKIP() << reason;
  std::atomic<bool> stop{false};
  std::atomic<int> incomplete{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 2; ++c)
    callers.emplace_back([&] {
      while (!stop) {
        Tally tally(3, 40);
        if (!tally.run()) ++incomplete;
      }
    });
  int failed = 0;
  for (int i = 0; i < 30; ++i)
    if (!in_child([] {
          // Static: no allocation in the child, where a sanitizer's allocator may be held by a
          // thread that is gone.
          static std::atomic<int> ran[100];
          run_shares(3, 100, [](void*, int, std::int64_t share) noexcept { ++ran[share]; }, nullptr);
          for (const auto& times : ran)
            if (times != 1) return false;
          return true;
        }))
      ++failed;
  stop = true;
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(incomplete, 0);
}

TEST(Threads, AChildForkedInsideAShareCanCall) {
  std::atomic<int> failed{0};
  run_shares(
      2, 4,
      [](void* context, int, std::int64_t) noexcept {
        if (!in_child([] { return Tally(3, 50).run(); })) ++*static_cast<std::atomic<int>*>(context);
      },
      &failed);
  EXPECT_EQ(failed, 0);
}

TEST(Threads, WithoutMoreThreadsTheCallerDoesItAlone) {
  if (const std::string reason = no_threads_in_children(); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_TRUE(in_child([] {
    const rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return false;
    if (geteuid() == 0 && setuid(65534) != 0) return false;  // root is above the limit
    Tally tally(4, 100);
    return tally.run() && tally.plain[0] == 100;
  }));
}

TEST(Threads, AProcessMayExitFromInsideAShareAndUnderAnothersCall) {
#if !defined(FT_TSAN)
  if (const std::string reason = no_threads_in_children(); !reason.empty()) GTEST_SKIP() << reason;
#endif
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // a process of its own, not a forked copy of this one
  EXPECT_EXIT(
      {
        static std::atomic<int> begun{0};
        run_shares(
            2, 2,
            [](void*, int, std::int64_t share) noexcept {
              ++begun;
              while (begun < 2) sched_yield();
              if (share == 1) exit(0);
              for (;;) pause();
            },
            nullptr);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace flashtile::testing
