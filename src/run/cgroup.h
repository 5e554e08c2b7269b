// How much CPU time the control groups of this process grant: Linux's containers limit CPUs by
// time, which no affinity mask shows.
#pragma once

namespace flashtile {

/// CPUs' worth of time, the least along the hierarchy; 0: no limit, or none that can be read.
/// Versions 1 and 2, also side by side. `root` stands before every path: "" for the system, a
/// made-up tree in the tests.
double cgroup_quota(const char* root) noexcept;

}  // namespace flashtile
