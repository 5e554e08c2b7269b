// What the three parts of `flashtile verify` share: engines, properties and where they are reported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bound.h"
#include "check.h"
#include "flashtile/flashtile.h"

namespace flashtile::cli {

/// One way to compute: an instruction set of this machine with the arithmetic it stands for.
struct Engine {
  Isa isa = Isa::automatic;
  std::string name;
  Family family = Family::fma;
};
/// Those that this machine has, the software twin of amx included; best first.
std::vector<Engine> engines();

/// A claim and how often it was tried.
struct Property {
  std::string name;
  std::int64_t cases = 0, failures = 0;
  std::string first_failure = {};

  /// Counts one case; `what` describes it if it is the first that fails.
  void expect(bool holds, const auto& what) {
    ++cases;
    if (!holds && failures++ == 0) first_failure = what();
  }
};

/// One line of the error table.
struct MeasuredError {
  DType dtype = DType::f32;
  Engine engine;
  CheckResult result;
};

/// Receives results as they are found.
class Findings {
 public:
  explicit Findings(bool print) : print_(print) {}

  void heading(const std::string& text);
  void add(const MeasuredError& error);
  void add(const Property& property);

  bool passed() const;
  void print_summary() const;
  void print_json() const;

 private:
  const bool print_;
  std::vector<MeasuredError> errors_;
  std::vector<Property> properties_;
};

void verify_errors(Findings& findings);      // error against the definition, by dtype and instruction set
void verify_exact(Findings& findings);       // the bit-exact proof
void verify_invariance(Findings& findings);  // one row, one answer
void verify_packed(Findings& findings);      // … in packed sequences too

}  // namespace flashtile::cli
