// `flashtile verify`: what the library promises, tried on this machine.
#include "verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "convert.h"
#include "failure.h"
#include "terminal.h"
#include "units.h"
#include "verify_call.h"

namespace flashtile::cli {

std::vector<Engine> engines() {
  std::vector<IsaReport> reports(static_cast<std::size_t>(isa_reports(nullptr, 0)));
  isa_reports(reports.data(), static_cast<int>(reports.size()));
  std::vector<Engine> all;
  for (const IsaReport& r : reports) {
    if (!r.available) continue;
    const bool amx = r.isa == Isa::amx || r.isa == Isa::amx_emulated;
    all.push_back({r.isa, r.name, amx ? Family::amx : Family::fma});
  }
  return all;
}

void Findings::heading(const std::string& text) {
  if (print_) fmt::print("\n{}{}{}\n", style().bold, text, style().end);
}

void Findings::add(const MeasuredError& e) {
  errors_.push_back(e);
  if (!print_) return;
  const CheckResult& c = e.result;
  if (errors_.size() == 1)
    fmt::print("  {}{:<6}{:<14}{:>9}  {:>9}  {:>9}  {:>9}  {:>9}{}\n", style().dim, "type", "set", "rms", "bound",
               "rounding", "largest", "LSE", style().end);
  fmt::print("  {:<6}{:<14}{:>9.2e}  {:>9.2e}  {:>9.2e}  {:>9.2e}  {:>9.2e}  {}{}{}\n", name_of(e.dtype), e.engine.name,
             c.relative_rms, c.rms_bound, c.rounding_rms, c.max_abs, c.lse_max_abs, c.passed() ? style().good : style().bad,
             c.passed() ? "ok" : "FAIL", style().end);
  std::fflush(stdout);
}

void Findings::add(const Property& p) {
  properties_.push_back(p);
  if (!print_) return;
  const bool good = p.failures == 0 && p.cases > 0;
  fmt::print("  {}{:<5}{}{:>7} cases  {}\n", good ? style().good : style().bad, good ? "ok" : "FAIL", style().end,
             grouped(p.cases), p.name);
  if (p.failures > 0) fmt::print("       {} failed, the first: {}\n", grouped(p.failures), p.first_failure);
  std::fflush(stdout);
}

bool Findings::passed() const {
  return std::all_of(errors_.begin(), errors_.end(), [](const MeasuredError& e) { return e.result.passed(); }) &&
         std::all_of(properties_.begin(), properties_.end(),
                     [](const Property& p) { return p.failures == 0 && p.cases > 0; });
}

void Findings::print_summary() const {
  if (passed())
    fmt::print("\n{}All {} properties hold, all {} errors are within the bounds.{}\n", style().good, properties_.size(),
               errors_.size(), style().end);
  else fmt::print("\n{}Something above does not hold.{}\n", style().bad, style().end);
}

void Findings::print_json() const {
  using nlohmann::ordered_json;
  ordered_json object;
  object["passed"] = passed();
  object["version"] = version();
  object["errors"] = ordered_json::array();
  for (const MeasuredError& e : errors_)
    object["errors"].push_back({{"dtype", name_of(e.dtype)},
                                {"isa", e.engine.name},
                                {"arithmetic", e.engine.family == Family::amx ? "amx" : "fma"},
                                {"relative_rms", e.result.relative_rms},
                                {"relative_rms_bound", e.result.rms_bound},
                                {"rounding_relative_rms", e.result.rounding_rms},
                                {"max_abs", e.result.max_abs},
                                {"lse_max_abs", e.result.lse_max_abs},
                                {"lse_max_abs_bound", e.result.lse_bound},
                                {"passed", e.result.passed()}});
  object["properties"] = ordered_json::array();
  for (const Property& p : properties_)
    object["properties"].push_back(
        {{"name", p.name}, {"cases", p.cases}, {"failures", p.failures}, {"first_failure", p.first_failure}});
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void verify_errors(Findings& findings) {
  constexpr CallShape kShape = {
      .batch = 1, .queries = 512, .keys = 1024, .heads = 4, .kv_heads = 2, .head_dim = 64, .value_dim = 64};
  findings.heading("Error against the definition: 4 heads of 512 queries, 1024 keys, D 64, normal numbers");
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const Engine& engine : engines()) {
      Call call(kShape, dtype, dtype);
      call.fill_normal(1);
      if (!call.select(engine)) continue;
      require(call.run());
      findings.add(MeasuredError{dtype, engine,
                                 check(call.q.view(), call.k.view(), call.v.view(), call.out.view(), call.wired(),
                                       engine.family, machine_report().threads, false)});
    }
}

int verify_command(bool json) {
  Findings findings(!json);
  if (!json) fmt::print("{}flashtile {}{}\n", style().bold, version(), style().end);
  verify_errors(findings);
  verify_exact(findings);
  verify_invariance(findings);
  verify_packed(findings);
  json ? findings.print_json() : findings.print_summary();
  return findings.passed() ? kSuccess : kFailure;
}

}  // namespace flashtile::cli
