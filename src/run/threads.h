// The thread pool behind the easy call. The one global of the library; engines with workers of
// their own never touch it.
//
// Always: each share runs exactly once; the caller takes part and waits for nobody who has not
// begun a share, so a call returns even if no worker ever wakes; the number of workers is bounded
// by the largest `threads` ever asked for less one, whatever the number of calling threads. Never:
// a thread's affinity is changed that the pool did not start, a worker waits for another, a failure
// is reported.
#pragma once

#include <cstdint>

namespace flashtile {

/// One share of the work. `worker` is 0 ≤ worker < threads: no two shares with the same number run
/// at once.
using ShareBody = void (*)(void* context, int worker, std::int64_t share) noexcept;

/// Runs body(context, worker, share) once for every share in [0, shares), on at most `threads`
/// threads, the calling one included; returns when all are done, and what they wrote is visible.
/// Shares are begun in ascending order. Runs on the calling thread alone when it is itself inside a
/// share, when threads ≤ 1 or shares ≤ 1, when no thread can be started, and while the process
/// exits. Workers use the CPUs that the calling thread may use. Several threads may call at once; a
/// forked child may call, whatever the parent's threads were doing (but a share that forks must not
/// return in the child).
void run_shares(int threads, std::int64_t shares, ShareBody body, void* context) noexcept;

}  // namespace flashtile
