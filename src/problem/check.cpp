#include "problem/check.h"

#include <cstdarg>
#include <cstdio>

namespace flashtile {

Status refuse(Code code, const char* format, ...) noexcept {
  Status status;
  status.code = code;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(status.text, sizeof status.text, format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace flashtile
