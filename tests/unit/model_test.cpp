// Every kernel against the model kernel of its family, bit for bit: out, LSE and row statistics.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/case.h"
#include "support/grid_size.h"
#include "support/model_rows.h"

namespace flashtile::testing {
namespace {

const std::vector<DTypes> kDTypes = {DType::f32,
                                     DType::bf16,
                                     DType::f16,
                                     DType::f64,
                                     DTypes(DType::f32, DType::bf16, DType::f16, DType::f32),
                                     DTypes(DType::bf16, DType::bf16, DType::bf16, DType::f32)};

/// Shapes around every boundary of tiles, blocks and chunks.
const std::vector<Shape> kShapes = {
    {1, 1, 1, 1, 1, 1, 1},      {1, 3, 130, 2, 1, 8, 5},  {2, 17, 97, 3, 1, 33, 64},  {1, 49, 513, 1, 1, 64, 64},
    {1, 5, 1100, 4, 2, 80, 96}, {1, 50, 70, 6, 2, 16, 3}, {1, 2, 640, 1, 1, 128, 20},
};

/// Every dtype with every shape; the reduced grid takes a quarter of the pairs, another quarter for each seed.
void expect_model(std::uint64_t seed, const std::function<void(Case&)>& with) {
  std::uint64_t pair = seed;
  for (const DTypes& dtypes : kDTypes)
    for (const Shape& shape : kShapes) {
      if (small_grid() && ++pair % 4 != 0) continue;
      Case c(shape, dtypes);
      c.fill_normal(seed);
      with(c);
      ASSERT_TRUE(equals_model(c));
    }
}

TEST(Model, PlainRows) {
  expect_model(1, [](Case&) {});
}

TEST(Model, CausalBothWays) {
  expect_model(2, [](Case& c) { c.options.causal = true; });
  expect_model(3, [](Case& c) { c.options.causal = true, c.options.alignment = Alignment::top_left; });
}

TEST(Model, Windows) {
  expect_model(4, [](Case& c) { c.options.window.left = 20, c.options.window.right = 7; });
}

TEST(Model, SoftcapScaleAndSinks) {
  expect_model(5, [](Case& c) {
    c.options.softcap = 3, c.options.scale = -0.7;
    c.sinks = Array(DType::f32, {c.shape.q_heads});
    c.sinks.fill_normal(9, 3);
  });
}

TEST(Model, AlibiWithShiftedKeys) {
  expect_model(6, [](Case& c) {
    c.slopes = Array(DType::f32, {c.shape.batch, c.shape.q_heads});
    c.slopes.fill_uniform(3, 0, 0.5);
    c.first_key_position = Array::ints(std::vector<Index>(c.shape.batch, -37));
  });
}

TEST(Model, Masks) {
  for (DType type : {DType::boolean, DType::f32, DType::bf16})
    expect_model(7, [type](Case& c) {
      c.mask = Array(type, {c.shape.batch, 1, c.shape.queries, c.shape.keys});
      Random random(5);
      c.mask.fill([&, n = 0]() mutable {
        const double u = random.uniform(0, 1);
        if (type == DType::boolean) return u < 0.5 ? 1.0 : 0.0;
        return ++n % 11 == 0 ? -HUGE_VAL : n % 13 == 0 ? -3.3e38 : 4 * u;
      });
    });
}

TEST(Model, RowScaleAndKeyRanges) {
  expect_model(8, [](Case& c) {
    c.row_scale = Array(DType::f32, {c.shape.batch, c.shape.q_heads, c.shape.queries});
    c.row_scale.fill_uniform(4, -1, 2);
    c.key_begin = Array(DType::i32, {c.shape.batch, c.shape.queries});
    c.key_end = Array(DType::i32, {c.shape.batch, c.shape.queries});
    Random random(6);
    c.key_begin.fill([&] { return std::floor(random.uniform(-3, 0.7 * c.shape.keys)); });
    c.key_end.fill([&] { return std::floor(random.uniform(0.3 * c.shape.keys, c.shape.keys + 3)); });
  });
}

TEST(Model, DropoutAndModifier) {
  expect_model(9, [](Case& c) {
    c.options.dropout = {0.3, 1234567890123ull, 5};
    c.options.softcap = 20;
    c.options.score_modifier.apply = [](void*, const ScoreTile& tile) {
      for (Index i = 0; i < tile.queries; ++i)
        for (Index j = 0; j < tile.keys; ++j) {
          const Index q = tile.query + i, k = tile.key + j;
          const auto modify = [&](auto& x) {
            if ((q * 7 + k * 3 + tile.head) % 5 == 0) x = -HUGE_VAL;
            else x = x * 2 + static_cast<float>(k % 3);
          };
          if (tile.dtype == DType::f64) modify(tile.at<double>(i, j));
          else modify(tile.at<float>(i, j));
        }
    };
  });
}

TEST(Model, HugeAndTinyLogits) {
  for (double size : {1e-30, 30.0, 1e4, 1e18})
    expect_model(10, [size](Case& c) { c.q.fill_normal(8, c.dtypes.q == DType::f16 ? std::min(size, 500.0) : size); });
}

TEST(Model, OverflowOfTheUnnormalisedSumIsMended) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Case c({1, 5, 300, 2, 1, 8, 8}, dtype);
    c.fill_normal(11);
    c.v.fill_value(dtype == DType::f64 ? 1.7e308 : 3e38);
    ASSERT_TRUE(equals_model(c));
    for (Index d = 0; d < 8; ++d) EXPECT_NEAR(c.out.get(0, 3, 1, d) / c.v.get(0, 0, 0, 0), 1, 1e-2);
  }
}

TEST(Model, PoisonInHiddenAndVisibleKeys) {
  for (DTypes dtypes : {DTypes(DType::f32), DTypes(DType::bf16), DTypes(DType::f64)}) {
    Case c({1, 60, 200, 2, 2, 16, 16}, dtypes);
    c.fill_normal(12);
    c.options.causal = true;
    for (Index j : {30, 150, 170, 199}) c.v.set(NAN, 0, j, 0, j % 16), c.k.set(NAN, 0, j, 1, 2);
    c.v.set(HUGE_VAL, 0, 160, 1, 3);
    ASSERT_TRUE(equals_model(c));
  }
}

TEST(Model, PackedSequences) {
  for (const DTypes& dtypes : kDTypes) {
    if (small_grid() && dtypes.q != DType::bf16) continue;
    Case c({1, 90, 700, 4, 2, 24, 40}, {0, 0, 3, 60, 61, 85}, {0, 5, 5, 600, 640, 690}, dtypes);
    c.fill_normal(13);
    c.options.causal = true;
    ASSERT_TRUE(equals_model(c));
  }
}

}  // namespace
}  // namespace flashtile::testing
