// The arithmetic of a row, amx family: as model.h, but both products are made of tile products, weights are rounded to
// bf16 before they meet the values, and O is divided by the sum of the rounded weights. The bitwise oracle of the tile
// unit's kernels and of their software twin; it knows no tiles of queries, no layouts and no tasks.
//
// REQUIRES: bf16 q, k and v, the kernels' floating-point environment and no contraction.
#pragma once

#include "reference/model.h"

namespace flashtile::reference {

struct ModelAmx : Model<float> {
  /// 32 places of an operand; what is not set is 0.
  struct Places {
    float at[32] = {};
  };
  /// A bf16 number as the unit reads it.
  static float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

  /// c + a·b: two chains from zero, over even and over odd places; their sum is added to c.
  static float tile_product(const Places& a, const Places& b, float c) {
    float even = 0, odd = 0;
    for (int i = 0; i < 32; i += 2) {
      even = std::fma(flushed(a.at[i]), flushed(b.at[i]), even);
      odd = std::fma(flushed(a.at[i + 1]), flushed(b.at[i + 1]), odd);
    }
    return c + (even + odd);
  }

  /// q·k in groups of 32 dims, ascending.
  float tile_dot(Index j) const {
    float sum = 0;
    for (Index g = 0; g < p.head_dim; g += 32) {
      Places a, b;
      for (Index d = g; d < g + 32 && d < p.head_dim; ++d) a.at[d - g] = key(j, d), b.at[d - g] = query(d);
      sum = tile_product(a, b, sum);
    }
    return sum;
  }

  /// Folds keys [range) of one block into a chunk's state, whose `out` has one more column: of ones, without dropout.
  void fold_block_of_tiles(KeyRange range, float shift, State& state) const {
    std::vector<float> logits;
    for (Index j = range.begin; j < range.end; ++j) logits.push_back(logit(j, tile_dot(j)));
    float shrink = 0;
    const std::vector<float> weights = fold_weights(logits, shift, state, shrink);
    for (float& o : state.out) o = o * shrink;
    for (Index j = range.begin; j < range.end;) {
      const KeyRange group = cell_of(s, j, 32, range);  // keys at multiples of 32 positions
      for (Index d = 0; d <= p.value_dim; ++d) {
        Places a, b;
        for (j = group.begin; j < group.end; ++j) {
          if (logits[j - range.begin] == -kInf) continue;  // a hidden key adds nothing, not even 0 · NaN
          const Index place = s.key_position + j - floor_div(s.key_position + j, 32) * 32;
          const float weight = to_float(to_bf16(weights[j - range.begin]));
          a.at[place] = d < p.value_dim ? value(j, d) : 1.0f;
          b.at[place] = d < p.value_dim ? weight * kept(j) : weight;
        }
        state.out[d] = tile_product(a, b, state.out[d]);
      }
    }
  }

  ModelRow<float> run_on_tiles() const {
    const auto folded = [&](float shift) {
      return fold(p.value_dim + 1, [&](KeyRange range, State& state) { fold_block_of_tiles(range, shift, state); });
    };
    State state = folded(0);
    const float shift = again(state) ? 32 : 0;
    if (shift != 0) state = folded(shift);
    return finish(state, shift, state.out.back());
  }
};

inline ModelRow<float> model_row_amx(const Problem& p, const Tensors& t, const Sequence& s, Index head, Index i) {
  return ModelAmx{{p, t, s, head, i}}.run_on_tiles();
}

}  // namespace flashtile::reference
