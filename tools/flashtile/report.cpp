// The human form of a run's report: aligned, at most 80 columns wide unless a name is long.
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "parse.h"
#include "terminal.h"
#include "units.h"

namespace flashtile::cli {
namespace {

void heading(std::string_view text) { fmt::print("\n{}{}{}\n", style().bold, text, style().end); }

std::size_t characters(std::string_view text) {  // of UTF-8
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// The words of a text in lines of at most 78 characters; the first line goes on at column `indent`, all others start
/// there.
void print_wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 78;
  std::size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    const std::size_t width = characters(word);
    if (width == 0) continue;
    const bool first = column == indent;
    if (!first && column + 1 + width > kWidth) {
      fmt::print("\n{:{}}{}", "", indent, word);
      column = indent + width;
    } else {
      fmt::print("{}{}", first ? "" : " ", word);
      column += width + (first ? 0 : 1);
    }
  }
  fmt::print("\n");
}

void line(std::string_view name, const std::string& text) {
  constexpr std::size_t kIndent = 14;
  fmt::print("  {}{:<12}{}", style().dim, name, style().end);
  print_wrapped(text, kIndent);
}

void print_tensor(std::string_view name, const std::string& shape, const char* dtype, const std::string& meaning) {
  fmt::print("  {:<7} {:<23} {:<5} {}{}{}\n", name, shape, dtype, style().dim, meaning, style().end);
}

/// "a/b/layer.npz[q]" without its directories: the line stays short, and --json has it whole.
std::string short_source(const std::string& source) {
  const std::size_t slash = source.rfind('/');
  return slash == std::string::npos ? source : source.substr(slash + 1);
}

void print_formula(const RunReport& r) {
  const Inputs& in = *r.inputs;
  const bool packed = in.packed();
  fmt::print("{}{}{}\n\n", style().bold, formula(r), style().end);
  const auto operand = [](const char* name, const ConstTensor& t, const char* axes, const std::string& source) {
    print_tensor(name, shape_text(t), name_of(t.dtype), fmt::format("{:<13}{}", axes, short_source(source)));
  };
  operand("Q", in.q, packed ? "ΣSq×Hq×D" : "B×Sq×Hq×D", in.q_source);
  operand("K", in.k, packed ? "ΣSk×Hkv×D" : "B×Sk×Hkv×D", in.k_source);
  operand("V", in.v, packed ? "ΣSk×Hkv×Dv" : "B×Sk×Hkv×Dv", in.v_source);
  if (packed) {
    operand("ΣSq", in.cu_seqlens_q, "sequences+1", in.cu_seqlens_q_source);
    operand("ΣSk", in.cu_seqlens_k, "sequences+1", in.cu_seqlens_k_source);
  }
  if (in.mask.present())
    print_tensor("M", shape_text(in.mask), name_of(in.mask.dtype), "mask         " + short_source(in.mask_source));
  if (in.alibi_slopes.present())
    print_tensor("slope", shape_text(in.alibi_slopes), "fp32", "ALiBi        " + short_source(in.alibi_source));
  if (in.sinks.present())
    print_tensor("sink", shape_text(in.sinks), "fp32", "Hq           " + short_source(in.sinks_source));
  const Extents e = in.extents();
  const Span most = in.longest();
  if (packed)
    print_tensor("Q Kᵀ", fmt::format("({}, ≤{}, ≤{})", e.heads, most.queries, most.keys), "",
                 "Hq×Sq×Sk     one a sequence, never stored");
  else
    print_tensor("Q Kᵀ", fmt::format("({}, {}, {}, {})", e.batch, e.heads, e.queries, e.keys), "",
                 "B×Hq×Sq×Sk   never stored");
  print_tensor("O", shape_text(r.out), name_of(r.out.dtype), packed ? "ΣSq×Hq×Dv" : "B×Sq×Hq×Dv");
  print_tensor("LSE", shape_text(r.lse), name_of(r.lse.dtype), packed ? "Hq×ΣSq" : "B×Hq×Sq");
}

std::string timing(const RunReport& r) {
  if (r.seconds.empty()) return seconds_text(r.first_seconds) + " (one call, with LSE and statistics)";
  return fmt::format("best {}, median {} of {} calls for O and LSE", seconds_text(r.best()), seconds_text(r.median()),
                     r.seconds.size());
}

void print_work(const RunReport& r) {
  const PlanFacts& f = r.facts;
  heading("What ran");
  line("problem", r.problem);
  line("engine", fmt::format("{}, {} arithmetic, {} thread{}", f.isa, f.arithmetic, r.threads, r.threads == 1 ? "" : "s"));
  line("tiles", fmt::format("{} queries × {} keys, chunks of {} keys, {} tasks", f.tile_queries, f.block_keys, f.chunk_keys,
                            grouped(f.tasks)));
  line("time", timing(r));
  const double seconds = r.best();
  line("speed", fmt::format("{:.1f} GFLOP/s", seconds > 0 ? f.flops / seconds * 1e-9 : 0));
  line("work",
       fmt::format("{} FLOPs = 2 · {} visible pairs · (D + Dv)", grouped(std::llround(f.flops)), grouped(f.visible_pairs)));
  line("memory", fmt::format("{} in and out at least, {} workspace", bytes_text(f.bytes_min),
                             bytes_text(static_cast<double>(r.workspace))));
  heading("Why");
  for (const std::string& paragraph : split(r.explanation, '\n')) {
    const std::size_t colon = paragraph.find(": ");
    if (paragraph.empty() || paragraph.rfind("Problem:", 0) == 0) continue;  // the problem stands above
    if (colon == std::string::npos || colon > 20) {
      fmt::print("  ");
      print_wrapped(paragraph, 2);
    } else {  // "Tiles: 48 query rows …"
      std::string name = paragraph.substr(0, colon);
      name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
      fmt::print("  {}{:<17}{}", style().dim, name, style().end);
      print_wrapped(paragraph.substr(colon + 2), 19);
    }
  }
}

/// A bar of at most `width` characters, in eighths.
std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share >= 0)) return "";
  const int eighths = static_cast<int>(std::lround(std::min(share, 1.0) * 8 * width));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

void print_heads(const RunReport& r) {
  constexpr std::size_t kShown = 64;
  heading("Heads");
  fmt::print("  {}{:>4}  {:>8}  {:>8}  {:>8}  {:>8}   {}{}\n", style().dim, "", "entropy", "largest", "weight", "logit",
             "entropy as a share of", style().end);
  fmt::print("  {}{:>4}  {:>8}  {:>8}  {:>8}  {:>8}   {}{}\n", style().dim, "head", "mean", "of all", "mean", "mean",
             "ln(keys), the most", style().end);
  const double most = std::log(static_cast<double>(std::max<std::int64_t>(2, r.inputs->longest().keys)));
  for (std::size_t h = 0; h < r.heads.size() && h < kShown; ++h) {
    const HeadSummary& head = r.heads[h];
    if (head.rows == 0) {
      fmt::print("  {:>4}  no row sees a key\n", h);
      continue;
    }
    fmt::print("  {:>4}  {:>8.3f}  {:>8.4f}  {:>8.4f}  {:>8.3f}   {}\n", h, head.entropy, head.largest_weight,
               head.mean_largest_weight, head.logit_mean, bar(head.entropy / most, 20));
  }
  if (r.heads.size() > kShown) fmt::print("  … and {} more heads (all of them with --json)\n", r.heads.size() - kShown);
}

void print_check(const CheckResult& c) {
  heading(fmt::format("Check: {} rows against the {} definition, {}", grouped(c.rows),
                      c.accuracy.inputs == DType::f64 ? "long double" : "fp64", seconds_text(c.seconds)));
  const auto row = [](std::string_view name, double was, double allowed, const std::string& beside) {
    const bool good = was <= allowed;
    const std::string verdict = good ? "ok" : "FAIL";
    fmt::print("  {:<24}{:>9.2e}  bound {:>8.2e}  {}{}{}{}\n", name, was, allowed, good ? style().good : style().bad,
               verdict, style().end, beside.empty() ? "" : fmt::format("{:{}}{}", "", 6 - verdict.size(), beside));
  };
  const auto plain = [](std::string_view name, double was, const std::string& beside) {
    fmt::print("  {:<24}{:>9.2e}{:>24}{}\n", name, was, "", beside);
  };
  row("O, relative rms", c.relative_rms, c.rms_bound, fmt::format("rounding alone {:.2e}", c.rounding_rms));
  row("O, worst element", c.worst_element, 1, "as a share of its bound");
  row("LSE, largest error", c.lse_max_abs, c.lse_bound, "");
  plain("O, largest error", c.max_abs, fmt::format("rounding alone {:.2e}", c.rounding_max_abs));
  plain("largest weight", c.largest_weight_max_abs, "largest error");
  plain("entropy", c.entropy_max_abs, "largest error");
  plain("logit mean", c.logit_mean_max_abs, "largest error");
  plain("logit deviation", c.logit_deviation_max_abs, "largest error");
  if (c.not_finite > 0) fmt::print("  {} NaN or infinite numbers, the same in both\n", grouped(c.not_finite));
  if (c.disagreements > 0)
    fmt::print("  {}{} numbers are NaN or infinite in only one of the two: FAIL{}\n", style().bad, grouped(c.disagreements),
               style().end);
  fmt::print("  {}{}{}\n", c.passed() ? style().good : style().bad,
             c.passed() ? "Within the bounds of docs/numerics.md." : "Beyond the bounds of docs/numerics.md.", style().end);
}

}  // namespace

double RunReport::best() const {
  return seconds.empty() ? first_seconds : *std::min_element(seconds.begin(), seconds.end());
}

double RunReport::median() const {
  if (seconds.empty()) return first_seconds;
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[sorted.size() / 2] + sorted[(sorted.size() - 1) / 2]) / 2;
}

std::string formula(const RunReport& r) {
  const Options& o = *r.options;
  const double head_dim = static_cast<double>(r.inputs->extents().head_dim);
  const std::string scale = o.scale ? fmt::format("{:g}", *o.scale) : fmt::format("{:.6g}", 1 / std::sqrt(head_dim));
  std::string logit = scale + " · Q Kᵀ";
  if (o.softcap > 0) logit = fmt::format("{:g} tanh({} / {:g})", o.softcap, logit, o.softcap);
  if (o.alibi_slopes.present()) logit += " − slope · distance";
  if (o.mask.present() && o.mask.dtype != DType::boolean) logit += " + M";
  std::vector<std::string> rules;
  if (o.mask.present() && o.mask.dtype == DType::boolean) rules.emplace_back("M");
  if (o.causal) rules.emplace_back(o.alignment == Alignment::top_left ? "causal (top-left)" : "causal");
  if (o.window.left >= 0 || o.window.right >= 0) {
    const auto side = [](std::int64_t n) { return n < 0 ? std::string("∞") : std::to_string(n); };
    rules.push_back(fmt::format("window ({}, {})", side(o.window.left), side(o.window.right)));
  }
  const std::string visible = rules.empty() ? "" : ", visible: " + join(rules, ", ");
  const std::string sink = o.sinks.present() ? " with sink" : "";
  return fmt::format("O = softmax({}{}{}) V", logit, visible, sink);
}

void print_report(const RunReport& r) {
  print_formula(r);
  print_work(r);
  print_heads(r);
  if (r.check) print_check(*r.check);
  if (!r.written.empty()) fmt::print("\nWrote {}: {}\n", r.written, join(r.written_names, ", "));
  std::fflush(stdout);
}

}  // namespace flashtile::cli
