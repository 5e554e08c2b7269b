// `flashtile info`: what this build and this machine can do, and why.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "failure.h"
#include "flashtile/flashtile.h"
#include "terminal.h"
#include "units.h"

namespace flashtile::cli {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "g++ " __VERSION__;
#else
constexpr const char* kCompiler = "unknown";
#endif

/// The variables that the library reads.
constexpr const char* kVariables[] = {"FLASHTILE_ISA", "FLASHTILE_VERBOSE"};

std::vector<IsaReport> reports() {
  std::vector<IsaReport> all(static_cast<std::size_t>(isa_reports(nullptr, 0)));
  isa_reports(all.data(), static_cast<int>(all.size()));
  return all;
}

const char* state_of(const IsaReport& r) {
  return r.chosen ? "chosen" : r.available ? "available" : r.built ? "built" : "not built";
}

void print_info(const MachineReport& m) {
  const Style& s = style();
  const auto line = [&](std::string_view name, const std::string& text) {
    fmt::print("  {}{:<10}{}{}\n", s.dim, name, s.end, text);
  };
  fmt::print("{}flashtile {}{}\n", s.bold, version(), s.end);
  line("commit", commit());
  line("compiler", kCompiler);
  fmt::print("\n{}Instruction sets{}, best first\n", s.bold, s.end);
  for (const IsaReport& r : reports()) {
    const std::string_view color = r.chosen ? s.good : std::string_view();
    const char* const note = r.chosen && r.isa == Isa::amx ? "for bf16 query, key and value" : r.reason;
    const std::string state = note[0] == '\0' ? state_of(r) : fmt::format("{:<10} {}", state_of(r), note);
    fmt::print("  {:<14}{}{}{}\n", r.name, color, state, color.empty() ? color : s.end);
  }
  fmt::print("\n{}Machine{}\n", s.bold, s.end);
  line("cpu", m.cpu[0] == '\0' ? "unknown" : m.cpu);
  const auto cache = [](std::int64_t bytes) { return bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "unknown"; };
  line("caches", fmt::format("L1 {}, L2 {}, L3 {}", cache(m.l1), cache(m.l2), cache(m.l3)));
  const std::string quota = m.cgroup_quota > 0 ? fmt::format("cgroup quota {:g}", m.cgroup_quota) : "no cgroup quota";
  line("threads", fmt::format("{}: affinity mask {}, {}", m.threads, m.affinity, quota));
  fmt::print("\n{}Environment{}\n", s.bold, s.end);
  for (const char* const name : kVariables) {
    const char* const value = std::getenv(name);
    fmt::print("  {:<19} {}\n", name, value == nullptr ? "not set" : value);
  }
}

void print_info_json(const MachineReport& m) {
  using nlohmann::ordered_json;
  ordered_json object;
  object["version"] = version();
  object["commit"] = commit();
  object["compiler"] = kCompiler;
  object["instruction_sets"] = ordered_json::array();
  for (const IsaReport& r : reports())
    object["instruction_sets"].push_back(
        {{"name", r.name}, {"built", r.built}, {"available", r.available}, {"chosen", r.chosen}, {"reason", r.reason}});
  object["cpu"] = m.cpu;
  object["caches"] = {{"l1", m.l1}, {"l2", m.l2}, {"l3", m.l3}};
  object["threads"] = {{"default", m.threads}, {"affinity", m.affinity}, {"cgroup_quota", nullptr}};
  if (m.cgroup_quota > 0) object["threads"]["cgroup_quota"] = m.cgroup_quota;
  for (const char* const name : kVariables) {
    const char* const value = std::getenv(name);
    object["environment"][name] = value == nullptr ? ordered_json(nullptr) : ordered_json(value);
  }
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int info_command(bool json) {
  const MachineReport machine = machine_report();
  json ? print_info_json(machine) : print_info(machine);
  return kSuccess;
}

}  // namespace flashtile::cli
