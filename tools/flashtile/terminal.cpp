#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace flashtile::cli {

const Style& style() {
  static const Style chosen = [] {
    const char* const no_color = std::getenv("NO_COLOR");
    const char* const term = std::getenv("TERM");
    const bool refused = no_color != nullptr && *no_color != '\0';
    const bool dumb = term == nullptr || std::string_view(term) == "dumb";
    if (isatty(STDOUT_FILENO) == 0 || refused || dumb) return Style{};
    return Style{"\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"};
  }();
  return chosen;
}

Progress::Progress(std::string label, std::int64_t total) : label_(std::move(label)), total_(total) {
  if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Progress::show() {
  const auto start = std::chrono::steady_clock::now();
  bool shown = false;
  auto pause = std::chrono::milliseconds(1000);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return finished_; })) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::int64_t done = done_.load(std::memory_order_relaxed);
    std::string line = fmt::format("\r{}: {:.0f} s", label_, seconds);
    if (total_ > 0 && done > 0) {
      const double left = seconds * static_cast<double>(total_ - done) / static_cast<double>(done);
      line = fmt::format("\r{}: {:3.0f} %, about {:.0f} s left", label_,
                         100.0 * static_cast<double>(done) / static_cast<double>(total_), left);
    }
    fmt::print(stderr, "{}\033[K", line);
    std::fflush(stderr);
    shown = true;
    pause = std::chrono::milliseconds(200);
  }
  if (shown) fmt::print(stderr, "\r\033[K");
}

}  // namespace flashtile::cli
