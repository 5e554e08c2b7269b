#include "problem/problem.h"

#include <cmath>
#include <limits>

#include "problem/check.h"
#include "problem/operands.h"

namespace flashtile {
namespace {

Index max_queries(const Problem& p) {
  Index n = 0;
  for (Index b = 0; b < p.batch; ++b) n = p.sequences[b].queries > n ? p.sequences[b].queries : n;
  return p.varlen ? n : p.q_rows;
}
Index max_keys(const Problem& p) {
  Index n = 0;
  for (Index b = 0; b < p.batch; ++b) n = p.sequences[b].keys > n ? p.sequences[b].keys : n;
  return p.varlen ? n : p.k_rows;
}

/// (B, H, S) dense, (H, total) varlen.
Status check_rows(const char* name, const ConstTensor& t, DType dtype, Index heads, Index rows, bool broadcasts,
                  const Problem& p, Axes& axes) noexcept {
  if (!t.present()) return {};
  Index s[3] = {};
  if (p.varlen) {
    FT_TRY(check_tensor(name, t, {dtype}, {{"heads", heads, broadcasts}, {"total", rows}}, s + 1));
  } else {
    FT_TRY(
        check_tensor(name, t, {dtype}, {{"batch", p.batch, broadcasts}, {"heads", heads, broadcasts}, {"rows", rows}}, s));
  }
  axes = {true, dtype, s[0], s[2], s[1]};
  return {};
}

Status check_row_output(const char* name, const Tensor& t, Index rows, const Problem& p, Axes& axes) noexcept {
  FT_TRY(check_rows(name, t, p.is_f64() ? DType::f64 : DType::f32, p.q_heads, rows, false, p, axes));
  return check_writable(name, t);
}

Status check_mask(const ConstTensor& t, Problem& p) noexcept {
  if (!t.present()) return {};
  const bool flat = t.rank == 2;
  FT_CHECK(flat || t.rank == 4, "mask has rank %d; expected 4, (B|1, Hq|1, Sq|1, Sk), or 2, (Sq|1, Sk)", t.rank);
  const Extent query{"Sq", max_queries(p), true, p.varlen}, key{"Sk", max_keys(p), false, p.varlen};
  Index s[4] = {};
  const std::initializer_list<DType> dtypes = {DType::boolean, DType::f32, DType::f64, DType::f16, DType::bf16};
  if (flat) {
    FT_TRY(check_tensor("mask", t, dtypes, {query, key}, s + 2));
  } else {
    FT_TRY(check_tensor("mask", t, dtypes, {{"B", p.batch, true}, {"Hq", p.q_heads, true}, query, key}, s));
  }
  p.mask = {true, t.dtype, s[0], s[1], s[2], s[3]};
  return {};
}

Status check_head_vectors(const Options& o, Problem& p) noexcept {
  if (o.alibi_slopes.present()) {
    Index s[2] = {};
    if (o.alibi_slopes.rank == 1)
      FT_TRY(check_tensor("alibi_slopes", o.alibi_slopes, {DType::f32}, {{"Hq", p.q_heads}}, s + 1));
    else FT_TRY(check_tensor("alibi_slopes", o.alibi_slopes, {DType::f32}, {{"B", p.batch, true}, {"Hq", p.q_heads}}, s));
    p.alibi_slopes = {true, DType::f32, s[0], 0, s[1]};
  }
  if (o.sinks.present()) {
    Index s = 0;
    FT_TRY(check_tensor("sinks", o.sinks, {DType::f32}, {{"Hq", p.q_heads}}, &s));
    p.sinks = {true, DType::f32, 0, 0, s};
  }
  return {};
}

Status check_key_range(const char* name, const ConstTensor& t, const Problem& p, Axes& axes) noexcept {
  if (!t.present()) return {};
  Index s[2] = {};
  if (p.varlen) FT_TRY(check_tensor(name, t, {DType::i32}, {{"total_q", p.q_rows}}, s + 1));
  else FT_TRY(check_tensor(name, t, {DType::i32}, {{"B", p.batch, true}, {"Sq", p.q_rows}}, s));
  axes = {true, DType::i32, s[0], s[1], 0};
  return {};
}

Status check_numbers(const Options& o, Problem& p) noexcept {
  const auto edge = [](Index w, const char* name) -> Status {
    FT_CHECK(w >= -1, "window.%s = %lld; expected −1 (unlimited) or a number of neighbours, 0 or more", name,
             static_cast<long long>(w));
    return {};
  };
  FT_TRY(edge(o.window.left, "left"));
  FT_TRY(edge(o.window.right, "right"));
  p.window = {o.window.left > kFar ? -1 : o.window.left, o.window.right > kFar ? -1 : o.window.right};
  if (o.causal) p.window.right = 0;
  p.causal = o.causal, p.alignment = o.alignment;
  FT_CHECK(o.alignment == Alignment::bottom_right || o.alignment == Alignment::top_left,
           "alignment = %d; expected bottom_right or top_left", static_cast<int>(o.alignment));

  // fp32 kernels hold scale · log2 e and scale / softcap in fp32: refuse what would become infinite or vanish there.
  const double most = p.is_f64() ? 1e300 : 1e38, least = p.is_f64() ? 1e-300 : 0x1p-120;
  p.default_scale = !o.scale.has_value();
  p.scale = o.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.head_dim)));
  FT_CHECK(std::fabs(p.scale) <= most, "scale = %g; expected a finite number of magnitude at most %g", p.scale, most);
  p.softcap = o.softcap;
  FT_CHECK(p.softcap == 0 || (p.softcap >= least && p.softcap <= most && std::fabs(p.scale / p.softcap) <= most),
           "softcap = %g; expected 0 (off) or a positive number from %g to %g", p.softcap, least, most);

  p.dropout = o.dropout;
  FT_CHECK(o.dropout.probability >= 0 && o.dropout.probability < 1, "dropout.probability = %g; expected 0 ≤ p < 1",
           o.dropout.probability);
  p.score_modifier = o.score_modifier;
  FT_CHECK(o.score_modifier.coverage == nullptr || o.score_modifier.apply != nullptr,
           "score_modifier.coverage is given without score_modifier.apply; expected both or apply alone");
  FT_CHECK(static_cast<int>(o.arithmetic) <= static_cast<int>(Arithmetic::amx),
           "arithmetic = %d; expected automatic, fma or amx", static_cast<int>(o.arithmetic));
  FT_CHECK(static_cast<int>(o.isa) <= static_cast<int>(Isa::amx_emulated), "isa = %d; expected a value of enum Isa",
           static_cast<int>(o.isa));
  FT_CHECK(o.threads >= 0 && o.threads <= 4096, "threads = %d; expected 0 (automatic) to 4096", o.threads);
  p.arithmetic = o.arithmetic, p.isa = o.isa, p.threads = o.threads;
  return {};
}

}  // namespace

Status try_problem(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out, const Options& o,
                   Problem& p) noexcept {
  p = Problem{};
  p.varlen = o.cu_seqlens_q.present() || o.cu_seqlens_k.present();
  FT_TRY(check_operands(q, k, v, out, p));
  FT_TRY(check_numbers(o, p));
  FT_TRY(make_sequences(o, p));
  FT_TRY(check_mask(o.mask, p));
  FT_TRY(check_head_vectors(o, p));
  FT_TRY(check_rows("row_scale", o.row_scale, DType::f32, p.q_heads, p.q_rows, true, p, p.row_scale));
  FT_TRY(check_key_range("key_begin", o.key_begin, p, p.key_begin));
  FT_TRY(check_key_range("key_end", o.key_end, p, p.key_end));
  FT_TRY(check_row_output("lse", o.lse, p.q_rows, p, p.lse));
  FT_TRY(check_row_output("largest_weight", o.statistics.largest_weight, p.q_rows, p, p.largest_weight));
  FT_TRY(check_row_output("entropy", o.statistics.entropy, p.q_rows, p, p.entropy));
  FT_TRY(check_row_output("logit_mean", o.statistics.logit_mean, p.q_rows, p, p.logit_mean));
  FT_TRY(check_row_output("logit_deviation", o.statistics.logit_deviation, p.q_rows, p, p.logit_deviation));
  FT_TRY(check_row_output("key_weights", o.key_weights, p.k_rows, p, p.key_weights));
  return {};
}

}  // namespace flashtile
