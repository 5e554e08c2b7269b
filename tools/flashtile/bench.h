// `flashtile bench`: problem → cases → measurements → table. Decides nothing: it prints, and fails only when an answer is
// wrong.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "flashtile/flashtile.h"
#include "request.h"

namespace CLI {
class App;
}

namespace flashtile::cli {

/// Outputs beside O that a problem asks for; key_weights is in its RunRequest.
struct Outputs {
  bool lse = false, statistics = false;  // statistics: all of the four
  bool largest_weight = false, entropy = false, logit_mean = false, logit_deviation = false;
};

/// As typed. Shapes, --kv-heads, --dtype, --isa and --threads may be lists, "fp32,bf16", and their numbers ranges, "1-8*2".
struct BenchRequest {
  RunRequest problem;
  std::string kv_heads;
  Outputs outputs;
  std::string replay;          // a file of FLASHTILE_VERBOSE lines
  bool cold = false;           // inputs rotate through more than the caches hold
  std::string rounds;          // empty: as many as fit into about two seconds
  std::string output = "md";   // md, csv, json
};

/// One problem on one instruction set: its words are single values, its shapes are all there.
struct BenchCase {
  RunRequest problem;
  Outputs outputs;
};

/// The flags of outputs, --key-weights too, for the command line and for a line of a problem.
void add_outputs(CLI::App& app, BenchRequest& request);

/// "8" → 8; "1-8*2" → 1, 2, 4, 8; "1-4" → 1, 2, 3, 4; "64-256+64" → 64, 128, 192, 256. Throws UsageError.
std::vector<std::int64_t> expand_range(std::string_view argument, std::string_view text);

/// All combinations, in the order of the options. Without shapes or a file to replay, the default set. Lines of a replayed
/// file that a problem cannot be rebuilt from are named on standard error.
std::vector<BenchCase> bench_cases(const BenchRequest& request);

struct Measurement {
  std::string problem;  // in the grammar of problem_line()
  PlanFacts facts;
  Isa isa = Isa::automatic;  // that ran
  std::size_t workspace = 0;
  std::vector<double> seconds;          // of our calls, one mean for each round
  std::vector<double> unfused_seconds;  // empty: see unfused_missing
  std::string unfused_missing;
  std::vector<double> peak;     // operations a second beside each of our calls; empty when there is no such loop
  double read_rate = 0;         // bytes a second
  double relative_rms = 0, rms_bound = 0, unfused_rms = 0;

  double best() const;
  double median() const;
  double rate() const { return facts.flops / best(); }  // operations on visible pairs a second
  /// Best and median of ours by the peak beside it; nothing without a peak.
  std::optional<double> best_share() const;
  std::optional<double> median_share() const;
  /// What no implementation can beat: arithmetic at the peak, reading the inputs once.
  double arithmetic_seconds() const;
  double memory_seconds() const;
  /// "arithmetic", "memory", or "calls" when both together explain less than a tenth of the time.
  std::string bound() const;
};

/// Checks the answer, then measures. Throws Failure for a wrong answer, UsageError for a problem that is none.
Measurement measure(const BenchCase& bench_case, int rounds, bool cold, double read_rate);

void print_bench(const std::vector<Measurement>& all, const std::string& output, bool cold);

}  // namespace flashtile::cli
