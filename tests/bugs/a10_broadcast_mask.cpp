// Public bugs, group A10, the case of masks: one for all heads is read where it lies, with strides of 0. It is neither
// copied for each head nor turned into another type. What it costs in time is a row of flashtile bench.
#include <gtest/gtest.h>

#include <optional>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

constexpr Index kHeadDim = 32;

Tensor sized(DType dtype, std::initializer_list<Index> shape) {
  Tensor t = view(static_cast<float*>(nullptr), shape);
  t.dtype = dtype;
  return t;
}

/// A plan of S queries, S keys and a mask (1, 1, S, S), if any: arrays need not exist.
Plan planned(const Setting& setting, Index heads, Index length, std::optional<DType> mask) {
  const Tensor x = sized(setting.dtype, {1, length, heads, kHeadDim});
  Options o;
  o.isa = setting.isa;
  if (mask) o.mask = sized(*mask, {1, 1, length, length});
  Plan plan;
  const Status status = try_plan(x, x, x, x, o, plan);
  EXPECT_TRUE(status.ok()) << status.text;
  return plan;
}

// onnxruntime#29655: the mask was copied for each head; B1 H4 D32 S512, 10 threads, took 1.6 times as long.
TEST(A10_BroadcastMask, A10_2_TakesATileOfMemoryForAnyHeadsAndLength) {
  // A tile of 48 queries and 128 keys in fp64, and what aligns it.
  constexpr std::size_t kTile = 48 * 128 * 8 + 64;
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    for (DType mask : {DType::boolean, DType::f32, DType::f16})
      for (Index heads : {1, 4, 64})
        for (Index length : {512, 4096, 65536}) {
          SCOPED_TRACE(std::string(name_of(mask)) + ", heads " + std::to_string(heads) + ", S " + std::to_string(length));
          const Plan without = planned(s, heads, length, std::nullopt), with = planned(s, heads, length, mask);
          for (int workers : {1, 10})
            EXPECT_LE(workspace_bytes(with, workers),
                      workspace_bytes(without, workers) + kTile * static_cast<std::size_t>(workers));
        }
  }
}

TEST(A10_BroadcastMask, A10_2_IsOneArrayForTheKernelsInItsOwnType) {
  for (DType dtype : {DType::boolean, DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = sized(DType::f32, {3, 512, 4, kHeadDim});
    const auto axes = [&](const Tensor& mask) {
      Options o;
      o.mask = mask;
      Problem p;
      const Status status = try_problem(x, x, x, x, o, p);
      EXPECT_TRUE(status.ok()) << status.text;
      EXPECT_EQ(p.mask.dtype, dtype);
      return p.mask;
    };
    for (const Tensor& mask : {sized(dtype, {1, 1, 512, 512}), sized(dtype, {512, 512})}) {
      const MaskAxes m = axes(mask);
      EXPECT_EQ(m.at(2, 3, 7, 11), m.at(0, 0, 7, 11));
      EXPECT_EQ(m.at(0, 0, 7, 11), 7 * 512 + 11);
    }
    EXPECT_EQ(axes(sized(dtype, {3, 1, 512, 512})).head, 0);
    EXPECT_EQ(axes(sized(dtype, {1, 4, 512, 512})).batch, 0);
    EXPECT_EQ(axes(sized(dtype, {1, 1, 1, 512})).query, 0);
  }
}

// The array ends where memory may not be touched, so that a second head's mask cannot be read behind it.
TEST(A10_BroadcastMask, A10_2_GivesTheBitsOfAMaskForEachHead) {
  FT_FOR_EACH_SETTING(s)
  for (DType dtype : {DType::boolean, DType::f32}) {
    constexpr Index kBatch = 1, kHeads = 4, kLength = 130;
    const auto make = [&] {
      Case c({.batch = kBatch, .queries = kLength, .keys = kLength, .q_heads = kHeads, .kv_heads = kHeads, .head_dim = 16},
             s.dtype);
      c.fill_normal(8);
      c.options.isa = s.isa, c.options.threads = 3;
      return c;
    };
    Case shared = make(), each = make();
    shared.mask = Array(dtype, {1, 1, kLength, kLength}), each.mask = Array(dtype, {kBatch, kHeads, kLength, kLength});
    Random random(9);
    shared.mask.fill([&] { return dtype == DType::boolean ? (random.normal() > 0 ? 1.0 : 0.0) : random.normal(); });
    const std::vector<double> one = shared.mask.values();
    std::size_t i = 0;
    each.mask.fill([&] { return one[i++ % one.size()]; });
    ASSERT_TRUE(runs_right(shared));
    ASSERT_TRUE(same_results(shared, each));
  }
}

}  // namespace
}  // namespace flashtile::testing
