// A plan in words, and its problem in one line. Nothing here decides anything.
#include <cstdarg>
#include <cstdio>

#include "plan/plan.h"

namespace flashtile {
namespace {

/// Appends to a caller's buffer as snprintf does: counts everything, writes what fits.
class Text {
 public:
  Text(char* buffer, std::size_t size) : buffer_(buffer), size_(size) {
    if (size_ > 0) buffer_[0] = '\0';
  }
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::size_t left = used_ < size_ ? size_ - used_ : 0;
    const int n = std::vsnprintf(left > 0 ? buffer_ + used_ : nullptr, left, format, arguments);
    va_end(arguments);
    if (n > 0) used_ += static_cast<std::size_t>(n);
  }
  std::size_t used() const { return used_; }

 private:
  char* buffer_;
  std::size_t size_, used_ = 0;
};

using Long = long long;

void add_shape(Text& text, const char* name, const Problem& p, Index rows, Index heads, Index dim) {
  if (p.varlen) text.add(" --%s %lldx%lldx%lld", name, Long{rows}, Long{heads}, Long{dim});
  else text.add(" --%s %lldx%lldx%lldx%lld", name, Long{p.batch}, Long{rows}, Long{heads}, Long{dim});
}

/// "--window 4095,0"; unlimited sides are −1.
void add_rules(Text& text, const Problem& p) {
  if (p.causal) text.add(" --causal");
  if (p.alignment == Alignment::top_left) text.add(" --alignment top-left");
  if (p.window.left >= 0 || (p.window.right >= 0 && !p.causal))
    text.add(" --window %lld,%lld", Long{p.window.left}, Long{p.window.right});
  if (!p.default_scale) text.add(" --scale %.9g", p.scale);
  if (p.softcap > 0) text.add(" --softcap %.9g", p.softcap);
  if (p.alibi_slopes.present) text.add(" --alibi");
  if (p.mask.present) text.add(" --mask %s", name_of(p.mask.dtype));
  if (p.sinks.present) text.add(" --sinks");
  if (p.row_scale.present) text.add(" --row-scale");
  if (p.key_begin.present || p.key_end.present) text.add(" --key-ranges");
  if (p.score_modifier.apply != nullptr) text.add(" --score-modifier");
  if (p.dropout.probability > 0) text.add(" --dropout %.9g", p.dropout.probability);
  if (p.lse.present) text.add(" --lse");
  if (p.wants_statistics()) text.add(" --statistics");
  if (p.key_weights.present) text.add(" --key-weights");
}

void add_work(Text& text, const Plan::Data& d) {
  const Problem& p = d.problem;
  const Index all = [&] {
    Index n = 0;
    for (Index s = 0; s < p.batch; ++s) n += p.sequences[s].queries * p.sequences[s].keys;
    return n * p.q_heads;
  }();
  text.add("Work: %lld visible pairs of a query and a key", Long{d.work.pairs});
  if (all > 0)
    text.add(", %.1f%% of all; blocks that no row of a tile sees are skipped",
             100.0 * static_cast<double>(d.work.pairs) / static_cast<double>(all));
  text.add(". %.4g GFLOP (2 x pairs x (head_dim %lld + value_dim %lld)); at least %.4g MB move.\n",
           flops_of(p, d.work.pairs) * 1e-9, Long{p.head_dim}, Long{p.value_dim}, least_bytes(p) * 1e-6);
  if (p.mask.present || p.key_begin.present || p.key_end.present || p.score_modifier.apply != nullptr)
    text.add("  Masks, key ranges and score modifiers are read by the run, so the pairs count what they may hide.\n");
}

}  // namespace

std::size_t problem_line(const Plan& plan, char* buffer, std::size_t size) noexcept {
  Text text(buffer, size);
  if (!plan.valid()) return 0;
  const Problem& p = plan.data()->problem;
  text.add("--dtype %s", name_of(p.q.dtype));
  if (p.k.dtype != p.q.dtype || p.v.dtype != p.q.dtype || p.out.dtype != p.q.dtype)
    text.add(",%s,%s,%s", name_of(p.k.dtype), name_of(p.v.dtype), name_of(p.out.dtype));
  add_shape(text, "q", p, p.q_rows, p.q_heads, p.head_dim);
  add_shape(text, "k", p, p.k_rows, p.kv_heads, p.head_dim);
  add_shape(text, "v", p, p.k_rows, p.kv_heads, p.value_dim);
  if (p.varlen) text.add(" --sequences %lld", Long{p.batch});
  add_rules(text, p);
  return text.used();
}

std::size_t explain(const Plan& plan, char* buffer, std::size_t size) noexcept {
  Text text(buffer, size);
  if (!plan.valid()) return 0;
  const Plan::Data& d = *plan.data();
  const Problem& p = d.problem;
  char line[1024];
  problem_line(plan, line, sizeof line);
  text.add("Problem: %s\n", line);
  add_work(text, d);
  text.add(
      "Instruction set: %s, the best that machine, dtype, options and FLASHTILE_ISA allow; %s arithmetic: a row has "
      "the same bits on every instruction set of this family.\n",
      d.isa, d.arithmetic);
  text.add(
      "Tiles: %d query rows (%lld head%s of a group side by side) x %d keys; state restarts every %d keys, so splits "
      "and threads cannot change a bit.\n",
      kTileQueries, Long{p.group()}, p.group() == 1 ? "" : "s", d.shape.block_keys, kChunkKeys);
  text.add(
      "Tasks: %lld of up to %d rows; up to %d neighbouring rows share each packed chunk of keys; %d thread%s (%d of %d CPUs "
      "allowed%s).\n",
      Long{d.work.tasks.size()}, d.shape.task_rows, d.shape.strip_rows, d.threads, d.threads == 1 ? "" : "s",
      d.machine.threads, d.machine.affinity, d.machine.cgroup_quota > 0 ? ", by cgroup quota" : "");
  text.add("Memory: %zu bytes of workspace a worker; the score matrix would be %.4g MB.\n", d.scratch_bytes,
           static_cast<double>(p.q_heads) * static_cast<double>(p.q_rows) * static_cast<double>(p.k_rows) *
               (p.varlen ? 1.0 : static_cast<double>(p.batch)) * (p.is_f64() ? 8e-6 : 4e-6));
  return text.used();
}

}  // namespace flashtile
