// What a plan needs to know about the machine: plain numbers.
//
// Every number always has a usable value: where the system says nothing, or 0 (sysconf does, for
// the L2 of many Arm machines: onnxruntime#29613), the defaults here stand. Who finds the numbers
// out is run/machine.h; a plan can be made for any machine by filling this in by hand.
#pragma once

#include <cstdint>

namespace flashtile {

struct Machine {
  char cpu[64] = "unknown";  // "AMD EPYC 9B14 96-Core Processor"; NUL-terminated
  int affinity = 1;          // CPUs that the process was allowed to use when asked
  double cgroup_quota = 0;   // CPUs' worth of time that the control group grants; 0: no limit
  int threads = 1;           // max(1, min(affinity, ⌊quota⌋))
  std::int64_t l1 = 32 << 10;  // bytes of a core's data cache; the least that any 64-bit core in use today has
  std::int64_t l2 = 512 << 10;  // bytes; what server and phone cores have had since 2017, or more
  std::int64_t l3 = 4 << 20;    // bytes, of all cores that share it
};

}  // namespace flashtile
