// Finds out what machine this is: CPUs that may be used, caches, name.
//
// Nothing here fails: what cannot be read keeps the default of plan/machine.h. Nothing changes the
// affinity of the calling thread. Safe to call from several threads and from a child forked at any
// moment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/machine.h"

namespace flashtile {

/// This machine, found out by the first call.
const Machine& this_machine() noexcept;

/// Threads that a call made now should use: the CPUs in the calling thread's affinity mask at this
/// moment, at most the quota of the control group as this_machine() found it. One system call.
int available_threads() noexcept;

/// The set of CPUs that a thread may run on, as the kernel writes it.
struct Affinity {
  static constexpr int kWords = 128;  // 8192 CPUs: the most that Linux can be configured for
  int bytes = 0;  // of mask that are valid; 0 when the system does not say, or has more CPUs
  std::uint64_t mask[kWords];

  int count() const noexcept;
  bool operator==(const Affinity& other) const noexcept;
};

/// Reads the calling thread's set.
void read_affinity(Affinity& affinity) noexcept;

/// The same as available_threads() for a thread with this set of CPUs, read a moment ago.
int available_threads(const Affinity& affinity) noexcept;

/// Confines the calling thread to the set. For threads that the library started itself. False when
/// refused.
bool adopt_affinity(const Affinity& affinity) noexcept;

// ---- The parts of this_machine(), beside run/cgroup.h. `root` stands before every path: "" for
// the system, a made-up tree in the tests.

struct CacheSizes {
  std::int64_t l1 = 0, l2 = 0, l3 = 0;  // bytes; 0: not said
};
CacheSizes sysfs_caches(const char* root) noexcept;

/// Writes the processor's name, or "unknown"; cut to fit, always NUL-terminated.
void cpu_name(const char* root, char* name, std::size_t size) noexcept;

/// Puts the pieces together: defaults for sizes that are not said or not credible, and the rule for
/// threads.
Machine assemble(const CacheSizes& caches, int affinity, double quota) noexcept;

}  // namespace flashtile
