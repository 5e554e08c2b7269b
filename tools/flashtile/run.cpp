// `flashtile run`: attention on somebody's arrays, timed, described and, when asked, checked.
//
// Always: the numbers that are written, summarised and checked come from one call; the timed calls repeat it with O and
// LSE alone, into arrays of their own.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "check.h"
#include "commands.h"
#include "failure.h"
#include "inputs.h"
#include "parse.h"
#include "report.h"
#include "results.h"
#include "terminal.h"

namespace flashtile::cli {
namespace {

constexpr double kTimedSeconds = 1;  // about as long as repeated calls may take together
constexpr int kMostRepeats = 50;
constexpr int kFewestRepeats = 3;  // with fewer, a median says nothing

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Everything that needs no file is checked before one is read.
void check_words(const RunRequest& request) {
  if (!request.out.empty()) check_out_path(request.out);
  if (request.key_weights && (request.out.empty() || request.out.ends_with(".npy")))
    throw wrong("--key-weights", "given", "--out FILE beside it, ending in .safetensors or .npz");
  if (!request.dtype.empty()) parse_dtype("--dtype", request.dtype);
  if (!request.out_dtype.empty()) parse_dtype("--out-dtype", request.out_dtype);
  if (!request.repeat.empty()) parse_integer("--repeat", request.repeat, 0, 1000000);
}

Plan planned(const Inputs& inputs, const Tensor& out, const Options& options) {
  Plan plan;
  require(try_plan(inputs.q, inputs.k, inputs.v, out, options, plan));
  return plan;
}

/// Times of calls for O and LSE alone.
std::vector<double> timed_calls(const RunRequest& request, const Inputs& inputs, DType out_dtype, const Options& full,
                                double first_seconds) {
  int repeats = 0;
  if (!request.repeat.empty()) repeats = static_cast<int>(parse_integer("--repeat", request.repeat, 0, 1000000));
  else if (first_seconds * kFewestRepeats <= kTimedSeconds)
    repeats = std::min(kMostRepeats, static_cast<int>(kTimedSeconds / std::max(first_seconds, 1e-6)));
  if (repeats == 0) return {};
  Options plain = full;
  Results scratch = make_results(inputs, out_dtype, false, plain);
  plain.statistics = {};
  plain.key_weights = {};
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(repeats));
  for (int i = 0; i < repeats; ++i)
    seconds.push_back(seconds_of([&] { require(try_attention(inputs.q, inputs.k, inputs.v, scratch.out_view, plain)); }));
  return seconds;
}

}  // namespace

int run_command(const RunRequest& request) {
  Options options = options_of(request);
  check_words(request);
  const Inputs inputs = read_inputs(request);
  inputs.pass_to(options);
  const DType out_dtype = request.out_dtype.empty() ? inputs.q.dtype : parse_dtype("--out-dtype", request.out_dtype);
  planned(inputs, inputs.unallocated_out(out_dtype), options);  // refuses shapes that do not fit before asking for memory
  Results results = make_results(inputs, out_dtype, request.key_weights, options);

  RunReport report;
  report.inputs = &inputs, report.options = &options;
  report.out = results.out_view, report.lse = options.lse;
  const Plan plan = planned(inputs, results.out_view, options);
  report.facts = plan.facts();
  report.threads = report.facts.threads;
  report.workspace = workspace_bytes(plan, report.threads);
  report.problem = problem_line(plan);
  report.explanation = explain(plan);
  {
    const Progress progress("computing", 0);
    report.first_seconds =
        seconds_of([&] { require(try_attention(inputs.q, inputs.k, inputs.v, results.out_view, options)); });
    report.seconds = timed_calls(request, inputs, out_dtype, options, report.first_seconds);
  }
  report.heads = summarize_heads(results);
  if (request.check) {
    const Family family = std::string_view(report.facts.arithmetic) == "amx" ? Family::amx : Family::fma;
    report.check = check(inputs.q, inputs.k, inputs.v, results.out_view, options, family, report.threads, true);
  }
  if (!request.out.empty()) {
    write_results(request.out, std::move(results), request.key_weights);
    report.written = request.out;
    report.written_names = written_names(request.out, request.key_weights);
  }
  request.json ? print_json(report) : print_report(report);
  return report.check && !report.check->passed() ? kFailure : kSuccess;
}

}  // namespace flashtile::cli
