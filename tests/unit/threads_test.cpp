// The pool runs every share exactly once, whoever calls, from where, and how many at a time.
#include "run/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "run/machine.h"
#include "support/shares.h"

namespace flashtile::testing {
namespace {

std::int64_t from_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1));
  return -1;
}

TEST(Threads, EachShareRunsExactlyOnceForAnyNumberOfThreads) {
  for (int threads = 1; threads <= 9; ++threads)
    for (std::int64_t shares : {0, 1, 2, 3, 7, 8, 9, 10, 100, 5000}) {
      Tally tally(threads, shares);
      EXPECT_TRUE(tally.run()) << threads << " threads, " << shares << " shares";
    }
}

TEST(Threads, SenselessNumbersRunOnTheCallerOrNotAtAll) {
  Tally tally(1, 3);
  run_shares(0, 3, Tally::body, &tally);
  EXPECT_TRUE(tally.complete());
  Tally negative(1, 3);
  run_shares(-7, 3, Tally::body, &negative);
  EXPECT_TRUE(negative.complete());
  run_shares(4, 0, nullptr, nullptr);
  run_shares(4, -1, nullptr, nullptr);
}

TEST(Threads, SharesAreBegunInAscendingOrder) {
  struct Order {
    std::atomic<std::int64_t> next{0};
    std::vector<std::int64_t> of_worker[4];
  } order;
  run_shares(
      4, 4000,
      [](void* context, int worker, std::int64_t share) noexcept {
        static_cast<Order*>(context)->of_worker[worker].push_back(share);
      },
      &order);
  std::size_t total = 0;
  for (const auto& mine : order.of_worker) {
    total += mine.size();
    for (std::size_t i = 1; i < mine.size(); ++i) ASSERT_LT(mine[i - 1], mine[i]);
  }
  EXPECT_EQ(total, 4000u);
}

TEST(Threads, SeveralThreadsReallyWorkAndEachHasItsNumber) {
  // Four shares that wait until all have begun: only four threads can finish that.
  struct Meeting {
    std::atomic<int> begun{0};
    std::atomic<int> with_number[4] = {};
  } meeting;
  run_shares(
      4, 4,
      [](void* context, int worker, std::int64_t) noexcept {
        Meeting& m = *static_cast<Meeting*>(context);
        ++m.with_number[worker];
        ++m.begun;
        while (m.begun < 4) sched_yield();
      },
      &meeting);
  for (const auto& shares : meeting.with_number) EXPECT_EQ(shares, 1);
}

TEST(Threads, TheCallerWaitsForSharesThatOthersBegan) {
  struct Slow {
    std::atomic<int> begun{0}, done{0};
  };
  for (int round = 0; round < 20; ++round) {
    Slow slow;
    run_shares(
        2, 2,
        [](void* context, int worker, std::int64_t) noexcept {
          Slow& s = *static_cast<Slow*>(context);
          ++s.begun;
          while (s.begun < 2) sched_yield();
          for (int i = 0; worker != 0 && i < 2000; ++i) sched_yield();  // the caller's share ends long before
          ++s.done;
        },
        &slow);
    ASSERT_EQ(slow.done, 2);
  }
}

TEST(Threads, WhatSharesWroteIsVisibleToTheCaller) {
  std::vector<std::int64_t> squares(1000);
  for (int round = 0; round < 200; ++round) {
    std::fill(squares.begin(), squares.end(), -1);
    run_shares(
        3, 1000,
        [](void* context, int, std::int64_t i) noexcept {
          (*static_cast<std::vector<std::int64_t>*>(context))[static_cast<std::size_t>(i)] = i * i;
        },
        &squares);
    for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(squares[static_cast<std::size_t>(i)], i * i);
  }
}

TEST(BugCases, A9_4_ACallFromInsideAShareRunsOnTheSameThread) {
  struct Outer {
    std::atomic<int> inner{0}, elsewhere{0};
    pthread_t caller[16];
  } outer;
  run_shares(
      4, 16,
      [](void* context, int, std::int64_t share) noexcept {
        Outer& o = *static_cast<Outer*>(context);
        o.caller[share] = pthread_self();
        struct Inner {
          Outer* outer;
          std::int64_t share;
        } inner{&o, share};
        for (int twice = 0; twice < 2; ++twice)
          run_shares(
              4, 8,
              [](void* c, int worker, std::int64_t) noexcept {
                Inner& i = *static_cast<Inner*>(c);
                ++i.outer->inner;
                if (worker != 0 || pthread_equal(pthread_self(), i.outer->caller[i.share]) == 0) ++i.outer->elsewhere;
              },
              &inner);
      },
      &outer);
  EXPECT_EQ(outer.inner, 16 * 2 * 8);
  EXPECT_EQ(outer.elsewhere, 0);
}

TEST(BugCases, A9_4_ShortLivedCallersLeaveNoThreadsAndNoMemoryBehind) {
  // Twenty callers at a time, each with four threads; the most threads that any of them saw, or −1.
  const auto generation = [] {
    std::vector<std::thread> callers;
    std::atomic<std::int64_t> most{0};
    std::atomic<int> complete{0};
    for (int i = 0; i < 20; ++i)
      callers.emplace_back([&] {
        Tally tally(4, 64);
        if (tally.run()) ++complete;
        const std::int64_t now = from_status("Threads");
        for (std::int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {}
      });
    for (std::thread& t : callers) t.join();
    return complete == 20 ? most.load() : -1;
  };
  ASSERT_GT(generation(), 0);
  const std::int64_t threads = from_status("Threads"), memory = from_status("VmRSS");
  for (int i = 0; i < 10; ++i) {
    const std::int64_t most = generation();
    ASSERT_GT(most, 0);
    // A pool for each caller would be 60 more. The joined may count for a moment yet.
    EXPECT_LE(most, threads + 20 + 8);
  }
  EXPECT_LE(from_status("Threads"), threads + 8);
  EXPECT_LT(threads, 100);  // nobody asked for more
#if defined(FT_SANITIZED)
  (void)memory;  // what a sanitizer keeps is not ours
#else
  const std::int64_t now = from_status("VmRSS");
  if (no_threads_in_children().empty()) {  // nor what an emulator keeps
    EXPECT_LE(now, memory + 4096) << "kB";
  }
#endif
}

TEST(Threads, ConcurrentCallersEachGetAllTheirShares) {
  std::atomic<int> incomplete{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&incomplete, c] {
      for (int round = 0; round < 200; ++round) {
        Tally tally(1 + (c + round) % 5, 1 + (round * 7) % 50);
        if (!tally.run()) ++incomplete;
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(incomplete, 0);
}

TEST(BugCases, A9_3_WorkersUseTheCallersCpusAndTheCallersMaskIsLeftAlone) {
  struct Seen {
    std::atomic<int> begun{0}, other{0};
    Affinity expected;
    static void body(void* context, int, std::int64_t) noexcept {
      Seen& s = *static_cast<Seen*>(context);
      Affinity mine;
      read_affinity(mine);
      if (!(mine == s.expected)) ++s.other;
      ++s.begun;
      while (s.begun < 2) sched_yield();  // both threads take part
    }
  };
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  std::vector<cpu_set_t> sets;
  for (int cpu = 0; cpu < CPU_SETSIZE && sets.size() < 8; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sets.push_back(one);
    sets.push_back(all);
  }
  std::thread([&sets] {  // whose mask dies with it
    for (const cpu_set_t& set : sets) {
      ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
      Seen seen;
      read_affinity(seen.expected);
      ASSERT_EQ(seen.expected.count(), CPU_COUNT(&set));
      EXPECT_EQ(available_threads(seen.expected), available_threads());
      EXPECT_LE(available_threads(), CPU_COUNT(&set));
      run_shares(2, 2, Seen::body, &seen);
      EXPECT_EQ(seen.other, 0);
      Affinity after;
      read_affinity(after);
      EXPECT_TRUE(after == seen.expected);
    }
  })
      .join();
}

}  // namespace
}  // namespace flashtile::testing
