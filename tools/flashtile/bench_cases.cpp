// Which problems `flashtile bench` measures: lists, ranges, replayed lines, or the default set.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>

#include "bench.h"
#include "failure.h"
#include "parse.h"

namespace flashtile::cli {
namespace {

constexpr std::size_t kMostCases = 10000;

constexpr std::string_view kDefaultSet[] = {
    "--dtype fp32 --q 1x2048x8x128",
    "--dtype fp32 --q 1x2048x8x64",
    // What outputs beside O cost, on the problem above.
    "--dtype fp32 --q 1x2048x8x64 --lse --largest-weight --entropy",
    "--dtype fp32 --q 1x2048x8x64 --logit-mean --logit-deviation",
    "--dtype fp32 --q 1x2048x8x64 --key-weights",
    "--dtype fp32 --q 1x2048x8x128 --causal",
    "--dtype fp32 --q 1x4096x8x64 --causal",
    "--dtype fp32 --q 4x512x8x64 --causal",
    "--dtype fp32 --q 17+64+130+257+511+1024+1500+2048x8x64 --causal",
    "--dtype fp32 --q 1x128x12x32",
    "--dtype fp32 --q 1x32768x1x64 --causal",
    "--dtype bf16 --q 1x2048x8x128",
    "--dtype bf16 --q 1x2048x8x128 --causal",
    "--dtype bf16 --q 4x512x8x64 --causal",
    "--dtype fp16 --q 1x2048x8x128",
    "--dtype fp16 --q 1x2048x8x128 --causal",
    "--dtype fp32 --q 1x2048x32x128 --k 1x2048x8x128 --causal",
    "--dtype fp32 --q 1x2048x8x128 --k 1x2048x1x128",
    "--dtype fp32 --q 1x2048x8x80",
    "--dtype fp32 --q 1x2048x8x96",
    "--dtype fp32 --q 1x2048x8x256",
    "--dtype fp32 --q 1x2048x8x128 --v 1x2048x8x64",
    "--dtype fp32 --q 1x16384x4x64 --window 511,0",
    "--dtype fp32 --q 1x16x12x32",
    "--dtype fp32 --q 1x1x1x64",
    // Case A10.2: masks for all heads, and none.
    "--dtype fp32 --q 1x512x4x32",
    "--dtype fp32 --q 1x512x4x32 --mask bool",
    "--dtype fp32 --q 1x512x4x32 --mask fp32",
    // Case A10.1: never slower than a program without a fused kernel, at any length. With 2 heads its S, some 512 MiB, has a
    // place at every length on any number of threads (unfused.cpp).
    "--dtype fp32 --q 1x128-8192*2x2x64",
};

/// Every list of one word from each position.
std::vector<std::vector<std::string>> products(const std::vector<std::vector<std::string>>& choices) {
  std::vector<std::vector<std::string>> all = {{}};
  for (const std::vector<std::string>& choice : choices) {
    std::vector<std::vector<std::string>> longer;
    if (all.size() * choice.size() > kMostCases) throw UsageError(fmt::format("more than {} problems", kMostCases));
    for (const std::vector<std::string>& words : all)
      for (const std::string& word : choice) {
        longer.push_back(words);
        longer.back().push_back(word);
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<std::string> numbers(std::string_view argument, const std::string& text) {
  std::vector<std::string> words;
  for (const std::int64_t n : expand_range(argument, text)) words.push_back(std::to_string(n));
  return words;
}

/// "1x512-1024*2x8x64,…" → 1x512x8x64, 1x1024x8x64, …; lengths of packed sequences, 17+300x8x64, are no range.
std::vector<std::string> shapes(std::string_view argument, const std::string& text) {
  std::vector<std::string> all;
  for (const std::string& shape : split(text, ',')) {
    std::vector<std::vector<std::string>> sizes;
    for (const std::string& size : split(shape, 'x')) {
      const bool lengths = sizes.empty() && size.find('-') == std::string::npos;
      sizes.push_back(lengths ? std::vector{size} : numbers(argument, size));
    }
    for (const std::vector<std::string>& word : products(sizes)) {
      all.push_back(join(word, "x"));
      parse_shape(argument, all.back());
    }
  }
  return all;
}

std::vector<std::string> list_of_numbers(std::string_view argument, const std::string& text) {
  std::vector<std::string> all;
  if (text.empty()) return {""};
  for (const std::string& word : split(text, ','))
    for (std::string& n : numbers(argument, word)) all.push_back(std::move(n));
  return all;
}

/// k and v like q, with their own heads, unless they are said.
void complete_shapes(RunRequest& r, const std::string& kv_heads) {
  if (r.k.empty()) r.k = r.q;
  if (!kv_heads.empty()) {
    std::vector<std::string> sizes = split(r.k, 'x');
    sizes[sizes.size() - 2] = kv_heads;  // B×S×H×D, or packed, S×H×D
    r.k = join(sizes, "x");
  }
  if (r.v.empty()) r.v = r.k;
}

void add_problems(const BenchRequest& request, std::vector<BenchCase>& cases) {
  const RunRequest& p = request.problem;
  const auto shape_list = [](std::string_view argument, const std::string& text) {
    return text.empty() ? std::vector<std::string>{""} : shapes(argument, text);
  };
  const std::vector<std::string> dtypes = p.dtype.empty() ? std::vector<std::string>{"fp32"} : split(p.dtype, ',');
  for (const std::vector<std::string>& w : products({shapes("--q", p.q), shape_list("--k", p.k), shape_list("--v", p.v),
                                                     list_of_numbers("--kv-heads", request.kv_heads), dtypes,
                                                     split(p.isa, ','), list_of_numbers("--threads", p.threads)})) {
    BenchCase one;
    one.problem = p, one.outputs = request.outputs;
    RunRequest& r = one.problem;
    r.q = w[0], r.k = w[1], r.v = w[2], r.dtype = w[4], r.isa = w[5], r.threads = w[6];
    complete_shapes(r, w[3]);
    cases.push_back(std::move(one));
  }
}

/// A line of problem_line() as a request; `base` says what the line does not. Throws UsageError naming what does not fit.
BenchRequest from_line(const std::string& line, const BenchRequest& base) {
  BenchRequest request = base;
  RunRequest& r = request.problem;
  CLI::App app;
  const auto word = [&app](const char* name, std::string& value) { app.add_option(name, value)->expected(1); };
  word("--dtype", r.dtype), word("--q", r.q), word("--k", r.k), word("--v", r.v);
  word("--alignment", r.alignment), word("--window", r.window), word("--scale", r.scale), word("--softcap", r.softcap);
  app.add_flag("--causal", r.causal);
  add_outputs(app, request);
  bool alibi = false;
  app.add_flag("--alibi", alibi);
  if (request.replay.empty()) word("--mask", r.mask);  // a replayed one has a shape and a pattern that nobody knows
  try {
    app.parse(line);
  } catch (const CLI::ParseError& e) {
    const std::vector<std::string> extras = app.remaining();
    throw UsageError(extras.empty() ? std::string(e.what()) : extras.front() + " needs arrays that a line does not hold");
  }
  if (alibi) r.alibi = "auto";
  if (split(r.dtype, ',').size() > 1) throw UsageError("--dtype " + r.dtype + ": mixed types");
  if (r.q.empty()) throw UsageError("no --q in it");
  return request;
}

void add_replayed(const BenchRequest& request, std::vector<BenchCase>& cases) {
  std::ifstream file(request.replay);
  if (!file) throw wrong("--replay", request.replay, "a file that can be read");
  std::set<std::string> seen;
  std::map<std::string, int> skipped;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kPrefix = "flashtile: ";
    if (line.starts_with(kPrefix)) line.erase(0, kPrefix.size());
    line = line.substr(0, line.find(" #"));
    if (!line.starts_with("--") || !seen.insert(line).second) continue;
    try {
      add_problems(from_line(line, request), cases);
    } catch (const UsageError& e) {
      ++skipped[e.what()];
    }
  }
  for (const auto& [why, lines] : skipped) fmt::print(stderr, "flashtile: --replay skips {} problems: {}\n", lines, why);
  if (cases.empty()) throw wrong("--replay", request.replay, "a file with lines of FLASHTILE_VERBOSE=1");
}

}  // namespace

void add_outputs(CLI::App& app, BenchRequest& request) {
  Outputs& o = request.outputs;
  const auto flag = [&](const char* name, bool& value, const char* help) {
    app.add_flag(name, value, help)->group("Problem");
  };
  flag("--lse", o.lse, "with LSE");
  flag("--statistics", o.statistics, "with all row statistics, which are:");
  flag("--largest-weight", o.largest_weight, "with the largest weight of each row");
  flag("--entropy", o.entropy, "with the entropy of each row's weights");
  flag("--logit-mean", o.logit_mean, "with the mean of each row's logits");
  flag("--logit-deviation", o.logit_deviation, "with their standard deviation");
  flag("--key-weights", request.problem.key_weights, "with the sum of the weights of each key");
}

std::vector<std::int64_t> expand_range(std::string_view argument, std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto refuse = [&] { return wrong(argument, text, "whole numbers: 8, 1-8, 1-8*2 or 64-256+64"); };
  const auto number = [&](std::string_view word) {
    std::int64_t n = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc() || stop != word.data() + word.size() || n < 0 || n > kMost) throw refuse();
    return n;
  };
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {number(text)};
  const std::int64_t first = number(text.substr(0, dash));
  std::string_view rest = text.substr(dash + 1);
  const std::size_t sign = rest.find_first_of("*+");
  const bool multiplies = sign != std::string_view::npos && rest[sign] == '*';
  const std::int64_t step = sign == std::string_view::npos ? 1 : number(rest.substr(sign + 1));
  const std::int64_t last = number(rest.substr(0, sign));
  if (last < first || step < (multiplies ? 2 : 1) || (multiplies && first == 0)) throw refuse();
  std::vector<std::int64_t> all;
  for (std::int64_t n = first; n <= last; n = multiplies ? n * step : n + step) {
    all.push_back(n);
    if (all.size() > kMostCases) throw refuse();
  }
  return all;
}

std::vector<BenchCase> bench_cases(const BenchRequest& request) {
  std::vector<BenchCase> cases;
  const RunRequest& p = request.problem;
  if (!request.replay.empty()) {
    if (!p.q.empty()) throw wrong("--replay", request.replay, "no --q beside it");
    add_replayed(request, cases);
  } else if (!p.q.empty()) {
    add_problems(request, cases);
  } else {
    if (!p.k.empty() || !p.v.empty() || !request.kv_heads.empty()) throw wrong("--q", "''", "a shape BxSxHxD");
    for (const std::string_view line : kDefaultSet) {
      BenchRequest one = from_line(std::string(line), request);
      const std::vector<std::string> wanted = split(p.dtype, ',');
      if (p.dtype.empty() || std::find(wanted.begin(), wanted.end(), one.problem.dtype) != wanted.end())
        add_problems(one, cases);
    }
    if (cases.empty())
      throw wrong("--dtype", p.dtype, "fp32, bf16 or fp16 for the default set, or shapes: --q 1x2048x8x128");
  }
  return cases;
}

}  // namespace flashtile::cli
