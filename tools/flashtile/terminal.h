// What a terminal gets beyond plain text: colour on standard output, progress on standard error. Pipes get neither.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace flashtile::cli {

/// Escape sequences, all empty unless standard output is a terminal, TERM is not "dumb" and NO_COLOR is unset.
struct Style {
  std::string_view bold, dim, good, bad, end;
};
const Style& style();

/// A line on standard error that says how far long work has come; nothing at all when the work takes less than a second
/// or standard error is no terminal. The line is wiped at the end.
class Progress {
 public:
  /// total: number of steps; 0 when unknown, then only the seconds are shown.
  Progress(std::string label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(std::int64_t n = 1) { done_.fetch_add(n, std::memory_order_relaxed); }  // from any thread

 private:
  void show();

  const std::string label_;
  const std::int64_t total_;
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace flashtile::cli
