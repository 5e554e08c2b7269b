// One case of `flashtile bench`: the answer is checked, then our kernel, the unfused baseline and the machine's peak take
// turns of a few milliseconds, so that a busy neighbour slows all of them.
#include <algorithm>
#include <cmath>
#include <deque>

#include "bench.h"
#include "failure.h"
#include "inputs.h"
#include "parse.h"
#include "results.h"
#include "roofs/roofs.h"
#include "terminal.h"
#include "unfused.h"

namespace flashtile::cli {
namespace {

constexpr double kTurn = 2e-3;          // seconds that a turn takes at least, if calls are shorter
constexpr double kSeconds = 2;          // that the turns of a case take together, about
constexpr int kFewestRounds = 5, kMostRounds = 40;
constexpr double kCheckedProducts = 1 << 27;  // of the definition: fewer rows are compared where they are long
constexpr double kColdCaches = 2;             // inputs rotate through this many times the last cache
constexpr double kMostColdBytes = 2.0 * (1 << 30);

/// One call's arrays.
struct Arrays {
  Inputs inputs;
  Results results;
  Options options;

  void call() { require(try_attention(inputs.q, inputs.k, inputs.v, results.out_view, options)); }
};

void fill(Arrays& a, const BenchCase& bench_case, int copy) {
  RunRequest request = bench_case.problem;
  request.seed = std::to_string(copy);
  a.options = options_of(request);
  a.inputs = read_inputs(request);
  a.inputs.pass_to(a.options);
  Plan plan;  // refuses shapes that do not fit before memory is asked for
  require(try_plan(a.inputs.q, a.inputs.k, a.inputs.v, a.inputs.unallocated_out(a.inputs.q.dtype), a.options, plan));
  a.results = make_results(a.inputs, a.inputs.q.dtype, request.key_weights, a.options);
  const Outputs& wanted = bench_case.outputs;
  RowStatistics& rows = a.options.statistics;
  if (!wanted.lse) a.options.lse = {};
  if (!wanted.statistics && !wanted.largest_weight) rows.largest_weight = {};
  if (!wanted.statistics && !wanted.entropy) rows.entropy = {};
  if (!wanted.statistics && !wanted.logit_mean) rows.logit_mean = {};
  if (!wanted.statistics && !wanted.logit_deviation) rows.logit_deviation = {};
}

double bytes_of(const Arrays& a) {
  double bytes = static_cast<double>(a.results.out.bytes.size());
  for (const files::Array& array : a.inputs.arrays) bytes += static_cast<double>(array.bytes.size());
  return bytes;
}

/// Seconds of one of `calls` calls.
double turn(int calls, const auto& call) {
  const double start = roofs::now();
  for (int i = 0; i < calls; ++i) call();
  return (roofs::now() - start) / calls;
}

/// How many calls a turn needs; the first call warms up.
int calls_of_turn(const auto& call) {
  call();
  const double seconds = turn(1, call);
  return static_cast<int>(std::clamp(std::ceil(kTurn / std::max(seconds, 1e-9)), 1.0, 1e6));
}

/// Against the definition. Of long rows fewer are compared: the definition takes its time.
CheckResult compare(const Inputs& in, const Tensor& out, const Options& options, Family family, int threads) {
  const Extents e = in.extents();
  const double products = static_cast<double>(in.longest().keys * (e.head_dim + e.value_dim));  // of a row, at most
  const auto rows = static_cast<std::int64_t>(std::clamp(kCheckedProducts / std::max(1.0, products), 32.0, 4096.0));
  return check(in.q, in.k, in.v, out, options, family, threads, false, rows);
}

/// The baseline, its answer checked; `rms` is its error. Throws Failure when it is wrong.
Unfused checked_unfused(const Arrays& a, Isa isa, int threads, double& rms) {
  constexpr double kBound = 1e-5;  // fp32 sums of another order
  Unfused unfused(a.inputs, a.options, isa, threads);
  unfused.run();
  Options options = a.options;
  options.lse = {}, options.statistics = {}, options.key_weights = {};
  rms = compare(a.inputs, unfused.out(), options, Family::fma, threads).relative_rms;
  if (!(rms < kBound)) throw Failure(fmt::format("the unfused baseline is wrong: relative rms error {:.2e}", rms));
  return unfused;
}

double median_of(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

}  // namespace

double Measurement::best() const { return *std::min_element(seconds.begin(), seconds.end()); }
double Measurement::median() const { return median_of(seconds); }

std::optional<double> Measurement::best_share() const {
  if (peak.empty()) return std::nullopt;
  return rate() / *std::max_element(peak.begin(), peak.end());
}

std::optional<double> Measurement::median_share() const {
  if (peak.empty()) return std::nullopt;
  std::vector<double> shares;
  shares.reserve(peak.size());
  for (std::size_t i = 0; i < peak.size(); ++i) shares.push_back(facts.flops / seconds[i] / peak[i]);
  return median_of(shares);
}

double Measurement::arithmetic_seconds() const {
  return peak.empty() ? 0 : facts.flops / *std::max_element(peak.begin(), peak.end());
}

double Measurement::memory_seconds() const { return facts.bytes_min / read_rate; }

std::string Measurement::bound() const {
  constexpr double kExplained = 0.1;
  const double arithmetic = arithmetic_seconds(), memory = memory_seconds();
  if (std::max(arithmetic, memory) < kExplained * best()) return "calls";
  return arithmetic >= memory ? "arithmetic" : "memory";
}

Measurement measure(const BenchCase& bench_case, int rounds, bool cold, double read_rate) {
  std::deque<Arrays> copies(1);
  fill(copies[0], bench_case, 0);
  Arrays& first = copies[0];
  Measurement m;
  Plan plan;
  require(try_plan(first.inputs.q, first.inputs.k, first.inputs.v, first.results.out_view, first.options, plan));
  m.facts = plan.facts();
  m.workspace = workspace_bytes(plan, m.facts.threads);
  m.problem = problem_line(plan);
  m.read_rate = read_rate;
  parse_isa(m.facts.isa, m.isa);
  const int threads = first.options.threads > 0 ? first.options.threads : machine_report().threads;

  first.call();
  const Family family = std::string_view(m.facts.arithmetic) == "amx" ? Family::amx : Family::fma;
  const CheckResult checked = compare(first.inputs, first.results.out_view, first.options, family, threads);
  if (!checked.passed())
    throw Failure(fmt::format("wrong answer on {}, {}: O's relative rms error {:.2e}, bound {:.2e}", m.problem, m.facts.isa,
                              checked.relative_rms, checked.rms_bound));
  m.relative_rms = checked.relative_rms, m.rms_bound = checked.rms_bound;

  m.unfused_missing = unfused_missing();
  if (m.unfused_missing.empty()) m.unfused_missing = Unfused::refusal(first.inputs, first.options, threads);
  std::optional<Unfused> unfused;
  if (m.unfused_missing.empty()) unfused.emplace(checked_unfused(first, m.isa, threads, m.unfused_rms));

  if (cold) {
    const double wanted = kColdCaches * static_cast<double>(machine_report().l3), bytes = std::max(1.0, bytes_of(first));
    const auto count = static_cast<std::size_t>(std::ceil(std::min(wanted, kMostColdBytes) / bytes)) + 1;
    while (copies.size() < count) fill(copies.emplace_back(), bench_case, static_cast<int>(copies.size()));
  }
  std::size_t next = 0;
  const auto ours = [&] { copies[next++ % copies.size()].call(); };
  const auto theirs = [&] { unfused->run(); };

  const roofs::Arithmetic roof(m.isa, threads);
  const double lanes = first.inputs.q.dtype == DType::f64 ? 0.5 : 1;  // a vector holds half as many
  const int our_calls = calls_of_turn(ours), their_calls = unfused ? calls_of_turn(theirs) : 0;
  const double begin = roofs::now();
  double before = roof.measure();
  const auto goes_on = [&](int done) {
    if (rounds > 0) return done < rounds;
    return done < kFewestRounds || (done < kMostRounds && roofs::now() - begin < kSeconds);
  };
  for (int round = 0; goes_on(round); ++round) {
    m.seconds.push_back(turn(our_calls, ours));
    const double after = roof.measure();
    if (roof.known()) m.peak.push_back(lanes * std::max(before, after));
    if (unfused) m.unfused_seconds.push_back(turn(their_calls, theirs));
    before = unfused ? roof.measure() : after;
  }
  return m;
}

}  // namespace flashtile::cli
