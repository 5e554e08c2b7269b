// The floating-point environment that every kernel runs in, and the permission to use AMX.
//
// Round to nearest even, no exception trapped, denormal operands and results count as 0
// (docs/numerics.md: one denormal costs up to 70 ns a vector otherwise). The caller's environment
// comes back to the bit, its sticky flags included.
#pragma once

#include <cstdint>

namespace flashtile {

/// Lives on the stack of the thread whose arithmetic it governs, around the call of a kernel.
/// Both members are out of line and clobber memory, so what is loaded from memory after the
/// construction and stored to memory before the destruction is computed in between. A number
/// computed earlier and kept in a register may be moved: do no arithmetic next to this object, call
/// a function that does.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept;
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t found_ = 0;
};

/// Asks Linux, once for the whole process and its children, for the right to use AMX's tile
/// registers. False where it is refused or unknown: then there is no AMX, whatever CPUID says
/// (llama.cpp#26954). Any thread may ask first.
bool request_amx_permission() noexcept;

}  // namespace flashtile
