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

// Characters of one packed axis. Three of them and all rules fit into a line of 4096 (FLASHTILE_VERBOSE).
constexpr std::size_t kMostLengths = 1000;

/// What the sequences of a packed axis add up to, neighbours of one length together: "17+300+3*2048". Stops a little
/// beyond kMostLengths.
void add_lengths(Text& text, const Problem& p, Index Sequence::* length) {
  const std::size_t begin = text.used();
  for (Index s = 0; s < p.batch && text.used() - begin <= kMostLengths;) {
    const Index n = p.sequences[s].*length;
    Index same = 1;
    while (s + same < p.batch && p.sequences[s + same].*length == n) ++same;
    if (s > 0) text.add("+");
    if (same > 1) text.add("%lld*", Long{same});
    text.add("%lld", Long{n});
    s += same;
  }
}

/// Whether the lengths of the sequences describe the packed rows: not when rows belong to no sequence, nor in a long line.
bool lengths_are_shown(const Problem& p) {
  if (!p.varlen || p.batch == 0 || p.sequence_count > p.batch) return false;
  Text queries(nullptr, 0), keys(nullptr, 0);
  add_lengths(queries, p, &Sequence::queries);
  add_lengths(keys, p, &Sequence::keys);
  return queries.used() <= kMostLengths && keys.used() <= kMostLengths;
}

/// " --q 1x2048x8x128", " --k 17+300x2x64" or, without lengths, " --q 317x8x64".
void add_shape(Text& text, const char* name, const Problem& p, Index rows, Index heads, Index dim,
               Index Sequence::* length) {
  text.add(" --%s ", name);
  if (!p.varlen) text.add("%lldx%lld", Long{p.batch}, Long{rows});
  else if (lengths_are_shown(p)) add_lengths(text, p, length);
  else text.add("%lld", Long{rows});
  text.add("x%lldx%lld", Long{heads}, Long{dim});
}

/// Pairs of a query and a key of the same sequence, visible or not, over all query heads.
Index all_pairs(const Problem& p) {
  Index n = 0;
  for (Index s = 0; s < p.batch; ++s) n += p.sequences[s].queries * p.sequences[s].keys;
  return n * p.q_heads;
}

void add_statistics(Text& text, const Problem& p) {
  const struct {
    const Axes& axes;
    const char* word;
  } rows[] = {{p.largest_weight, " --largest-weight"},
              {p.entropy, " --entropy"},
              {p.logit_mean, " --logit-mean"},
              {p.logit_deviation, " --logit-deviation"}};
  int present = 0;
  for (const auto& row : rows) present += row.axes.present ? 1 : 0;
  if (present == 4) text.add(" --statistics");
  else
    for (const auto& row : rows)
      if (row.axes.present) text.add("%s", row.word);
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
  add_statistics(text, p);
  if (p.key_weights.present) text.add(" --key-weights");
}

void add_work(Text& text, const Plan::Data& d) {
  const Problem& p = d.problem;
  const Index all = all_pairs(p);
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
  add_shape(text, "q", p, p.q_rows, p.q_heads, p.head_dim, &Sequence::queries);
  add_shape(text, "k", p, p.k_rows, p.kv_heads, p.head_dim, &Sequence::keys);
  add_shape(text, "v", p, p.k_rows, p.kv_heads, p.value_dim, &Sequence::keys);
  if (p.varlen && !lengths_are_shown(p)) text.add(" --sequences %lld", Long{p.batch});
  add_rules(text, p);
  return text.used();
}

std::size_t explain(const Plan& plan, char* buffer, std::size_t size) noexcept {
  Text text(buffer, size);
  if (!plan.valid()) return 0;
  const Plan::Data& d = *plan.data();
  const Problem& p = d.problem;
  char line[4096];
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
  const double scores = p.varlen ? static_cast<double>(all_pairs(p))
                                 : static_cast<double>(p.q_heads) * static_cast<double>(p.batch) *
                                       static_cast<double>(p.q_rows) * static_cast<double>(p.k_rows);
  text.add("Memory: %zu bytes of workspace a worker; the score matri%s would be %.4g MB.\n", d.scratch_bytes,
           p.varlen ? "ces of the sequences" : "x", scores * (p.is_f64() ? 8e-6 : 4e-6));
  return text.used();
}

}  // namespace flashtile
