// What a run found out, and its two forms: text for people, one JSON object for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "flashtile/flashtile.h"
#include "heads.h"
#include "inputs.h"
#include "request.h"

namespace flashtile::cli {

struct RunReport {
  const Inputs* inputs = nullptr;
  const Options* options = nullptr;
  ConstTensor out, lse;
  PlanFacts facts;
  int threads = 0;
  std::size_t workspace = 0;         // of all threads
  std::string problem, explanation;  // problem_line and explain
  double first_seconds = 0;          // the one call with LSE and statistics
  std::vector<double> seconds;       // repeated calls with O and LSE alone; may be empty
  std::vector<HeadSummary> heads;
  std::optional<CheckResult> check;
  std::string written;  // path, or empty
  std::vector<std::string> written_names;

  double best() const;  // of the repeated calls, or the first
  double median() const;
};

/// The formula that was computed, with the options that were given: "O = softmax(0.125 · Q Kᵀ) V".
std::string formula(const RunReport& report);

void print_report(const RunReport& report);
void print_json(const RunReport& report);

}  // namespace flashtile::cli
