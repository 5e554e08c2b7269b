// What `flashtile bench` prints.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench.h"
#include "parse.h"
#include "unfused.h"
#include "units.h"

namespace flashtile::cli {
namespace {

double least(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }

/// The problem as one types it in: k like q and v like k need not be said.
std::string typed(const std::string& problem) {
  std::vector<std::string> words = split(problem, ' ');
  std::string previous;
  for (std::size_t i = 0; i + 1 < words.size();) {
    const bool shape = words[i] == "--q" || words[i] == "--k" || words[i] == "--v";
    const bool same = shape && words[i + 1] == previous;
    if (shape) previous = words[i + 1];
    if (same)
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i + 2));
    else ++i;
  }
  return join(words, " ");
}

std::string percent(std::optional<double> share) { return share ? fmt::format("{:.0f} %", 100 * *share) : "–"; }

void print_markdown(const std::vector<Measurement>& all, bool cold) {
  const MachineReport machine = machine_report();
  fmt::print("{}, {} threads, reads {:.1f} GB/s; flashtile {} ({}).\n", machine.cpu, machine.threads,
             all.front().read_rate * 1e-9, version(), commit());
  fmt::print(
      "TFLOP/s over visible pairs, best call. Share of peak: of FMA (amx: tile products) from registers, measured in\n"
      "turns with ours, best and median. Unfused: sgemm, softmax, sgemm in fp32, by OpenBLAS{}{}.{}\n\n",
      unfused_description().empty() ? "" : ", ", unfused_description(),
      cold ? " Inputs rotate through more than the caches hold." : "");
  std::size_t width = 7;
  for (const Measurement& m : all) width = std::max(width, typed(m.problem).size());
  fmt::print(
      "| {:<{}} | isa | threads | best | median | TFLOP/s | share of peak | unfused | faster | bytes | workspace | error | "
      "bound |\n",
      "problem", width);
  fmt::print("|{:-<{}}|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n", "", width + 2);
  for (const Measurement& m : all) {
    const bool unfused = !m.unfused_seconds.empty();
    fmt::print("| {:<{}} | {} | {} | {} | {} | {:.4f} | {}, {} | {} | {} | {} | {} | {:.1e} | {} |\n", typed(m.problem),
               width, m.facts.isa, m.facts.threads, seconds_text(m.best()), seconds_text(m.median()), m.rate() * 1e-12,
               percent(m.best_share()), percent(m.median_share()), unfused ? seconds_text(least(m.unfused_seconds)) : "–",
               unfused ? fmt::format("{:.1f} ×", least(m.unfused_seconds) / m.best()) : "–", bytes_text(m.facts.bytes_min),
               bytes_text(static_cast<double>(m.workspace)), m.relative_rms, m.bound());
  }
  std::vector<std::string> notes;
  for (const Measurement& m : all)
    if (!m.unfused_missing.empty() && std::find(notes.begin(), notes.end(), m.unfused_missing) == notes.end())
      notes.push_back(m.unfused_missing);
  if (!notes.empty()) fmt::print("\n");
  for (const std::string& note : notes) fmt::print("No baseline (–): {}.\n", note);
}

/// Name and value of everything that one measurement says.
nlohmann::ordered_json record(const Measurement& m) {
  nlohmann::ordered_json j;
  j["problem"] = m.problem;
  j["isa"] = m.facts.isa, j["arithmetic"] = m.facts.arithmetic, j["threads"] = m.facts.threads;
  j["rounds"] = m.seconds.size();
  j["seconds_best"] = m.best(), j["seconds_median"] = m.median();
  j["flops"] = m.facts.flops, j["visible_pairs"] = m.facts.visible_pairs;
  j["tflops"] = m.rate() * 1e-12;
  const auto optional = [](std::optional<double> x) { return x ? nlohmann::ordered_json(*x) : nlohmann::ordered_json(); };
  j["share_of_peak_best"] = optional(m.best_share()), j["share_of_peak_median"] = optional(m.median_share());
  j["peak_tflops"] =
      optional(m.peak.empty() ? std::nullopt : std::optional(1e-12 * *std::max_element(m.peak.begin(), m.peak.end())));
  j["unfused_seconds_best"] = optional(m.unfused_seconds.empty() ? std::nullopt : std::optional(least(m.unfused_seconds)));
  j["unfused_relative_rms_error"] = optional(m.unfused_seconds.empty() ? std::nullopt : std::optional(m.unfused_rms));
  j["unfused_missing"] = m.unfused_missing;
  j["bytes_min"] = m.facts.bytes_min, j["read_bytes_per_second"] = m.read_rate;
  j["workspace_bytes"] = m.workspace;
  j["relative_rms_error"] = m.relative_rms, j["relative_rms_bound"] = m.rms_bound;
  j["bound"] = m.bound();
  return j;
}

void print_csv(const std::vector<Measurement>& all) {
  bool header = true;
  for (const Measurement& m : all) {
    const nlohmann::ordered_json fields = record(m);
    std::string names, values;
    for (const auto& [name, value] : fields.items()) {
      names += (names.empty() ? "" : ",") + name;
      values += (values.empty() ? "" : ",") + (value.is_null() ? "" : value.dump());
    }
    if (header) fmt::print("{}\n", names);
    header = false;
    fmt::print("{}\n", values);
  }
}

void print_json(const std::vector<Measurement>& all, bool cold) {
  const MachineReport machine = machine_report();
  nlohmann::ordered_json j;
  j["cpu"] = machine.cpu, j["threads"] = machine.threads, j["version"] = version(), j["commit"] = commit();
  j["openblas"] = unfused_description(), j["cold"] = cold;
  j["measurements"] = nlohmann::ordered_json::array();
  for (const Measurement& m : all) j["measurements"].push_back(record(m));
  fmt::print("{}\n", j.dump(2));
}

}  // namespace

void print_bench(const std::vector<Measurement>& all, const std::string& output, bool cold) {
  if (output == "json") print_json(all, cold);
  else if (output == "csv") print_csv(all);
  else print_markdown(all, cold);
}

}  // namespace flashtile::cli
