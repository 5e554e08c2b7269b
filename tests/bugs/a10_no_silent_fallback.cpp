// Public bugs, group A10, the case of the forward's structure: no option and no shape leads to a path of quadratic
// memory, and the plan tells which path was chosen. The group's speed is measured by the benchmarks.
#include <gtest/gtest.h>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

/// A plan for arrays that need not exist.
Plan planned(const Shape& shape, DType dtype, Options options) {
  const auto tensor = [&](Index rows, Index heads, Index dim) {
    Tensor t;
    t.dtype = dtype, t.rank = 4;
    const Index n[4] = {shape.batch, rows, heads, dim}, stride[4] = {rows * heads * dim, heads * dim, dim, 1};
    for (int i = 0; i < 4; ++i) t.shape[i] = n[i], t.stride[i] = stride[i];
    return t;
  };
  Plan plan;
  const Status status =
      try_plan(tensor(shape.queries, shape.q_heads, shape.head_dim), tensor(shape.keys, shape.kv_heads, shape.head_dim),
               tensor(shape.keys, shape.kv_heads, shape.value_dim), tensor(shape.queries, shape.q_heads, shape.value_dim),
               options, plan);
  EXPECT_TRUE(status.ok()) << status.text;
  return plan;
}

Tensor sized(DType dtype, std::initializer_list<Index> shape) {
  Tensor t = view(static_cast<float*>(nullptr), shape);
  t.dtype = dtype;
  return t;
}

/// Options that make other libraries leave their fast path.
std::vector<std::pair<const char*, Options>> demanding_options(const Shape& s, DType dtype) {
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<std::pair<const char*, Options>> all;
  const auto add = [&](const char* name, auto change) {
    Options o;
    change(o);
    all.emplace_back(name, o);
  };
  add("none", [](Options&) {});
  add("causal", [](Options& o) { o.causal = true; });
  add("window and softcap", [](Options& o) { o.window = {.left = 100, .right = 7}, o.softcap = 30; });
  add("bool mask", [&](Options& o) { o.mask = sized(DType::boolean, {1, s.keys}); });
  add("float mask", [&](Options& o) { o.mask = sized(DType::f32, {s.queries, s.keys}); });
  add("alibi", [&](Options& o) { o.alibi_slopes = sized(DType::f32, {s.q_heads}); });
  add("dropout", [](Options& o) { o.dropout = {.probability = 0.1, .seed = 1}; });
  add("key weights", [&](Options& o) { o.key_weights = sized(wide, {s.batch, s.q_heads, s.keys}); });
  add("statistics", [&](Options& o) {
    o.lse = o.statistics.entropy = o.statistics.logit_deviation = sized(wide, {s.batch, s.q_heads, s.queries});
  });
  add("modifier", [](Options& o) { o.score_modifier.apply = [](void*, const ScoreTile&) {}; });
  return all;
}

// transformers PR #46960: D > 256 with grouped heads fell back to S × S, silently.
TEST(A10_NoSilentFallback, A10_6_WideHeadsAndGroupsKeepTheTiledPath) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    for (Index head_dim : {64, 256, 257, 576}) {
      const Shape shape{
          .queries = 20000, .keys = 20000, .q_heads = 16, .kv_heads = 2, .head_dim = head_dim, .value_dim = head_dim};
      Options none;
      none.isa = s.isa;
      const PlanFacts plain = planned(shape, s.dtype, none).facts();
      for (auto& [name, options] : demanding_options(shape, s.dtype)) {
        SCOPED_TRACE(name);
        options.isa = s.isa;
        const Plan plan = planned(shape, s.dtype, options);
        ASSERT_TRUE(plan.valid());
        const PlanFacts facts = plan.facts();
        EXPECT_EQ(std::string(facts.isa), plain.isa);
        EXPECT_EQ(std::string(facts.arithmetic), plain.arithmetic);
        // One head's score matrix has 4e8 elements; a worker needs a few tiles, rows or columns.
        EXPECT_LT(facts.workspace_bytes, std::size_t{32} << 20);
        EXPECT_NE(explain(plan).find(facts.isa), std::string::npos) << explain(plan);
      }
    }
  }
}

// The path that the plan names is exact for such heads.
TEST(A10_NoSilentFallback, A10_6_WideHeadsAndGroupsAreRight) {
  FT_FOR_EACH_SETTING(s) {
    Case c({.queries = 5, .keys = 40, .q_heads = 8, .kv_heads = 2, .head_dim = 300, .value_dim = 270}, s.dtype);
    c.options.isa = s.isa, c.options.causal = true;
    c.fill_normal(101);
    EXPECT_TRUE(runs_right(c));
  }
}

}  // namespace
}  // namespace flashtile::testing
