// Sentences for refused arguments:  "NAME = WAS; expected ALLOWED".
#pragma once

#include "flashtile/error.h"

namespace flashtile {

/// A failed Status with a printf-formatted text; cut where the text buffer ends.
__attribute__((format(printf, 2, 3))) Status refuse(Code code, const char* format, ...) noexcept;

}  // namespace flashtile

/// Returns from the enclosing function with a sentence about a bad argument unless the condition holds.
#define FT_CHECK(condition, ...)                                                                    \
  do {                                                                                              \
    if (!(condition)) return ::flashtile::refuse(::flashtile::Code::invalid_argument, __VA_ARGS__); \
  } while (false)

/// Returns the status of an expression from the enclosing function unless it is ok.
#define FT_TRY(expression)                              \
  do {                                                  \
    const ::flashtile::Status ft_status = (expression); \
    if (!ft_status.ok()) return ft_status;              \
  } while (false)
