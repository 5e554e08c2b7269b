// How the command fails: one sentence on standard error and an exit status.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "flashtile/error.h"

namespace flashtile::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;   // well asked, but it could not be done, or a check did not hold
inline constexpr int kWrongUse = 2;  // the caller can mend it by asking differently

/// Wrong use. The sentence names the argument, what it was and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Anything else that ends the command.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "--dtype = int4; expected fp64, fp32, fp16 or bf16"
inline UsageError wrong(std::string_view argument, std::string_view was, std::string_view allowed) {
  return UsageError(fmt::format("{} = {}; expected {}", argument, was, allowed));
}

/// Turns the library's refusal into the command's.
inline void require(const Status& status) {
  if (status.ok()) return;
  if (status.code == Code::invalid_argument) throw UsageError(status.text);
  throw Failure(status.text);
}

}  // namespace flashtile::cli
