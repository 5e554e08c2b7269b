#include "plan/plan.h"

namespace flashtile {
namespace {

/// Visible pairs of one head's queries [begin, end); key ranges per row are not known before the run and count as all.
Index pairs_of(const Problem& p, const Sequence& s, Index begin, Index end) {
  if (s.padding || s.keys == 0) return 0;
  if (p.window.left < 0 && p.window.right < 0) return (end - begin) * s.keys;
  Index pairs = 0;
  for (Index i = begin; i < end; ++i) pairs += visible_keys(p.window, s, i).size();
  return pairs;
}

/// Rounds of guided shares: the last ones are 1/16 of the work, divided by the threads.
constexpr int kGuidedRounds = 5;

/// The first task whose middle lies beyond a part of the whole cost: shares cut there differ by less than a task.
Index first_task(const Work& work, double part) noexcept {
  const Index n = work.tasks.size();
  if (part >= 1) return n;
  const double target = part * static_cast<double>(work.cost.size() > 0 ? work.cost[n] : 0);
  Index low = 0, high = n;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    const double at = 0.5 * (static_cast<double>(work.cost[middle]) + static_cast<double>(work.cost[middle + 1]));
    if (at < target) low = middle + 1;
    else high = middle;
  }
  return low;
}

}  // namespace

bool make_work(const Problem& p, const TileShape& shape, Work& work) noexcept {
  const Index group = p.group();
  Index count = 0;
  const auto rows_of = [&](const Sequence& s) { return s.queries * group; };
  const auto tasks_for = [&](const Sequence& s) -> Index {
    const Index rows = rows_of(s);
    if (p.key_weights.present) return 1;
    return (rows + shape.task_rows - 1) / shape.task_rows;
  };
  for (Index s = 0; s < p.sequence_count; ++s) count += tasks_for(p.sequences[s]) * p.kv_heads;
  if (!work.tasks.allocate(count) || !work.cost.allocate(count + 1)) return false;

  Index n = 0, total = 0;
  for (Index s = 0; s < p.sequence_count; ++s) {
    const Sequence& sequence = p.sequences[s];
    const Index rows = rows_of(sequence), tasks = tasks_for(sequence);
    for (Index h = 0; h < p.kv_heads; ++h)
      for (Index task = 0; task < tasks; ++task) {
        const Index first = p.key_weights.present ? 0 : task * shape.task_rows;
        const Index many = p.key_weights.present ? rows : smaller(shape.task_rows, rows - first);
        work.tasks[n] = {s, h, first, many};
        // Rows interleave the heads of a group: a task covers about rows / group queries of each.
        const Index pairs = h == 0 || group == 0
                                ? (group == 0 ? 0 : pairs_of(p, sequence, first / group, (first + many) / group) * group)
                                : work.cost[n - tasks + 1] - work.cost[n - tasks] - many;
        work.pairs += pairs;
        total += pairs + many;  // a row without keys still has to be written
        work.cost[++n] = total;
      }
  }
  return true;
}

TaskRange tasks_of(const Work& work, Index share, Index shares) noexcept {
  const double n = static_cast<double>(shares);
  return {first_task(work, static_cast<double>(share) / n), first_task(work, static_cast<double>(share + 1) / n)};
}

Index guided_shares(int threads) noexcept { return threads == 1 ? 1 : Index{kGuidedRounds} * threads; }

TaskRange guided_tasks_of(const Work& work, Index share, int threads) noexcept {
  if (threads == 1) return {0, work.tasks.size()};
  const auto start_of = [&](Index s) {
    const Index round = s / threads;
    const double left = 1.0 / static_cast<double>(Index{1} << round);  // before this round
    const double part = static_cast<double>(s % threads) / threads;
    return round == kGuidedRounds ? 1.0 : 1 - left + part * (round == kGuidedRounds - 1 ? left : left / 2);
  };
  return {first_task(work, start_of(share)), first_task(work, start_of(share + 1))};
}

Task strip_from(const Work& work, const TileShape& shape, Index& next, Index end) noexcept {
  Task strip = work.tasks[next++];
  for (; next < end; ++next) {
    const Task& more = work.tasks[next];
    if (more.sequence != strip.sequence || more.kv_head != strip.kv_head || strip.rows + more.rows > shape.strip_rows) break;
    strip.rows += more.rows;
  }
  return strip;
}

double flops_of(const Problem& p, Index pairs) noexcept {
  return 2.0 * static_cast<double>(pairs) * static_cast<double>(p.head_dim + p.value_dim);
}

double least_bytes(const Problem& p) noexcept {
  double bytes = 0;
  const double b = p.varlen ? 1 : static_cast<double>(p.batch);
  const double rows = b * static_cast<double>(p.q_rows), keys = b * static_cast<double>(p.k_rows);
  const double qh = static_cast<double>(p.q_heads), kvh = static_cast<double>(p.kv_heads);
  bytes += rows * qh * static_cast<double>(p.head_dim) * size_of(p.q.dtype);
  bytes += keys * kvh * static_cast<double>(p.head_dim) * size_of(p.k.dtype);
  bytes += keys * kvh * static_cast<double>(p.value_dim) * size_of(p.v.dtype);
  bytes += rows * qh * static_cast<double>(p.value_dim) * size_of(p.out.dtype);
  for (const Axes* a : {&p.lse, &p.largest_weight, &p.entropy, &p.logit_mean, &p.logit_deviation})
    if (a->present) bytes += rows * qh * size_of(a->dtype);
  if (p.key_weights.present) bytes += keys * qh * size_of(p.key_weights.dtype);
  return bytes;
}

}  // namespace flashtile
