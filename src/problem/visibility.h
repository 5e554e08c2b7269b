// Which keys a query sees. The only place that compares positions of queries and keys.
//
// Causal masks, windows, lengths and key ranges leave each row one range of keys, so kernels ask for ranges; what is
// not a range (masks, score modifiers, dropout) is applied element by element in tile/logit.h.
#pragma once

#include "problem/problem.h"

namespace flashtile {

/// Keys begin ≤ j < end of a sequence. Empty ranges are all written {x, x}.
struct KeyRange {
  Index begin, end;

  FT_INLINE Index size() const { return end - begin; }
  FT_INLINE bool empty() const { return end <= begin; }
};

FT_INLINE Index smaller(Index a, Index b) { return a < b ? a : b; }
FT_INLINE Index larger(Index a, Index b) { return a > b ? a : b; }

/// The smallest range that holds the keys of both.
FT_INLINE KeyRange covering(KeyRange a, KeyRange b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {smaller(a.begin, b.begin), larger(a.end, b.end)};
}

/// The keys of both.
FT_INLINE KeyRange common(KeyRange a, KeyRange b) {
  const Index begin = larger(a.begin, b.begin);
  return {begin, larger(begin, smaller(a.end, b.end))};
}

/// The keys of a block that are in `keys`, counted from its first.
FT_INLINE KeyRange within(KeyRange block, KeyRange keys) {
  const KeyRange both = common(block, keys);
  return {both.begin - block.begin, both.end - block.begin};
}

/// Key position visible from query position, by the window alone:  p_q − left ≤ p_k ≤ p_q + right.
FT_INLINE bool visible(const Window& w, Index query_position, Index key_position) {
  return (w.left < 0 || key_position >= query_position - w.left) &&
         (w.right < 0 || key_position <= query_position + w.right);
}

/// The same rule as a range of key indices of a sequence.
FT_INLINE KeyRange visible_keys(const Window& w, const Sequence& s, Index i) {
  const Index at = s.query_position + i - s.key_position;  // index that a key at the query's own position would have
  const Index begin = w.left < 0 ? 0 : larger(0, smaller(at - w.left, s.keys));
  const Index end = w.right < 0 ? s.keys : smaller(s.keys, larger(at + w.right + 1, 0));
  return {begin, larger(begin, end)};
}

/// Window, lengths and the row's own key range together: all rules that are ranges.
FT_INLINE KeyRange visible_keys(const Problem& p, const Tensors& t, const Sequence& s, Index i) {
  KeyRange r = visible_keys(p.window, s, i);
  const Index row = s.first_query + i;
  if (p.key_begin.present)
    r.begin = larger(r.begin, static_cast<const std::int32_t*>(t.key_begin)[p.key_begin.at(s.batch, row, 0)]);
  if (p.key_end.present) r.end = smaller(r.end, static_cast<const std::int32_t*>(t.key_end)[p.key_end.at(s.batch, row, 0)]);
  return {r.begin, larger(r.begin, r.end)};
}

/// Distance that ALiBi multiplies by −slope.
FT_INLINE Index distance(const Sequence& s, Index i, Index j) {
  const Index d = (s.query_position + i) - (s.key_position + j);
  return d < 0 ? -d : d;
}

}  // namespace flashtile
