// The arithmetic of a row, fma family: every operation that a kernel performs on a row, in its order, one key at a
// time. docs/numerics.md says the same in words. This is the bitwise oracle of all kernels; it knows no tiles, lanes or
// tasks.
//
// REQUIRES: the kernels' floating-point environment (round to nearest, denormals are 0) and no contraction.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "problem/dropout.h"
#include "problem/key_grid.h"
#include "problem/number.h"
#include "problem/polynomials.h"

namespace flashtile::reference {

template <class T>
struct ModelRow {
  std::vector<T> out;  // before conversion to the output's dtype
  T lse = 0, largest_weight = 0, entropy = 0, logit_mean = 0, logit_deviation = 0;
};

template <class T>
struct Model {
  static constexpr T kInf = std::numeric_limits<T>::infinity(), kMax = std::numeric_limits<T>::max();
  static constexpr T kEmpty = sizeof(T) == 4 ? T(-0x1p127) : T(-0x1p1023);
  static constexpr T kMost = sizeof(T) == 4 ? T(0x1p45) : T(0x1p450), kFar = -4096, kLn2 = T(0.69314718055994530942);
  using P = Polynomials<T>;

  static T larger_of(T a, T b) { return a > b ? a : b; }  // b when either is a NaN

  /// 2^(t − m), m an integer.
  static T exp2(T t, T m) {
    t = larger_of(-kMax, t);
    const T n = std::rint(t), f = t - n;
    T p = 0;
    for (int i = sizeof(P::exp2) / sizeof(T) - 1; i >= 0; --i)
      p = i + 1 == int(sizeof(P::exp2) / sizeof(T)) ? P::exp2[i] : std::fma(p, f, P::exp2[i]);
    p = std::fma(p, f, T{1});
    constexpr int kLeast = sizeof(T) == 4 ? -127 : -1023;
    const T e = n - m;
    if (!(e > kLeast)) return p * T{0};
    return p * std::ldexp(T{1}, static_cast<int>(e));
  }
  static T tanh(T x) {
    const T square = x * x;
    constexpr int n = sizeof(P::tanh) / sizeof(T);
    T p = P::tanh[n - 1];
    for (int i = n - 2; i >= 0; --i) p = std::fma(p, square, P::tanh[i]);
    if (std::fabs(x) < P::kTanhSmall) return std::fma(p * square, x, x);
    const T q = exp2(std::fabs(x) * (T{-2} * P::kLog2E), 0), large = 1 - (q + q) / (1 + q);
    return x < 0 ? T{0} - large : large;
  }
  /// ln(2^e · l).
  static T log(T l, T e) {
    if (!(l < kInf)) return l + e;
    int exponent = 0;
    T g = std::frexp(l, &exponent);  // ½ ≤ g < 1
    if (g < T(0.70710678118654752440)) g = g + g, --exponent;
    const T s = (g - 1) / (g + 1), z = s * s, n = e + static_cast<T>(exponent);
    constexpr int terms = sizeof(P::log) / sizeof(T);
    T p = P::log[terms - 1];
    for (int i = terms - 2; i >= 0; --i) p = std::fma(p, z, P::log[i]);
    return std::fma(n, P::kLn2High, std::fma(n, P::kLn2Low, std::fma(p * z, s, s + s)));
  }
  /// t + bias · log2 e; −inf hides, finite numbers stay finite.
  static T biased(T t, T bias) {
    if (bias == -kInf || t == -kInf) return -kInf;
    const T sum = std::fma(bias, P::kLog2E, t);
    const bool finite = std::fabs(t) <= kMax && std::fabs(bias) <= kMax;
    return finite ? larger_of(sum < kMax ? sum : kMax, kEmpty) : sum;
  }

  struct State {
    T max = kEmpty, sum = 0, top = -kInf, moment = 0, count = 0, mean = 0, square = 0;
    std::vector<T> out;
  };
  static T distance_down(T a, T b) { return larger_of(a - b, kFar); }
  static void add_moments(State& a, T count, T mean, T square) {
    const T all = a.count + count, delta = mean - a.mean, share = count / larger_of(1, all);
    a.mean = std::fma(delta, share, a.mean);
    a.square = a.square + std::fma(delta * delta, a.count * share, square);
    a.count = all;
  }

  const Problem& p;
  const Tensors& t;
  const Sequence& s;
  Index head, i;

  Index row() const { return s.first_query + i; }
  T input(const void* data, DType type, Index at) const {
    return type == DType::f64 ? T(static_cast<const double*>(data)[at]) : T(element(data, type, at));
  }

  T query(Index d) const { return input(t.q, p.q.dtype, p.q.at(s.batch, row(), head) + d); }
  T key(Index j, Index d) const { return input(t.k, p.k.dtype, p.k.at(s.batch, s.first_key + j, head / p.group()) + d); }
  T value(Index j, Index d) const { return input(t.v, p.v.dtype, p.v.at(s.batch, s.first_key + j, head / p.group()) + d); }
  T kept(Index j) const { return p.dropout.probability == 0 || keeps(p.dropout, s.batch, head, i, j); }

  T dot(Index j) const {
    T sum = 0;
    for (Index d = 0; d < p.head_dim; ++d) sum = std::fma(query(d), key(j, d), sum);
    return sum;
  }

  /// The logit of key j in base 2, from q·k; −inf when hidden.
  T logit(Index j, T dot) const {
    const Index b = s.batch;
    const bool modifier = p.score_modifier.apply != nullptr;
    const double unit = modifier ? 1.0 : Polynomials<double>::kLog2E;
    T factor = T(p.softcap > 0 ? p.scale / p.softcap : p.scale * unit);
    if (p.row_scale.present) factor *= T(element(t.row_scale, DType::f32, p.row_scale.at(b, row(), head)));
    T x = dot * factor;
    if (p.softcap > 0) x = T(p.softcap * unit) * tanh(x);
    if (modifier) {
      ScoreTile tile;
      tile.scores = &x, tile.dtype = sizeof(T) == 8 ? DType::f64 : DType::f32, tile.queries = tile.keys = 1;
      tile.batch = b, tile.head = head, tile.query = i, tile.key = j;
      tile.query_position = s.query_position + i, tile.key_position = s.key_position + j;
      p.score_modifier.apply(p.score_modifier.context, tile);
      x = x * P::kLog2E;
    }
    if (p.alibi_slopes.present) {
      const T slope = -T(element(t.alibi_slopes, DType::f32, p.alibi_slopes.at(b, 0, head)));
      x = biased(x, slope * static_cast<T>(distance(s, i, j)));
    }
    if (!p.mask.present) return x;
    const double m = element(t.mask, p.mask.dtype, p.mask.at(b, head, i, j));
    if (p.mask.dtype == DType::boolean) return m == 0 ? -kInf : x;
    return biased(x, std::isfinite(m) ? T(std::fmax(-double{kMax}, std::fmin(m, double{kMax}))) : T(m));
  }

  /// The weights of a block's keys, folded into all of a chunk's state but `out`, which is to shrink.
  std::vector<T> fold_weights(const std::vector<T>& logits, T shift, State& state, T& shrink) const {
    std::vector<T> weights;
    T top = -kInf, sum = 0, moment = 0, count = 0, mean = 0, square = 0;
    for (T x : logits) top = larger_of(x, top);
    const T old = state.max;
    state.max = larger_of(std::ceil(top), old);
    shrink = exp2(old, state.max);
    for (T x : logits)
      if (x != -kInf) count = count + 1, mean = mean + larger_of(-kMost, kMost < x ? kMost : x);
    mean = mean / larger_of(1, count);
    for (T x : logits) {
      weights.push_back(0);
      if (x == -kInf) continue;
      const T w = exp2(x, state.max + shift), deviation = larger_of(-kMost, kMost < x ? kMost : x) - mean;
      weights.back() = w;
      sum = sum + w;
      moment = std::fma(w, distance_down(x, state.max), moment);
      square = std::fma(deviation, deviation, square);
    }
    state.moment = std::fma(std::fma(distance_down(old, state.max), state.sum, state.moment), shrink, moment);
    state.sum = std::fma(state.sum, shrink, sum);
    state.top = larger_of(top, state.top);
    add_moments(state, count, mean, square);
    return weights;
  }

  /// Folds keys [range) of one block into a chunk's state.
  void fold_block(KeyRange range, T shift, State& state) const {
    std::vector<T> logits, out(p.value_dim, T{0});
    for (Index j = range.begin; j < range.end; ++j) logits.push_back(logit(j, dot(j)));
    T shrink = 0;
    const std::vector<T> weights = fold_weights(logits, shift, state, shrink);
    for (Index j = range.begin; j < range.end; ++j) {
      if (logits[j - range.begin] == -kInf) continue;  // a hidden key adds nothing, not even 0 · NaN
      for (Index d = 0; d < p.value_dim; ++d) out[d] = std::fma(weights[j - range.begin] * kept(j), value(j, d), out[d]);
    }
    for (Index d = 0; d < p.value_dim; ++d) state.out[d] = std::fma(state.out[d], shrink, out[d]);
  }

  static void merge(State& a, const State& b) {
    const T max = larger_of(b.max, a.max), sa = exp2(a.max, max), sb = exp2(b.max, max);
    a.moment = std::fma(std::fma(distance_down(a.max, max), a.sum, a.moment), sa,
                        std::fma(distance_down(b.max, max), b.sum, b.moment) * sb);
    a.sum = std::fma(a.sum, sa, b.sum * sb);
    a.top = larger_of(b.top, a.top);
    add_moments(a, b.count, b.mean, b.square);
    for (std::size_t d = 0; d < a.out.size(); ++d) a.out[d] = std::fma(a.out[d], sa, b.out[d] * sb);
    a.max = max;
  }

  /// fold_block(range, state) for all blocks that the row sees; `width` numbers in each `out`.
  template <class FoldBlock>
  State fold(Index width, FoldBlock fold_block) const {
    State total, empty;
    empty.out.assign(width, 0), total.out.assign(width, 0);
    const KeyRange seen = s.padding ? KeyRange{} : visible_keys(p, t, s, i);
    const Index block = block_keys(sizeof(T) == 8, p.head_dim, p.value_dim);
    for (Index j = seen.begin; j < seen.end;) {
      const KeyRange chunk = cell_of(s, j, kChunkKeys, seen);
      State state = empty;
      for (; j < chunk.end; j = cell_of(s, j, block, chunk).end) fold_block(cell_of(s, j, block, chunk), state);
      merge(total, state);
    }
    return total;
  }
  /// Unnormalised O overflowed where the answer need not: once more with weights 2^32 times smaller.
  bool again(const State& state) const {
    bool overflow = false;
    for (Index d = 0; d < p.value_dim; ++d) overflow = overflow || !std::isfinite(state.out[d]);
    return overflow && std::isfinite(state.sum);
  }

  /// The sink joins `sum`, and `divisor`, by which O is divided.
  ModelRow<T> finish(State state, T shift, T divisor) const {
    ModelRow<T> r;
    const T keys_max = state.max, keys_sum = state.sum;
    T shrink = 1;
    if (p.sinks.present && !s.padding) {
      const T sink = T(element(t.sinks, DType::f32, p.sinks.at(0, 0, head))) * P::kLog2E;
      state.max = larger_of(std::ceil(sink), state.max);
      shrink = exp2(keys_max, state.max);
      state.sum = std::fma(state.sum, shrink, exp2(sink, state.max + shift));
      divisor = std::fma(divisor, shrink, exp2(sink, state.max + shift));
    }
    const T inverse = state.sum != 0 ? T{1} / state.sum : T{0}, out_inverse = divisor != 0 ? T{1} / divisor : T{0};
    const T keep = p.dropout.probability > 0 ? out_inverse * T(1.0 / (1.0 - p.dropout.probability)) : out_inverse;
    for (Index d = 0; d < p.value_dim; ++d) r.out.push_back(std::fma(state.out[d] * shrink, keep, T{0}));
    r.lse = state.sum == 0 ? -kInf : log(state.sum, state.max + shift);
    const T nan = state.sum - state.sum;
    r.largest_weight = r.entropy = r.logit_mean = r.logit_deviation = nan;
    if (state.count == 0) return r;
    r.largest_weight = exp2(state.top, state.max + shift) * inverse + nan;
    const T moment = std::fma(distance_down(keys_max, state.max), keys_sum, state.moment) * shrink;
    r.entropy = std::fma(log(state.sum, shift), keys_sum * shrink * inverse, -kLn2 * (moment * inverse)) + nan;
    r.logit_mean = state.mean * kLn2 + nan;
    r.logit_deviation = std::sqrt(state.square / state.count) * kLn2 + nan;
    return r;
  }

  ModelRow<T> run() const {
    const auto folded = [&](T shift) {
      return fold(p.value_dim, [&](KeyRange range, State& state) { fold_block(range, shift, state); });
    };
    State state = folded(0);
    const T shift = again(state) ? 32 : 0;
    if (shift != 0) state = folded(shift);
    return finish(state, shift, state.sum);
  }
};

template <class T>
ModelRow<T> model_row(const Problem& p, const Tensors& t, const Sequence& s, Index head, Index i) {
  return Model<T>{p, t, s, head, i}.run();
}

}  // namespace flashtile::reference
