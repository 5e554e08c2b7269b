#include "roofs/roofs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

#include "run/threads.h"

namespace flashtile::roofs {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Loops loops_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::amx) return loops_amx();
  if (isa == Isa::avx512) return loops_avx512();
  if (isa == Isa::avx2) return loops_avx2();
#endif
#if defined(__aarch64__)
  if (isa == Isa::neon) return loops_neon();
#endif
  return isa == Isa::scalar ? loops_scalar() : Loops{};
}

Arithmetic::Arithmetic(Isa isa, int threads) : loops_(loops_of(isa)), threads_(threads) {
  constexpr double kSeconds = 2e-3;
  if (!known()) return;
  for (rounds_ = 1000; rounds_ < (1L << 40); rounds_ *= 2) {
    const double start = now();
    loops_.peak(rounds_);
    if (now() - start > kSeconds / 2) return;
  }
}

double Arithmetic::measure() const {
  if (!known()) return 0;
  struct Call {
    const Arithmetic& roof;
    std::atomic<double> operations{0};
  } call{*this, {}};
  const double start = now();
  run_shares(
      threads_, threads_,
      [](void* context, int, std::int64_t) noexcept {
        Call& c = *static_cast<Call*>(context);
        c.operations.fetch_add(c.roof.loops_.peak(c.roof.rounds_));
      },
      &call);
  return call.operations / (now() - start);
}

Reading::Reading(int threads) : threads_(threads) {
  constexpr std::size_t kLeast = 64 << 20, kMost = 512 << 20;
  const auto wanted = 4 * static_cast<std::size_t>(std::max<std::int64_t>(0, machine_report().l3));
  buffer_.assign(std::clamp(wanted, kLeast, kMost) / sizeof(std::uint64_t), 1);
}

double Reading::measure() const {
  struct Call {
    const std::vector<std::uint64_t>& buffer;
    std::int64_t shares;
    std::atomic<std::uint64_t> sum{0};
  } call{buffer_, 8 * std::int64_t{threads_}, {}};
  const double start = now();
  run_shares(
      threads_, call.shares,
      [](void* context, int, std::int64_t share) noexcept {
        Call& c = *static_cast<Call*>(context);
        const auto n = static_cast<std::int64_t>(c.buffer.size());
        const std::uint64_t* const data = c.buffer.data();
        const std::int64_t begin = n * share / c.shares, end = n * (share + 1) / c.shares;
        std::uint64_t sum = 0;  // integers: the compiler may use many sums and vectors
        for (std::int64_t i = begin; i < end; ++i) sum += data[i];
        c.sum.fetch_add(sum);  // the sum is wanted
      },
      &call);
  return static_cast<double>(buffer_.size() * sizeof(std::uint64_t)) / (now() - start);
}

}  // namespace flashtile::roofs
