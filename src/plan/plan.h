// Who computes what: a Problem cut into tasks, and what they cost. Immutable data that explain() can print; nothing is
// decided inside a kernel.
#pragma once

#include "plan/machine.h"
#include "plan/tile_shape.h"
#include "problem/work.h"

namespace flashtile {

struct Kernels;

/// Tasks in the order of their rows, with the visible pairs of all tasks before each: cost[i + 1] − cost[i] is task
/// i's.
struct Work {
  Buffer<Task> tasks;
  Buffer<Index> cost;  // tasks.size() + 1 entries
  Index pairs = 0;     // visible (query, key) pairs that ranges leave, over all query heads
};

struct Plan::Data {
  Problem problem;
  const Kernels* kernels = nullptr;
  const char *isa = "", *arithmetic = "";
  int threads = 1;
  TileShape shape;
  Work work;
  std::size_t scratch_bytes = 0;  // one worker
  Machine machine;
};

/// Cuts the rows of each kv head of each sequence into tasks of at most shape.task_rows; one task a head where column
/// sums are wanted, since they need all rows of it. False when there is no memory.
[[nodiscard]] bool make_work(const Problem& p, const TileShape& shape, Work& work) noexcept;

/// The tasks [begin, end) of share `share` of `shares`: contiguous, balanced by cost.
struct TaskRange {
  Index begin = 0, end = 0;
};
TaskRange tasks_of(const Work& work, Index share, Index shares) noexcept;

/// Shares for threads that may be slowed down by neighbours: each takes the next one when it is ready. They begin large, so
/// that a strip is long, and end small, so that nobody waits long: `threads` shares are half of the work, the next ones
/// half of the rest, and so on (guided self-scheduling: Polychronopoulos and Kuck, 1987).
Index guided_shares(int threads) noexcept;
TaskRange guided_tasks_of(const Work& work, Index share, int threads) noexcept;

/// Tasks from `next` on that a kernel takes at once: neighbouring rows of one head, together at most shape.strip_rows.
/// Moves `next` behind them, not beyond `end`. REQUIRES: next < end.
Task strip_from(const Work& work, const TileShape& shape, Index& next, Index end) noexcept;

/// 2 · pairs · (D + Dv), and the bytes of every input read once and every output written once.
double flops_of(const Problem& p, Index pairs) noexcept;
double least_bytes(const Problem& p) noexcept;

}  // namespace flashtile
