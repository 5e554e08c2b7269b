// How flashtile reports a bad argument: one Status, one Error, one sentence.
//
// Every argument is checked before anything is written. A message names the argument, what it was and what is
// allowed: "k.heads = 6; expected a divisor of q.heads = 32".
#pragma once

#include <cstdint>

#if defined(__cpp_exceptions)
#include <exception>
#endif

namespace flashtile {

enum class Code : std::uint8_t {
  ok = 0,
  invalid_argument = 1,  // the caller can mend it; nothing was written
  unsupported = 2,       // well-formed, but not on this machine or in this version; nothing was written
  out_of_memory = 3,     // nothing was written
};

/// The outcome of a call: a code and a sentence. Owns its text, allocates nothing, is freely copied.
struct Status {
  Code code = Code::ok;
  char text[247] = {};  // NUL-terminated; empty when ok

  constexpr bool ok() const noexcept { return code == Code::ok; }
  constexpr explicit operator bool() const noexcept { return ok(); }
};

#if defined(__cpp_exceptions)
/// The only exception that flashtile throws. what() is the status's sentence after "flashtile: ".
class Error : public std::exception {
 public:
  explicit Error(const Status& status) noexcept : status_(status) {
    const char* prefix = "flashtile: ";
    char* to = text_;
    for (; *prefix != '\0'; ++prefix) *to++ = *prefix;
    for (const char* from = status_.text; *from != '\0'; ++from) *to++ = *from;
    *to = '\0';
  }
  const char* what() const noexcept override { return text_; }
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code; }

 private:
  Status status_;
  char text_[sizeof(Status::text) + 16];
};
#endif

}  // namespace flashtile
