// Option arrays belong to their sequence, head, row and key. Kernels, model and definition read them through the same
// strides, so only other calls can tell a wrong one: a batch against its sequences alone, an axis of extent 1 against the
// array written out.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

constexpr Shape kShape = {.batch = 3, .queries = 7, .keys = 20, .q_heads = 4, .kv_heads = 2, .head_dim = 5, .value_dim = 3};

/// An option array, its extents, and which of its axes may also be 1.
struct Kind {
  const char* name;
  Array Case::* array;
  DType dtype;
  std::vector<Index> shape;
  double low, high;  // range of its numbers; integers are cut off
  std::vector<int> broadcasts;
};

const std::vector<Kind> kKinds = {
    {"alibi_slopes", &Case::slopes, DType::f32, {3, 4}, 0.1, 1, {0}},
    {"row_scale", &Case::row_scale, DType::f32, {3, 4, 7}, -1, 2, {0, 1}},
    {"key_begin", &Case::key_begin, DType::i32, {3, 7}, 0, 12, {0}},
    {"key_end", &Case::key_end, DType::i32, {3, 7}, 8, 20, {0}},
    {"mask", &Case::mask, DType::f32, {3, 4, 7, 20}, -3, 3, {0, 1, 2}},
    {"mask of booleans", &Case::mask, DType::boolean, {3, 4, 7, 20}, 0, 2, {0, 1, 2}},
    {"query_lengths", &Case::query_lengths, DType::i32, {3}, 1, 7, {}},
    {"key_lengths", &Case::key_lengths, DType::i32, {3}, 5, 20, {}},
    {"query_offset", &Case::query_offset, DType::i64, {3}, 0, 30, {}},
    {"first_key_position", &Case::first_key_position, DType::i32, {3}, -20, 20, {}},
};

Array numbers_of(const Kind& kind, std::vector<Index> shape) {
  Array array(kind.dtype, shape);
  Random random(31);
  const bool whole = kind.dtype != DType::f32;
  array.fill([&] {
    const double x = random.uniform(kind.low, kind.high);
    return whole ? std::floor(x) : x;
  });
  return array;
}

/// The same numbers with every axis of extent 1 repeated to `shape`.
Array written_out(const Array& narrow, const std::vector<Index>& shape) {
  Array wide(narrow.dtype(), shape);
  std::vector<Index> strides(4, 0), n(4, 1);
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    n[static_cast<std::size_t>(i)] = shape[static_cast<std::size_t>(i)];
    strides[static_cast<std::size_t>(i)] = narrow.shape(i) == 1 ? 0 : narrow.view().stride[i];
  }
  Index at[4] = {0, 0, 0, 0};
  wide.fill([&] {
    const double x = element(narrow.view().data, narrow.dtype(),
                             at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]);
    for (int i = static_cast<int>(shape.size()) - 1; i >= 0 && ++at[i] == n[static_cast<std::size_t>(i)]; --i) at[i] = 0;
    return x;
  });
  return wide;
}

/// Part b of the first axis, whose extent becomes 1.
Array part_of(const Array& all, Index b) {
  std::vector<Index> shape{1};
  for (int i = 1; i < all.view().rank; ++i) shape.push_back(all.shape(i));
  Array part(all.dtype(), shape);
  const std::vector<double> values = all.values();
  std::size_t next = static_cast<std::size_t>(b * part.elements());
  part.fill([&] { return values.at(next++); });
  return part;
}

Case with(const Kind& kind, const Shape& shape) {
  Case c(shape);
  c.fill_normal(5);
  if (kind.array != &Case::mask && kind.array != &Case::row_scale) c.options.causal = true;
  return c;
}

TEST(OptionArrays, EachSequenceReadsItsOwnPart) {
  for (const Kind& kind : kKinds) {
    Case batch = with(kind, kShape);
    batch.*kind.array = numbers_of(kind, kind.shape);
    ASSERT_TRUE(batch.run().ok()) << kind.name;
    for (Index b = 0; b < kShape.batch; ++b) {
      Shape one = kShape;
      one.batch = 1;
      Case alone = with(kind, one);
      alone.q = part_of(batch.q, b), alone.k = part_of(batch.k, b), alone.v = part_of(batch.v, b);
      alone.*kind.array = part_of(batch.*kind.array, b);
      ASSERT_TRUE(alone.run().ok()) << kind.name;
      for (std::size_t n = 0; n < alone.written().size(); ++n)
        ASSERT_TRUE(same_bits(part_of(*batch.written()[n], b), *alone.written()[n]))
            << kind.name << ", sequence " << b << ", output " << n;
    }
  }
}

TEST(OptionArrays, AnAxisOfExtentOneStandsForAll) {
  for (const Kind& kind : kKinds)
    for (int axis : kind.broadcasts) {
      std::vector<Index> shape = kind.shape;
      shape[static_cast<std::size_t>(axis)] = 1;
      Case narrow = with(kind, kShape), wide = with(kind, kShape);
      narrow.*kind.array = numbers_of(kind, shape);
      wide.*kind.array = written_out(narrow.*kind.array, kind.shape);
      ASSERT_TRUE(same_results(narrow, wide)) << kind.name << ", axis " << axis;
    }
}

TEST(OptionArrays, EachHeadHasItsOwnSinkAndSlope) {
  for (Array Case::* array : {&Case::sinks, &Case::slopes}) {
    Case all(kShape);
    all.fill_normal(6);
    all.*array = Array::of(DType::f32, {4}, {0.1, 0.4, 0.9, 1.7});
    ASSERT_TRUE(all.run().ok());
    for (Index h = 0; h < 4; ++h) {
      Case same(kShape);
      same.fill_normal(6);
      same.*array = Array::of(DType::f32, {4}, std::vector<double>(4, (all.*array).get(h)));
      ASSERT_TRUE(same.run().ok());
      for (Index b = 0; b < 3; ++b)
        for (Index i = 0; i < 7; ++i) ASSERT_EQ(all.lse.get(b, h, i), same.lse.get(b, h, i)) << "head " << h;
    }
  }
}

TEST(OptionArrays, RowsThatDoNotExistAreWrittenAsZero) {
  FT_FOR_EACH_SETTING(s) {
    Case c(kShape, s.dtype);
    c.fill_normal(8), c.options.isa = s.isa;
    c.query_lengths = Array::ints({7, 0, 4});
    ASSERT_TRUE(c.run().ok());
    for (Index b = 0; b < 3; ++b)
      for (Index h = 0; h < 4; ++h)
        for (Index i = 0; i < 7; ++i) {
          const bool exists = i < c.query_lengths.get(b);
          EXPECT_EQ(c.lse.get(b, h, i) == -HUGE_VAL, !exists) << place(b, h, i);
          for (Index d = 0; d < 3; ++d) EXPECT_EQ(c.out.get(b, i, h, d) == 0, !exists) << place(b, h, i, d);
        }
  }
}

}  // namespace
}  // namespace flashtile::testing
