// Micro-benchmarks: each stage of the kernels beside what limits it, for each instruction set that this processor has.
//
//   flashtile_stages --benchmark_filter=avx2/score
//
// A stage and its limit take turns of about a millisecond, so that a busy neighbour slows both; Time is that of two turns.
// `rate` and `limit` are the medians of their turns, in what the label says, `share` that of rate by limit, pair by pair.
//
//   score, accumulate   floating-point operations, beside independent fused multiply-adds from registers
//   softmax             weights, beside its arithmetic alone: a maximum, 2^(t − m), a sum
//   pack                bytes read and written, beside copying as many
//   merge               the same, beside adding an array to another
//
// The arrays of copy and add take as much room as the stage's, so they lie in L1 or L2 as those do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/stages/stages.h"
#include "isa/dispatch.h"
#include "plan/tile_shape.h"
#include "problem/number.h"
#include "tests/support/random.h"
#include "tools/roofs/roofs.h"

namespace flashtile::bench {
namespace {

constexpr double kTurn = 5e-4;  // seconds at least; rounds double until then

Stages stages_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return stages_avx512();
  if (isa == Isa::avx2) return stages_avx2();
#endif
#if defined(__aarch64__)
  if (isa == Isa::neon) return stages_neon();
#endif
  return isa == Isa::scalar ? stages_scalar() : Stages{};
}

/// Memory full of uniform random numbers, aligned to a line of the cache.
class Numbers {
 public:
  Numbers(DType dtype, Index n) : lines_(static_cast<std::size_t>(n * size_of(dtype) + 63) / 64) {
    testing::Random random(1);
    for (Index i = 0; i < n; ++i) {
      const auto x = static_cast<float>(random.uniform(-1, 1));
      if (dtype == DType::f32) static_cast<float*>(data())[i] = x;
      if (dtype == DType::bf16) static_cast<bf16*>(data())[i] = to_bf16(x);
      if (dtype == DType::f16) static_cast<f16*>(data())[i] = to_f16(x);
    }
  }
  void* data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

/// A Setting and its memory: a tile of queries and a block of keys of one dtype.
class Block {
 public:
  Block(const Kernels& kernels, DType dtype, Index dim) {
    const auto tensor = [&](void* data, Index rows) {
      Tensor t = view(static_cast<float*>(data), {1, rows, 1, dim});
      t.dtype = dtype;
      return t;
    };
    const Index keys = block_keys(false, dim, dim);
    q_ = std::make_unique<Numbers>(dtype, kTileQueries * dim);
    k_ = std::make_unique<Numbers>(dtype, keys * dim);
    const Tensor q = tensor(q_->data(), kTileQueries), k = tensor(k_->data(), keys);
    if (!try_problem(q, k, k, q, {}, setting_.problem).ok()) std::abort();
    setting_.shape = choose_tile_shape(setting_.problem, 1);
    scratch_ =
        std::make_unique<Numbers>(DType::f32, kernels.scratch_bytes(setting_.problem, setting_.shape) / sizeof(float));
    panel_ = std::make_unique<Numbers>(DType::f32, keys * dim);
    setting_.q = q_->data(), setting_.k = setting_.v = k_->data();
    setting_.scratch = static_cast<std::byte*>(scratch_->data()), setting_.panel = static_cast<float*>(panel_->data());
  }
  const Setting& setting() const { return setting_; }

 private:
  std::unique_ptr<Numbers> q_, k_, scratch_, panel_;
  Setting setting_;
};

/// Something that can be done in rounds, and how much a round does.
class Work {
 public:
  Work(std::function<void(long)> run, double amount) : run_(std::move(run)), amount_(amount) {
    while (seconds(rounds_) < kTurn && rounds_ < 1L << 40) rounds_ *= 2;
  }
  /// Amount a second, of one turn.
  double rate() const { return amount_ * static_cast<double>(rounds_) / seconds(rounds_); }

 private:
  double seconds(long rounds) const {
    const double start = roofs::now();
    run_(rounds);
    return std::max(1e-9, roofs::now() - start);
  }

  std::function<void(long)> run_;
  double amount_;
  long rounds_ = 1;
};

double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

void take_turns(benchmark::State& state, const Work& stage, const Work& limit) {
  std::vector<double> rates, limits, shares;
  for ([[maybe_unused]] auto turn : state) {
    rates.push_back(stage.rate()), limits.push_back(limit.rate());
    shares.push_back(rates.back() / limits.back());
  }
  state.counters["rate"] = median(rates), state.counters["limit"] = median(limits);
  state.counters["share"] = median(shares);
}

enum class Limit { peak, weights, copy, add };

/// A row of the table: which stage, what one round does, and what limits that.
struct Case {
  const char* name;
  Stage Stages::* stage;
  Limit limit;
  double (*amount)(const Problem& p, double queries, double keys);  // of a round
};

double bytes_packed(DType dtype, double numbers) { return numbers * static_cast<double>(size_of(dtype) + 4); }

constexpr Case kCases[] = {
    {"score", &Stages::score, Limit::peak,
     [](const Problem& p, double queries, double keys) { return 2 * queries * keys * static_cast<double>(p.head_dim); }},
    {"softmax", &Stages::softmax, Limit::weights,
     [](const Problem&, double queries, double keys) { return queries * keys; }},
    {"accumulate", &Stages::accumulate, Limit::peak,
     [](const Problem& p, double queries, double keys) { return 2 * queries * keys * static_cast<double>(p.value_dim); }},
    {"merge", &Stages::merge, Limit::add,
     [](const Problem& p, double queries, double) { return 3 * 4 * queries * static_cast<double>(p.value_dim); }},
    {"pack_queries", &Stages::pack_queries, Limit::copy,
     [](const Problem& p, double queries, double) {
       return bytes_packed(p.q.dtype, queries * static_cast<double>(p.head_dim));
     }},
    {"pack_keys", &Stages::pack_keys, Limit::copy,
     [](const Problem& p, double, double keys) { return bytes_packed(p.k.dtype, keys * static_cast<double>(p.head_dim)); }},
    {"pack_values", &Stages::pack_values, Limit::copy,
     [](const Problem& p, double, double keys) { return bytes_packed(p.v.dtype, keys * static_cast<double>(p.value_dim)); }},
};

/// The loop of floating-point operations or of weights.
Work arithmetic(double (*loop)(long rounds)) {
  return Work([loop](long rounds) { loop(rounds); }, loop(1));
}

/// The loop that reads and writes `bytes` in `streams` streams over two arrays.
Work traffic(void (*loop)(const float*, float*, std::int64_t), double streams, double bytes) {
  constexpr Index kUnit = 64, kHalfPage = 2048 / sizeof(float), kPage = 2 * kHalfPage;
  const Index n = static_cast<Index>(bytes / (streams * sizeof(float) * kUnit)) * kUnit;
  // Half a page apart: reads that follow a write to the same place of another page would wait for it.
  const Index second = (n + kPage - 1) / kPage * kPage + kHalfPage;
  const auto memory = std::make_shared<Numbers>(DType::f32, second + n);
  const auto run = [=](long rounds) {
    float* const from = static_cast<float*>(memory->data());
    for (; rounds > 0; --rounds) loop(from, from + second, n);
  };
  return Work(run, streams * sizeof(float) * static_cast<double>(n));
}

void measure(benchmark::State& state, const Case& c, const Implementation& i, DType dtype, Index dim) {
  const Block block(i.kernels(), dtype, dim);
  const Setting& s = block.setting();
  const Stage stage = stages_of(i.isa).*c.stage;
  const roofs::Loops loops = roofs::loops_of(i.isa);
  const double amount = c.amount(s.problem, kTileQueries, s.shape.block_keys);
  const Work work([&](long rounds) { stage(s, rounds); }, amount);
  const auto beside = [&](const char* unit, const Work& limit) {
    state.SetLabel(unit);
    take_turns(state, work, limit);
  };
  switch (c.limit) {
    case Limit::peak: return beside("FLOP/s", arithmetic(loops.peak));
    case Limit::weights: return beside("weights/s", arithmetic(loops.weights));
    case Limit::copy: return beside("B/s", traffic(loops.copy, 2, amount));
    case Limit::add: return beside("B/s", traffic(loops.add, 3, amount));
  }
}

void add(const Case& c, const Implementation& i, DType dtype, Index dim) {
  const std::string name = std::string(i.name) + "/" + c.name + "/" + name_of(dtype) + "/D" + std::to_string(dim);
  benchmark::RegisterBenchmark(name.c_str(), [&c, &i, dtype, dim](auto& state) { measure(state, c, i, dtype, dim); });
}

void add_all() {
  for (const Implementation& i : all_implementations()) {
    if (i.kernels == nullptr || i.why_not(this_cpu()) != nullptr || stages_of(i.isa).score == nullptr) continue;
    for (const Case& c : kCases) {
      const bool packs = std::string(c.name).starts_with("pack");
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
        for (const Index dim : {32, 64, 128})
          if (packs || dtype == DType::f32) add(c, i, dtype, dim);
    }
  }
}

}  // namespace
}  // namespace flashtile::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  flashtile::bench::add_all();
  return benchmark::RunSpecifiedBenchmarks() == 0;
}
