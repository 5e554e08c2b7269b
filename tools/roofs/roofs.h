// What this machine can do at most, measured now: floating-point operations a second and bytes read a second. A roof and
// what stands under it are measured in turns, since a busy neighbour slows both (Williams, Waterman, Patterson 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "flashtile/flashtile.h"
#include "roofs/loops.h"

namespace flashtile::roofs {

/// Monotonic time in seconds.
double now();

/// The loops of an instruction set; empty ones where this build has none, as for the software twin of amx.
Loops loops_of(Isa isa);

/// Operations a second from registers on `threads` threads: fp32, on amx bf16.
class Arithmetic {
 public:
  Arithmetic(Isa isa, int threads);

  bool known() const { return loops_.peak != nullptr; }
  /// One measurement of about two milliseconds; 0 when not known.
  double measure() const;

 private:
  Loops loops_;
  int threads_;
  long rounds_ = 0;
};

/// Bytes a second read from memory on `threads` threads, from a buffer of four times the last cache or 64 MiB.
class Reading {
 public:
  explicit Reading(int threads);

  /// One measurement: the whole buffer once, tens of milliseconds.
  double measure() const;

 private:
  std::vector<std::uint64_t> buffer_;
  int threads_;
};

}  // namespace flashtile::roofs
