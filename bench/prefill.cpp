// Forward over many queries beside the machine's own FMA peak, in one run: kernel and peak alternate every few
// milliseconds on the same threads, so that a busy neighbour slows both. Prints shares of peak; decides nothing.
//
//   flashtile_bench_prefill [--threads N] [--rounds N]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "bench/peak.h"
#include "flashtile/flashtile.h"
#include "problem/number.h"
#include "run/threads.h"

namespace flashtile::bench {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Work {
  const char* name;
  DType dtype;
  std::int64_t batch, rows, heads, kv_heads, dim;
  bool causal;
};

constexpr Work kWork[] = {
    {"fp32 1x2048x8x64", DType::f32, 1, 2048, 8, 8, 64, false},
    {"fp32 1x2048x8x128", DType::f32, 1, 2048, 8, 8, 128, false},
    {"fp32 1x2048x8x128 causal", DType::f32, 1, 2048, 8, 8, 128, true},
    {"fp32 4x512x8x64 causal", DType::f32, 4, 512, 8, 8, 64, true},
    {"bf16 1x2048x8x128", DType::bf16, 1, 2048, 8, 8, 128, false},
    {"bf16 1x2048x8x128 causal", DType::bf16, 1, 2048, 8, 8, 128, true},
    {"bf16 4x512x8x64 causal", DType::bf16, 4, 512, 8, 8, 64, true},
    {"fp16 1x2048x8x128", DType::f16, 1, 2048, 8, 8, 128, false},
    {"fp32 1x2048x32/8x128 causal", DType::f32, 1, 2048, 32, 8, 128, true},
};

/// Normal numbers in the storage type: never zeros, which some machines multiply faster.
struct Operand {
  std::vector<float> wide;
  std::vector<std::uint16_t> narrow;
  DType dtype;
  Tensor tensor;

  Operand(DType t, std::initializer_list<std::int64_t> shape, unsigned seed) : dtype(t) {
    std::int64_t n = 1;
    for (std::int64_t e : shape) n *= e;
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    wide.resize(static_cast<std::size_t>(n));
    for (float& x : wide) x = normal(generator);
    tensor = view(wide.data(), shape);
    if (t == DType::f32) return;
    for (float x : wide) narrow.push_back(t == DType::bf16 ? to_bf16(x).bits : to_f16(x).bits);
    tensor.data = narrow.data(), tensor.dtype = t;
  }
};

/// GFLOP/s of the peak loop on all threads, about a millisecond.
double peak_rate(Peak peak, int threads, long rounds) {
  struct Call {
    Peak peak;
    long rounds;
    std::atomic<double> operations{0};
  } call{peak, rounds, {}};
  const double start = seconds();
  run_shares(
      threads, threads,
      [](void* context, int, std::int64_t) noexcept {
        Call& c = *static_cast<Call*>(context);
        c.operations.fetch_add(c.peak(c.rounds));
      },
      &call);
  return call.operations / (seconds() - start) * 1e-9;
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

void measure(const Work& w, Isa isa, Peak peak, int threads, int rounds) {
  Operand q(w.dtype, {w.batch, w.rows, w.heads, w.dim}, 1), k(w.dtype, {w.batch, w.rows, w.kv_heads, w.dim}, 2);
  Operand v(w.dtype, {w.batch, w.rows, w.kv_heads, w.dim}, 3), out(w.dtype, {w.batch, w.rows, w.heads, w.dim}, 4);
  Options options;
  options.causal = w.causal, options.isa = isa, options.threads = threads,
  options.arithmetic = isa == Isa::amx ? Arithmetic::amx : Arithmetic::fma;
  const Plan planned = plan(q.tensor, k.tensor, v.tensor, out.tensor, options);
  const double flops = planned.facts().flops;
  long peak_rounds = 1000;
  while (peak_rounds < (1L << 40)) {  // a few milliseconds of peak
    const double start = seconds();
    peak(peak_rounds);
    if (seconds() - start > 2e-3) break;
    peak_rounds *= 2;
  }
  std::vector<double> ours, limit, share;
  attention(q.tensor, k.tensor, v.tensor, out.tensor, options);
  for (int r = 0; r < rounds; ++r) {
    const double before = peak_rate(peak, threads, peak_rounds);
    const double start = seconds();
    attention(q.tensor, k.tensor, v.tensor, out.tensor, options);
    const double rate = flops / (seconds() - start) * 1e-9;
    const double after = peak_rate(peak, threads, peak_rounds);
    ours.push_back(rate), limit.push_back(std::max(before, after)), share.push_back(rate / limit.back());
  }
  std::printf("| %-28s | %-7s | %7.1f | %7.1f | %7.1f | %5.0f %% | %5.0f %% |\n", w.name, planned.facts().isa,
              *std::max_element(ours.begin(), ours.end()), median(ours), *std::max_element(limit.begin(), limit.end()),
              100 * *std::max_element(ours.begin(), ours.end()) / *std::max_element(limit.begin(), limit.end()),
              100 * median(share));
  std::fflush(stdout);
}

}  // namespace
}  // namespace flashtile::bench

int main(int argc, char** argv) {
  using namespace flashtile;
  int threads = machine_report().threads, rounds = 15;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
    else if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    else return std::fprintf(stderr, "flashtile_bench_prefill: %s; expected --threads or --rounds\n", argv[i]), 2;
  }
  if (threads < 1 || rounds < 1) return std::fprintf(stderr, "flashtile_bench_prefill: expected counts of 1 or more\n"), 2;
  std::printf("%s, %d threads. GFLOP/s over visible pairs; peak: FMA from registers, same threads, alternating.\n\n",
              machine_report().cpu, threads);
  std::printf("| %-28s | %-7s | %7s | %7s | %7s | %7s | %7s |\n", "B×S×H×D", "isa", "best", "median", "peak", "best",
              "median");
  std::printf("|------------------------------|---------|--------:|--------:|--------:|--------:|--------:|\n");
  IsaReport reports[8];
  const int n = std::min(isa_reports(reports, 8), 8);
  for (int i = 0; i < n; ++i) {
    bench::Peak peak = nullptr;
#if defined(__x86_64__)
    if (reports[i].isa == Isa::amx) peak = bench::peak_amx;
    if (reports[i].isa == Isa::avx512) peak = bench::peak_avx512;
    if (reports[i].isa == Isa::avx2) peak = bench::peak_avx2;
#endif
#if defined(__aarch64__)
    if (reports[i].isa == Isa::neon) peak = bench::peak_neon;
#endif
    if (peak == nullptr || !reports[i].available) continue;
    for (const bench::Work& w : bench::kWork)
      if (reports[i].isa != Isa::amx || w.dtype == DType::bf16) bench::measure(w, reports[i].isa, peak, threads, rounds);
  }
}
