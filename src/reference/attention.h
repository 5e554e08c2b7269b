// The definition of attention: fp64, no tiles, every rule of docs/semantics.md in order. It is the documentation of
// what flashtile computes and the oracle of its tests. Nothing here is fast.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "problem/dropout.h"
#include "problem/number.h"
#include "problem/visibility.h"

namespace flashtile::reference {

/// One row of the score matrix and all that follows from it. Real is double, or long double to judge the fp64 kernels.
template <class Real>
struct Row {
  std::vector<Real> raw, capped,
      logits;  // (keys): after scale; after softcap and modifier; after bias, −inf where hidden
  std::vector<Real> weights;              // (keys): P, before dropout
  std::vector<Real> out;                  // (value_dim)
  Real lse, largest_weight = 0, entropy = 0, logit_mean = 0, logit_deviation = 0;
};

template <class Real = double>
Row<Real> attention_row(const Problem& p, const Tensors& t, const Sequence& s, Index head, Index i) {
  constexpr Real kHidden = -std::numeric_limits<Real>::infinity();
  const Index b = s.batch, kv_head = s.keys == 0 ? 0 : head / p.group(), row = s.first_query + i;
  const KeyRange range = s.padding ? KeyRange{} : visible_keys(p, t, s, i);
  Row<Real> r;
  r.raw.assign(s.keys, kHidden), r.capped.assign(s.keys, kHidden), r.logits.assign(s.keys, kHidden);
  r.weights.assign(s.keys, 0), r.out.assign(p.value_dim, 0);

  // S = softcap(scale · q·k), modified, plus bias, where visible
  for (Index j = range.begin; j < range.end; ++j) {
    if (p.mask.present && p.mask.dtype == DType::boolean && element(t.mask, DType::boolean, p.mask.at(b, head, i, j)) == 0)
      continue;
    Real dot = 0;
    for (Index d = 0; d < p.head_dim; ++d)
      dot += Real(element(t.q, p.q.dtype, p.q.at(b, row, head) + d)) *
             Real(element(t.k, p.k.dtype, p.k.at(b, s.first_key + j, kv_head) + d));
    Real x = dot * Real(p.scale);
    if (p.row_scale.present) x *= element(t.row_scale, DType::f32, p.row_scale.at(b, row, head));
    r.raw[j] = x;
    if (p.softcap > 0) x = Real(p.softcap) * std::tanh(x / Real(p.softcap));
    if (p.score_modifier.apply != nullptr) {
      double score64 = static_cast<double>(x);
      float score32 = static_cast<float>(x);
      ScoreTile tile;
      tile.scores = p.is_f64() ? static_cast<void*>(&score64) : &score32;
      tile.dtype = p.is_f64() ? DType::f64 : DType::f32;
      tile.queries = tile.keys = 1, tile.batch = b, tile.head = head, tile.query = i, tile.key = j;
      tile.query_position = s.query_position + i, tile.key_position = s.key_position + j;
      p.score_modifier.apply(p.score_modifier.context, tile);
      x = p.is_f64() ? score64 : score32;
    }
    r.capped[j] = x;
    if (x == kHidden) continue;
    if (p.alibi_slopes.present)
      x -= Real(element(t.alibi_slopes, DType::f32, p.alibi_slopes.at(b, 0, head))) * Real(distance(s, i, j));
    if (p.mask.present && p.mask.dtype != DType::boolean) {
      const Real bias = element(t.mask, p.mask.dtype, p.mask.at(b, head, i, j));
      x = bias == kHidden ? kHidden : x + bias;
    }
    r.logits[j] = x;
  }

  // P = softmax(S), the sink in the denominator only
  Real max = kHidden, sum = 0, count = 0;
  for (Real x : r.logits) max = x > max || x != x ? x : max;
  const bool sink = p.sinks.present && !s.padding;
  const Real sink_logit = sink ? Real(element(t.sinks, DType::f32, p.sinks.at(0, 0, head))) : kHidden;
  if (sink_logit > max) max = sink_logit;
  if (max == kHidden) {
    r.lse = kHidden;
    return r;  // no visible key: out = 0
  }
  if (sink) sum += std::exp(sink_logit - max);
  for (Real x : r.logits)
    if (x != kHidden) sum += std::exp(x - max), r.logit_mean += x, count += 1;
  r.lse = max + std::log(sum);
  if (count > 0) r.logit_mean /= count;

  // O = dropout(P) V
  const Real keep = 1 / (1 - Real(p.dropout.probability));
  Real variance = 0;
  for (Index j = range.begin; j < range.end; ++j) {
    if (r.logits[j] == kHidden) continue;
    const Real w = r.weights[j] = std::exp(r.logits[j] - max) / sum;
    r.largest_weight = w > r.largest_weight || w != w ? w : r.largest_weight;
    if (w != 0) r.entropy -= w * std::log(w);
    variance += (r.logits[j] - r.logit_mean) * (r.logits[j] - r.logit_mean);
    const bool kept = p.dropout.probability == 0 || keeps(p.dropout, b, head, i, j);
    for (Index d = 0; d < p.value_dim; ++d)
      r.out[d] += (kept ? w * keep : Real(0)) * Real(element(t.v, p.v.dtype, p.v.at(b, s.first_key + j, kv_head) + d));
  }
  if (count > 0) r.logit_deviation = std::sqrt(variance / count);
  return r;
}

}  // namespace flashtile::reference
