// The pairwise grid: shapes, dtypes, instruction sets, options and layouts as the peers test them, every pair of choices
// at least once. O, LSE, statistics and column sums against the fp64 definition, with outputs that start as NaN between
// guard pages. The bars of the peers (PyTorch: 1e-5 absolute and 5e-6 relative in fp32; ggml: NMSE 1e-6) are implied by
// compare.h: no element of O off by 1e-5 of the largest |v|, relative rms 1e-6 before rounding to storage.
// What is not too large for it is also run on every instruction set and held against the model kernels bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/compare.h"
#include "support/grid_size.h"
#include "support/model_rows.h"
#include "support/pairwise.h"

namespace flashtile::testing {
namespace {

constexpr Index kSizes[][2] = {{1, 1},     {1, 147},   {3, 799},     {17, 17},    {64, 128},  {97, 97},
                               {113, 203}, {128, 217}, {108, 256},   {127, 513},  {239, 1},   {256, 512},
                               {512, 256}, {49, 1025}, {47, 1024},   {799, 3},    {200, 384}, {255, 255},
                               {129, 129}, {5, 0},     {1023, 1024}, {1024, 1023}};
constexpr Index kDims[][2] = {{1, 1},     {8, 8},     {16, 16},   {32, 32},   {40, 40},   {59, 59},   {64, 64},
                              {72, 72},   {80, 80},   {96, 96},   {111, 111}, {128, 128}, {160, 160}, {192, 192},
                              {224, 224}, {256, 256}, {192, 128}, {16, 1},    {576, 512}, {1, 33},    {320, 256}};
constexpr Index kHeads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 1}, {6, 2}};
const DTypes kTypes[] = {DType::f32,
                         DType::bf16,
                         DType::f16,
                         DType::f64,
                         {DType::bf16, DType::f16, DType::f16, DType::f32},
                         {DType::f32, DType::bf16, DType::f16, DType::f32}};

/// An instruction set and dtypes that it has kernels for, so that every choice meets every kernel.
struct Engine {
  Isa isa;
  DTypes types;
};
std::vector<Engine> engines() {
  std::vector<Engine> all;
  for (Isa isa : available_isas())
    for (const DTypes& types : kTypes) {
      const bool amx = isa == Isa::amx || isa == Isa::amx_emulated;
      if ((!amx || (types.q == DType::bf16 && types.k == DType::bf16)) && converts(isa, types)) all.push_back({isa, types});
    }
  return all;
}
const std::vector<Engine> kEngines = engines();

enum Factor {
  kSize,
  kDim,
  kHead,
  kEngine,
  kCausal,
  kWindow,
  kSoftcap,
  kAlibi,
  kSink,
  kMask,
  kDropout,
  kLayout,
  kVarlen,
  kPosition,
  kRange,
  kScale,
  kThreads,
  kFactors
};
const std::vector<int> kCounts = {std::size(kSizes),
                                  std::size(kDims),
                                  std::size(kHeads),
                                  static_cast<int>(kEngines.size()),
                                  3,
                                  4,
                                  3,
                                  2,
                                  2,
                                  4,
                                  2,
                                  3,
                                  2,
                                  3,
                                  2,
                                  3,
                                  3};

Case make_case(const std::vector<int>& row) {
  const Index queries = kSizes[row[kSize]][0], keys = kSizes[row[kSize]][1];
  Shape shape = {.batch = 2,
                 .queries = queries,
                 .keys = keys,
                 .q_heads = kHeads[row[kHead]][0],
                 .kv_heads = kHeads[row[kHead]][1],
                 .head_dim = kDims[row[kDim]][0],
                 .value_dim = kDims[row[kDim]][1]};
  if (queries > 1000) shape.batch = shape.q_heads = shape.kv_heads = 1;  // long enough as it is
  const Layout layout = static_cast<Layout>(row[kLayout]);
  const DTypes& types = kEngines[row[kEngine]].types;
  if (row[kVarlen] == 0) return Case(shape, types, layout);
  return Case(shape, {0, queries / 3, queries / 3, queries}, {0, keys / 2, keys, keys}, types, layout);
}

void add_mask(Case& c, int kind) {
  if (kind == 0) return;
  const DType type = kind == 1 ? DType::boolean : kind == 2 ? DType::f32 : c.dtypes.q;
  const Index b = kind == 2 && !c.varlen ? c.shape.batch : 1, h = kind == 3 ? c.shape.q_heads : 1;
  c.mask = Array(type, {b, h, kind == 1 ? 1 : c.shape.queries, c.shape.keys});
  Random random(17);
  c.mask.fill([&] {
    const bool hide = random.coin(0.3);
    return kind == 1 ? !hide : hide ? -HUGE_VAL : random.normal();
  });
}

void add_options(Case& c, const std::vector<int>& row) {
  Options& o = c.options;
  o.causal = row[kCausal] > 0, o.alignment = row[kCausal] == 2 ? Alignment::top_left : Alignment::bottom_right;
  constexpr Window kWindows[] = {{-1, -1}, {33, -1}, {70, 19}, {0, 0}};
  o.window = kWindows[row[kWindow]];
  if (o.causal && o.window.right > 0) o.window.right = -1;  // the two rules would contradict each other
  o.softcap = row[kSoftcap] == 0 ? 0 : row[kSoftcap] == 1 ? 15 : 50;
  if (row[kScale] == 1) o.scale = -0.21;
  if (row[kDropout] > 0) o.dropout = {0.17, 42, 3};
  o.threads = 1 + row[kThreads], o.isa = kEngines[row[kEngine]].isa;
  if (row[kAlibi] > 0) c.slopes = Array(DType::f32, {c.shape.q_heads}), c.slopes.fill_uniform(3, 0, 0.3);
  if (row[kSink] > 0) c.sinks = Array(DType::f32, {c.shape.q_heads}), c.sinks.fill_uniform(4, -10, 10);
  if (!c.varlen) add_mask(c, row[kMask]);
  const std::vector<Index> shifts = row[kPosition] == 1 ? std::vector<Index>{40, -3, 7} : std::vector<Index>{0, 65, 511};
  if (row[kPosition] > 0) {
    Array& to = row[kPosition] == 1 ? c.query_offset : c.first_key_position;
    to = Array::ints({shifts.begin(), shifts.begin() + c.shape.batch});
  }
  const std::vector<Index> per_row =
      c.varlen ? std::vector<Index>{c.shape.queries} : std::vector<Index>{c.shape.batch, c.shape.queries};
  Random random(23);
  if (row[kRange] > 0) {
    c.key_begin = Array(DType::i32, per_row), c.key_end = Array(DType::i32, per_row);
    c.key_begin.fill([&] { return static_cast<double>(random.integer(-2, c.shape.keys / 2)); });
    c.key_end.fill([&] { return static_cast<double>(random.integer(c.shape.keys / 3, c.shape.keys + 2)); });
  }
  if (row[kScale] == 2) {
    c.row_scale = c.varlen ? Array(DType::f32, {1, c.shape.queries}) : Array(DType::f32, {1, 1, c.shape.queries});
    c.row_scale.fill_uniform(29, 0.5, 2);
  }
}

constexpr int kGroups = 24;

class Grid : public ::testing::TestWithParam<int> {};

TEST_P(Grid, EveryPairOfChoicesAgreesWithTheDefinition) {
  const std::vector<std::vector<int>> rows = pairwise(kCounts);
  const std::size_t step = small_grid() ? 10 * kGroups : kGroups;
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < rows.size(); i += step) {
    Case c = make_case(rows[i]);
    c.fill_normal(i + 1);
    add_options(c, rows[i]);
    const Index work = c.shape.queries * c.shape.keys * c.shape.q_heads * (c.shape.head_dim + c.shape.value_dim);
    Tolerance tolerance = default_tolerance(c);
    if (work > 20'000'000) tolerance.row_step = 7 + work / 100'000'000;
    tolerance.rms *= 2;  // for the roundings of softcap, biases and row scales (docs/numerics.md); plain rows have 4e-7
    EXPECT_TRUE(runs_right(c, tolerance)) << "row " << i;
    if (work < 16'000'000) {
      EXPECT_TRUE(equals_model(c)) << "row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Grid, ::testing::Range(0, kGroups));

TEST(Pairwise, EveryPairOfChoicesOfAnyTwoFactorsStandsInSomeRow) {
  const std::vector<std::vector<int>> rows = pairwise(kCounts);
  for (int a = 0; a < kFactors; ++a)
    for (int b = a + 1; b < kFactors; ++b)
      for (int x = 0; x < kCounts[a]; ++x)
        for (int y = 0; y < kCounts[b]; ++y)
          ASSERT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r[a] == x && r[b] == y; }))
              << "factors " << a << " and " << b << ", choices " << x << " and " << y;
}

}  // namespace
}  // namespace flashtile::testing
