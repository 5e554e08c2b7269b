// What the tests of the thread pool share: counting shares, and children that start threads.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "run/threads.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FT_TSAN 1
#define FT_SANITIZED 1
#elif __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define FT_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FT_TSAN 1
#define FT_SANITIZED 1
#elif defined(__SANITIZE_ADDRESS__)
#define FT_SANITIZED 1
#endif

namespace flashtile::testing {

/// Counts how often each share ran, and whether two shares of one worker ever overlapped.
struct Tally {
  explicit Tally(int threads_, std::int64_t shares_)
      : threads(threads_),
        shares(shares_),
        ran(new std::atomic<int>[static_cast<std::size_t>(shares_)]()),
        busy(new std::atomic<bool>[1024]()) {}

  static void body(void* context, int worker, std::int64_t share) noexcept {
    Tally& t = *static_cast<Tally*>(context);
    if (worker < 0 || worker >= t.threads || share < 0 || share >= t.shares) {
      t.wrong = true;
      return;
    }
    if (t.busy[worker].exchange(true)) t.wrong = true;
    t.ran[share].fetch_add(1);
    ++t.plain[worker];  // not atomic: a data race if two shares of one worker overlapped
    t.busy[worker].store(false);
  }
  bool run() {
    run_shares(threads, shares, body, this);
    return complete();
  }
  bool complete() const {
    std::int64_t total = 0;
    for (int w = 0; w < 1024; ++w) total += plain[w];
    for (std::int64_t i = 0; i < shares; ++i)
      if (ran[i] != 1) return false;
    return !wrong && total == shares;
  }

  int threads;
  std::int64_t shares;
  std::unique_ptr<std::atomic<int>[]> ran;
  std::unique_ptr<std::atomic<bool>[]> busy;
  std::int64_t plain[1024] = {};
  std::atomic<bool> wrong{false};
};

/// Runs `test` in a forked child, which is killed if it hangs; true when it returned true.
template <class Test>
bool in_child(const Test& test) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);
    _exit(test() ? 0 : 1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/// Why children that start threads cannot be tested here; empty where they can. It is not the pool
/// that is tried.
inline std::string no_threads_in_children() {
#if defined(FT_TSAN)
  return "the thread sanitizer does not support threads started after a fork";
#endif
  std::thread([] {}).join();
  const bool works = in_child([] {
    std::thread([] {}).join();
    return true;
  });
  return works ? "" : "this emulator cannot start threads in a forked child";
}

}  // namespace flashtile::testing
