// Public bugs, group A5: strides, alignment, size. Each test is named after its case; the thread that reported the bug
// is quoted beside it.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

// pytorch PR #187506, flag_gems#5896, ROCm/pytorch#3230: every layout with an innermost stride of 1 gives the same
// bits, also when only one of q, k and v is stored otherwise.
TEST(A5_StridesAlignmentSize, A5_1_LayoutsGiveEqualBits) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.batch = 2, .queries = 9, .keys = 70, .q_heads = 4, .kv_heads = 2, .head_dim = 20, .value_dim = 12};
    Case dense(shape, s.dtype);
    dense.options.isa = s.isa;
    dense.fill_normal(61);
    ASSERT_TRUE(runs_right(dense));
    for (Layout layout : {Layout::bhsd, Layout::padded}) {
      Case all(shape, s.dtype, layout);
      all.options.isa = s.isa;
      all.copy_inputs(dense);
      EXPECT_TRUE(same_results(dense, all));
      for (Array Case::* one : {&Case::q, &Case::k, &Case::v, &Case::out}) {
        Case mixed(shape, s.dtype);
        mixed.options.isa = s.isa;
        mixed.copy_inputs(dense);
        std::swap(mixed.*one, all.*one);
        EXPECT_TRUE(same_results(dense, mixed));
        std::swap(mixed.*one, all.*one);
      }
      for (Array* a : all.written()) EXPECT_TRUE(a->surroundings_intact());
    }
  }
}

// The same thread: (B, H, D, S) viewed transposed is refused by name, for every operand, before anything is written.
TEST(A5_StridesAlignmentSize, A5_1_InnermostStrideOtherThanOneIsRefusedByName) {
  const char* names[] = {"q", "k", "v", "out"};
  for (int which = 0; which < 4; ++which) {
    Case c({.batch = 2, .queries = 6, .keys = 6, .q_heads = 2, .kv_heads = 2, .head_dim = 6, .value_dim = 6});
    c.fill_normal(62);
    Tensor tensors[4] = {c.q.view(), c.k.view(), c.v.view(), c.out.view()};
    tensors[which] = transposed(tensors[which], 1, 3);
    c.out.poison();
    const Status status = try_attention(tensors[0], tensors[1], tensors[2], tensors[3], c.wired());
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_NE(std::string(status.text).find(std::string(names[which]) + ".stride[3] = 12; expected 1"), std::string::npos)
        << status.text;
    for (Array* a : c.written()) EXPECT_TRUE(a->untouched());
  }
}

// pytorch#191937: k and v broadcast over heads by stride 0, odd numbers of keys, a mask.
TEST(A5_StridesAlignmentSize, A5_2_StrideZeroHeadsEqualACopy) {
  FT_FOR_EACH_SETTING(s) {
    for (Index keys : {33, 65, 97, 1, 129}) {
      const Shape copy{.batch = 2, .queries = 5, .keys = keys, .q_heads = 6, .kv_heads = 6, .head_dim = 32, .value_dim = 32};
      Shape single = copy;
      single.kv_heads = 1;
      Case copied(copy, s.dtype), shared(single, s.dtype);
      shared.fill_normal(63), copied.q.copy_from(shared.q);
      for (Case* c : {&copied, &shared}) {
        c->options.isa = s.isa;
        c->mask = Array(DType::f32, {2, 1, 5, keys});
        c->mask.fill_normal(64);
      }
      for (Index b = 0; b < 2; ++b)
        for (Index j = 0; j < keys; ++j)
          for (Index h = 0; h < 6; ++h)
            for (Index d = 0; d < 32; ++d) {
              copied.k.set(shared.k.get(b, j, 0, d), b, j, h, d);
              copied.v.set(shared.v.get(b, j, 0, d), b, j, h, d);
            }
      ASSERT_TRUE(runs_right(copied)) << keys;
      Tensor k = shared.k.view(), v = shared.v.view();
      k.shape[2] = v.shape[2] = 6, k.stride[2] = v.stride[2] = 0;
      Options options = shared.wired();
      ASSERT_TRUE(try_attention(shared.q.view(), k, v, shared.out.view(), options).ok());
      EXPECT_TRUE(same_bits(copied.out, shared.out)) << keys;
      EXPECT_TRUE(same_bits(copied.lse, shared.lse)) << keys;
    }
  }
}

// pytorch#146377: a slice of a longer array. Forward part: nothing outside the slice is read or written.
TEST(A5_StridesAlignmentSize, A5_3_SliceOfALongerArray) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.batch = 2, .queries = 30, .keys = 290, .q_heads = 2, .kv_heads = 2, .head_dim = 16, .value_dim = 16}, s.dtype);
    c.options.isa = s.isa;
    c.fill_normal(65);
    for (Array* a : {&c.q, &c.k, &c.v})
      for (Index b = 0; b < 2; ++b)
        for (Index j = a->shape(1) - (a == &c.q ? 7 : 128); j < a->shape(1); ++j)
          for (Index h = 0; h < 2; ++h)
            for (Index d = 0; d < 16; ++d) a->set(kNaN, b, j, h, d);
    Tensor q = c.q.view(), k = c.k.view(), v = c.v.view(), out = c.out.view();
    q.shape[1] = out.shape[1] = 23, k.shape[1] = v.shape[1] = 162;
    Case small({.batch = 2, .queries = 23, .keys = 162, .q_heads = 2, .kv_heads = 2, .head_dim = 16, .value_dim = 16},
               s.dtype);
    small.options.isa = s.isa;
    for (Array Case::* a : {&Case::q, &Case::k, &Case::v})
      for (Index b = 0; b < 2; ++b)
        for (Index j = 0; j < (small.*a).shape(1); ++j)
          for (Index h = 0; h < 2; ++h)
            for (Index d = 0; d < 16; ++d) (small.*a).set((c.*a).get(b, j, h, d), b, j, h, d);
    ASSERT_TRUE(runs_right(small));
    c.out.poison();
    ASSERT_TRUE(try_attention(q, k, v, out, c.options).ok());
    for (Index b = 0; b < 2; ++b)
      for (Index i = 0; i < 30; ++i)
        for (Index d = 0; d < 16; ++d) {
          const double x = c.out.get(b, i, 1, d);
          if (i < 23) {
            ASSERT_EQ(x, small.out.get(b, i, 1, d)) << place(b, 1, i, d);
          } else {
            ASSERT_NE(x, x) << place(b, 1, i, d);
          }
        }
  }
}

// pytorch#133671: the output is what its strides say, not what its memory order suggests.
TEST(A5_StridesAlignmentSize, A5_4_OutputIsWrittenByItsOwnStrides) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.batch = 2, .queries = 5, .keys = 12, .q_heads = 3, .kv_heads = 3, .head_dim = 8, .value_dim = 8};
    Case c(shape, s.dtype), other(shape, s.dtype);
    for (Case* x : {&c, &other}) x->options.isa = s.isa, x->fill_normal(66);
    // out stored (S, B, H, D), LSE stored (S, H, B)
    other.out = Array(s.dtype, {2, 5, 3, 8}, {24, 48, 8, 1});
    other.lse = Array(other.lse.dtype(), {2, 3, 5}, {1, 2, 6});
    EXPECT_TRUE(same_results(c, other));
    EXPECT_TRUE(agrees(other, default_tolerance(other)));
  }
}

// xformers#813, #722; comfy-kitchen PR #115; vamp PR #14; distopia PR #39: nothing needs more alignment than its type.
TEST(A5_StridesAlignmentSize, A5_5_EveryPointerOffByOneElement) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.batch = 1, .queries = 7, .keys = 43, .q_heads = 2, .kv_heads = 1, .head_dim = 33, .value_dim = 17};
    const auto make = [&](Placement placement) {
      auto c = std::make_unique<Case>(shape, s.dtype, Layout::bshd, placement);
      c->options.isa = s.isa;
      c->fill_normal(67);
      c->mask = Array(DType::f32, {7, 43}, placement);
      c->mask.fill_normal(68);
      c->sinks = Array(DType::f32, {2}, placement), c->sinks.fill_normal(69);
      c->slopes = Array(DType::f32, {2}, placement), c->slopes.fill_value(0.1);
      c->row_scale = Array(DType::f32, {1, 1, 7}, placement), c->row_scale.fill_uniform(70, 0.5, 2);
      c->key_begin = Array(DType::i32, {1, 7}, placement), c->key_begin.fill([i = 0]() mutable { return i++ % 3; });
      return c;
    };
    const auto base = make({});
    ASSERT_TRUE(runs_right(*base));
    for (Placement::Edge edge : {Placement::Edge::begin, Placement::Edge::end})
      for (std::size_t shift : {0, 1, 3}) {
        const auto moved = make({edge, shift});
        EXPECT_TRUE(same_results(*base, *moved)) << "shift " << shift;
        for (Array* a : moved->written()) EXPECT_TRUE(a->surroundings_intact()) << "shift " << shift;
      }
  }
}

TEST(A5_StridesAlignmentSize, A5_5_SliceOfAMaskEqualsItsCopy) {
  FT_FOR_EACH_SETTING(s) {
    for (DType dtype : {DType::f32, DType::bf16, DType::boolean}) {
      const Shape shape{.queries = 7, .keys = 43, .head_dim = 16, .value_dim = 16};
      Case copied(shape, s.dtype), sliced(shape, s.dtype);
      for (Case* c : {&copied, &sliced}) c->options.isa = s.isa, c->fill_normal(71);
      sliced.mask = Array(dtype, {7, 43}, std::vector<Index>{51, 1}, Placement{Placement::Edge::begin, 1});
      sliced.mask.fill([n = 0, dtype]() mutable { return dtype == DType::boolean ? n++ % 3 != 0 : 0.25 * (n++ % 9); });
      copied.mask = Array(dtype, {7, 43});
      copied.mask.copy_from(sliced.mask);
      EXPECT_TRUE(same_results(copied, sliced));
      Case strided(shape, s.dtype);  // every second column of a wider mask
      strided.options.isa = s.isa, strided.copy_inputs(copied);
      strided.mask = Array(dtype, {7, 43}, std::vector<Index>{90, 2});
      strided.mask.copy_from(copied.mask);
      EXPECT_TRUE(same_results(copied, strided));
    }
  }
}

/// A copy of a dense tensor in sparse memory, axis `axis` spread by `stride` elements. Outputs start as NaN.
class Spread {
 public:
  Spread(const Array& from, int axis, Index stride, bool output)
      : view_(from.view()), memory_(bytes(from.view(), axis, stride)) {
    if (!memory_.valid()) return;
    view_.data = memory_.data();
    view_.stride[axis] = stride;
    for (Index o : from.offsets()) {
      Index rest = o, to = 0;
      for (int i = 0; i < view_.rank; ++i)
        to += rest / from.view().stride[i] * view_.stride[i], rest %= from.view().stride[i];
      to_offsets_.push_back(to);
      store_element(view_.data, view_.dtype, to, output ? kNaN : element(from.view().data, view_.dtype, o));
    }
  }
  bool valid() const { return memory_.valid(); }
  const Tensor& view() const { return view_; }
  std::vector<double> values() const {
    std::vector<double> all;
    for (Index o : to_offsets_) all.push_back(element(view_.data, view_.dtype, o));
    return all;
  }

 private:
  static std::size_t bytes(const Tensor& t, int axis, Index stride) {
    return (static_cast<std::size_t>(stride) * t.shape[axis] + (1 << 20)) * size_of(t.dtype);
  }
  Tensor view_;
  SparseBytes memory_;
  std::vector<Index> to_offsets_;
};

struct Wide {
  const char* name;
  Array Case::* array;
  int axis;

  bool output() const {
    return array == &Case::out || array == &Case::lse || array == &Case::entropy || array == &Case::key_weights;
  }
};

// Three entries 1.5 · 2^31 apart: offsets beyond 2^31 and beyond 2^32.
constexpr Index kWideStride = (Index{3} << 30) + 5;

// pytorch#187227, #162588; mlx#2894; NATTEN#347: 32-bit products of coordinate and stride.
TEST(A5_StridesAlignmentSize, A5_6_StridesBeyond32BitsAreExact) {
  const Wide wides[] = {{"q batch", &Case::q, 0},
                        {"q row", &Case::q, 1},
                        {"q head", &Case::q, 2},
                        {"k batch", &Case::k, 0},
                        {"k row", &Case::k, 1},
                        {"k head", &Case::k, 2},
                        {"v batch", &Case::v, 0},
                        {"v row", &Case::v, 1},
                        {"v head", &Case::v, 2},
                        {"out batch", &Case::out, 0},
                        {"out row", &Case::out, 1},
                        {"out head", &Case::out, 2},
                        {"mask batch", &Case::mask, 0},
                        {"mask head", &Case::mask, 1},
                        {"mask query", &Case::mask, 2},
                        {"mask key", &Case::mask, 3},
                        {"lse batch", &Case::lse, 0},
                        {"lse head", &Case::lse, 1},
                        {"lse row", &Case::lse, 2},
                        {"entropy row", &Case::entropy, 2},
                        {"key_weights key", &Case::key_weights, 2},
                        {"row_scale row", &Case::row_scale, 2}};
  for (const Setting& s : settings({DType::f32, DType::bf16})) {
    SCOPED_TRACE(s.text());
    Case c({.batch = 3, .queries = 3, .keys = 3, .q_heads = 3, .kv_heads = 3, .head_dim = 5, .value_dim = 5}, s.dtype);
    c.options.isa = s.isa;
    c.fill_normal(72);
    c.mask = Array(DType::boolean, {3, 3, 3, 3});
    c.mask.fill([n = 0]() mutable { return n++ % 5 != 1; });
    c.row_scale = Array(DType::f32, {3, 3, 3}), c.row_scale.fill_uniform(73, 0.5, 2);
    ASSERT_TRUE(runs_right(c));
    for (const Wide& wide : wides) {
      SCOPED_TRACE(wide.name);
      const Array& narrow = c.*wide.array;
      const Spread spread(narrow, wide.axis, kWideStride, wide.output());
      if (!spread.valid()) GTEST_SKIP() << "no address space for " << wide.name;
      Case other(c.shape, s.dtype);
      other.copy_inputs(c);
      Options o = c.options;
      o.lse = other.lse.view(), o.key_weights = other.key_weights.view();
      o.statistics.entropy = other.entropy.view();
      o.mask = c.mask.view(), o.row_scale = c.row_scale.view();
      Tensor q = other.q.view(), k = other.k.view(), v = other.v.view(), out = other.out.view();
      if (wide.array == &Case::q) q = spread.view();
      if (wide.array == &Case::k) k = spread.view();
      if (wide.array == &Case::v) v = spread.view();
      if (wide.array == &Case::out) out = spread.view();
      if (wide.array == &Case::mask) o.mask = spread.view();
      if (wide.array == &Case::row_scale) o.row_scale = spread.view();
      if (wide.array == &Case::lse) o.lse = spread.view();
      if (wide.array == &Case::entropy) o.statistics.entropy = spread.view();
      if (wide.array == &Case::key_weights) o.key_weights = spread.view();
      const std::vector<double> want = narrow.values();
      const Status status = try_attention(q, k, v, out, o);
      ASSERT_TRUE(status.ok()) << status.text;
      EXPECT_EQ(spread.values(), want);
      if (wide.array == &Case::out) continue;
      EXPECT_TRUE(same_bits(other.out, c.out));
    }
  }
}

// Strides whose products do not even fit 64 bits are refused.
TEST(A5_StridesAlignmentSize, A5_6_OffsetsBeyond64BitsAreRefused) {
  Case c({.batch = 2, .queries = 3, .keys = 3});
  c.fill_normal(74);
  Tensor k = c.k.view();
  k.stride[0] = Index{1} << 62;
  const Status status = try_attention(c.q.view(), k, c.v.view(), c.out.view(), c.options);
  EXPECT_EQ(status.code, Code::invalid_argument);
  EXPECT_NE(std::string(status.text).find("k.shape[0] = 2 with stride"), std::string::npos) << status.text;
}

}  // namespace
}  // namespace flashtile::testing
