// The bit-exact proof. With scale = ln 2 the factor c = fl(scale · log2 e) is exactly 1, so that the weight of a logit
// s is 2^s. Take integer logits whose powers of two sum to a power of two, and small integers for V: then every
// product, every sum, every power and the division is exact, and the answer is a rational number that integer
// arithmetic gives. An algorithm that is right in exact arithmetic must return just its bits, whatever its tiles, their
// order, the order of keys, the workers and the instruction set; one that drops, repeats or misplaces a tile cannot.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "problem/dropout.h"
#include "problem/number.h"
#include "verify.h"
#include "verify_call.h"

namespace flashtile::cli {
namespace {

// 2^14 parts a row at most: with |v| ≤ 4, a sum has 14 + 3 bits, well below the 24 of fp32.
constexpr int kDepth = 14;
constexpr std::int64_t kLogitDims = 5;  // a row's logits are one of five columns of K …
constexpr std::int64_t kHeadDim = 24;   // … plus a constant one, the rest cancels in pairs

/// Integers from a counter: the same on every machine.
class Integers {
 public:
  explicit Integers(std::uint64_t seed) : seed_(seed) {}
  /// In [0, n).
  std::int64_t below(std::int64_t n) {
    const Philox random = philox(seed_, {{count_++, 7, 7, 7}});
    return static_cast<std::int64_t>(random.word[0] % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t seed_;
  std::uint32_t count_ = 0;
};

/// n integers in [−14, 0] with Σ 2^s = 1: start from {0} and split a random one, 2^s = 2^(s−1) + 2^(s−1), n − 1 times.
std::vector<int> dyadic_logits(std::int64_t n, Integers& random) {
  std::vector<int> logits = {0};
  while (static_cast<std::int64_t>(logits.size()) < n) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(logits.size())));
    if (logits[at] == -kDepth) continue;
    logits.push_back(--logits[at]);
  }
  return logits;
}

std::vector<std::int64_t> shuffled(std::int64_t n, Integers& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = n - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i + 1))]);
  return order;
}

/// The three orders of keys: as drawn, reversed, shuffled.
std::vector<std::vector<std::int64_t>> key_orders(std::int64_t n, Integers& random) {
  std::vector<std::vector<std::int64_t>> orders(3, std::vector<std::int64_t>(static_cast<std::size_t>(n)));
  std::iota(orders[0].begin(), orders[0].end(), 0);
  std::reverse_copy(orders[0].begin(), orders[0].end(), orders[1].begin());
  orders[2] = shuffled(n, random);
  return orders;
}

/// A problem with a rational answer. The three batches hold the same keys in three orders.
struct DyadicProblem {
  std::vector<std::vector<int>> logits;     // (column, key)
  std::vector<std::int64_t> column, shift;  // (query): which column, and the constant added to it
  std::vector<std::int64_t> values;         // (key, value_dim)
  CallShape shape;

  DyadicProblem(std::int64_t keys, std::uint64_t seed) {
    Integers random(seed);
    shape = {.batch = 3, .queries = 19, .keys = keys, .heads = 2, .kv_heads = 1, .head_dim = kHeadDim, .value_dim = 9};
    for (std::int64_t c = 0; c < kLogitDims; ++c) {
      const std::vector<int> drawn = dyadic_logits(keys, random);
      logits.emplace_back();
      for (const std::int64_t j : shuffled(keys, random)) logits.back().push_back(drawn[static_cast<std::size_t>(j)]);
    }
    for (std::int64_t i = 0; i < shape.queries * shape.heads; ++i)
      column.push_back(random.below(kLogitDims)), shift.push_back(random.between(-20, 20));
    for (std::int64_t i = 0; i < keys * shape.value_dim; ++i) values.push_back(random.between(-4, 4));
  }

  /// q, k and v such that scale · q·k = ln 2 · (logit + shift).
  void fill(Call& call) const {
    Integers random(99);
    const auto set = [](files::Array& a, std::int64_t i, std::int64_t x) {
      store(static_cast<double>(x), a.dtype, a.bytes.data(), i);
    };
    const std::vector<std::vector<std::int64_t>> orders = key_orders(shape.keys, random);
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t row = 0; row < shape.queries * shape.heads; ++row) {
        const std::int64_t at = (b * shape.queries * shape.heads + row) * kHeadDim;
        set(call.q, at + column[static_cast<std::size_t>(row)], 1);
        set(call.q, at + kLogitDims, shift[static_cast<std::size_t>(row)]);
        for (std::int64_t d = kLogitDims + 1; d + 1 < kHeadDim; d += 2) {
          const std::int64_t x = random.between(-5, 5);  // x · y − x · y, with y in K
          set(call.q, at + d, x), set(call.q, at + d + 1, -x);
        }
      }
      for (std::int64_t j = 0; j < shape.keys; ++j) {
        const auto key = static_cast<std::size_t>(orders[static_cast<std::size_t>(b)][static_cast<std::size_t>(j)]);
        const std::int64_t at = (b * shape.keys + j) * kHeadDim;
        for (std::int64_t c = 0; c < kLogitDims; ++c) set(call.k, at + c, logits[static_cast<std::size_t>(c)][key]);
        set(call.k, at + kLogitDims, 1);
        for (std::int64_t d = kLogitDims + 1; d + 1 < kHeadDim; d += 2) {
          const std::int64_t y = random.between(-5, 5);
          set(call.k, at + d, y), set(call.k, at + d + 1, y);
        }
        for (std::int64_t d = 0; d < shape.value_dim; ++d)
          set(call.v, (b * shape.keys + j) * shape.value_dim + d,
              values[key * static_cast<std::size_t>(shape.value_dim) + static_cast<std::size_t>(d)]);
      }
    }
  }

  /// Σ_j 2^s_j v_j / Σ_j 2^s_j, by integers.
  double answer(std::int64_t row, std::int64_t d) const {
    std::int64_t sum = 0, weights = 0;
    const std::vector<int>& s = logits[static_cast<std::size_t>(column[static_cast<std::size_t>(row)])];
    for (std::size_t j = 0; j < s.size(); ++j) {
      const std::int64_t weight = std::int64_t{1} << (kDepth + s[j]);
      weights += weight;
      sum += weight * values[j * static_cast<std::size_t>(shape.value_dim) + static_cast<std::size_t>(d)];
    }
    return static_cast<double>(sum) / static_cast<double>(weights);  // weights = 2^14
  }
};

/// Whether O has the bits of the rational answers and LSE is shift · ln 2, to one unit in the last place.
bool equals_answer(const DyadicProblem& problem, const Call& call) {
  const CallShape& s = problem.shape;
  const double unit = call.lse.dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
  for (std::int64_t row = 0; row < s.queries * s.heads; ++row) {
    const double lse = static_cast<double>(problem.shift[static_cast<std::size_t>(row)]) * std::numbers::ln2;
    std::vector<double> expected;
    expected.reserve(static_cast<std::size_t>(s.value_dim));
    for (std::int64_t d = 0; d < s.value_dim; ++d) expected.push_back(problem.answer(row, d));
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t at = (b * s.queries * s.heads + row) * s.value_dim;
      for (std::int64_t d = 0; d < s.value_dim; ++d)
        if (element(call.out.bytes.data(), call.out.dtype, at + d) != expected[static_cast<std::size_t>(d)]) return false;
      const std::int64_t head = row % s.heads, i = row / s.heads;
      const double got = element(call.lse.bytes.data(), call.lse.dtype, (b * s.heads + head) * s.queries + i);
      if (!(std::fabs(got - lse) <= unit * std::fabs(lse))) return false;
    }
  }
  return true;
}

/// Textbook online softmax of one row and one value column: tiles of `tile` keys in the given order of keys.
float online_softmax(const std::vector<int>& logits, const std::vector<std::int64_t>& values, std::size_t value_dim,
                     const std::vector<std::int64_t>& order, std::size_t tile) {
  float max = -INFINITY, sum = 0, out = 0;
  for (std::size_t begin = 0; begin < order.size(); begin += tile) {
    const std::size_t end = std::min(order.size(), begin + tile);
    float tile_max = max;
    for (std::size_t j = begin; j < end; ++j)
      tile_max = std::max(tile_max, static_cast<float>(logits[static_cast<std::size_t>(order[j])]));
    const float shrink = std::exp2(max - tile_max);
    sum *= shrink, out *= shrink;
    for (std::size_t j = begin; j < end; ++j) {
      const auto key = static_cast<std::size_t>(order[j]);
      const float weight = std::ldexp(1.0f, logits[key] - static_cast<int>(tile_max));
      sum += weight;
      out += weight * static_cast<float>(values[key * value_dim]);
    }
    max = tile_max;
  }
  return out / sum;
}

Property textbook() {
  Property property{"online softmax by tiles of 1 … 300 keys, in three orders, is the rational number"};
  constexpr std::int64_t kKeys = 300;
  const DyadicProblem problem(kKeys, 5);
  Integers random(6);
  const auto row = [&](std::size_t c) {
    return std::find(problem.column.begin(), problem.column.end(), static_cast<std::int64_t>(c)) - problem.column.begin();
  };
  for (const std::vector<std::int64_t>& order : key_orders(kKeys, random))
    for (std::size_t tile = 1; tile <= static_cast<std::size_t>(kKeys); ++tile)
      for (std::size_t c = 0; c < problem.logits.size(); ++c) {
        if (row(c) == static_cast<std::ptrdiff_t>(problem.column.size())) continue;  // no query drew this column
        const float got = online_softmax(problem.logits[c], problem.values,
                                         static_cast<std::size_t>(problem.shape.value_dim), order, tile);
        property.expect(got == problem.answer(row(c), 0),
                        [&] { return fmt::format("tiles of {} keys, column {}", tile, c); });
      }
  return property;
}

Property kernels(const Engine& engine, DType dtype) {
  Property property{fmt::format("{}, {}: every output is the rational number, bit for bit", engine.name, name_of(dtype))};
  for (const std::int64_t keys : {1, 2, 3, 31, 64, 128, 129, 300, 513, 1030}) {
    const DyadicProblem problem(keys, static_cast<std::uint64_t>(keys));
    Call call(problem.shape, dtype, dtype == DType::f64 ? DType::f64 : DType::f32);
    problem.fill(call);
    call.options.scale = std::numbers::ln2;
    if (!call.select(engine)) return property;
    // A first key position moves the boundaries of blocks and chunks over the keys.
    for (const std::int64_t first : {0, 1, 77, 127, 500}) {
      const std::vector<std::int64_t> positions(3, first);
      call.options.first_key_position = view(positions.data(), {3});
      for (const int workers : {0, 1, 3}) {
        const Status status = workers == 0 ? call.run() : call.run_by_workers(workers, true);
        require(status);
        property.expect(equals_answer(problem, call), [&] {
          return fmt::format("{} keys, first at position {}, {}", keys, first,
                             workers == 0 ? "the easy call" : fmt::format("{} workers in reverse", workers));
        });
      }
    }
  }
  return property;
}

}  // namespace

void verify_exact(Findings& findings) {
  findings.heading("Bit-exact proof: integer logits with Σ 2^s a power of two, integer V, scale ln 2");
  Property scale{"c = fl(ln 2 · log2 e) is exactly 1, in fp64 and in fp32"};
  const double c = std::numbers::ln2 * std::numbers::log2e;
  scale.expect(c == 1, [&] { return fmt::format("{:a}", c); });
  scale.expect(static_cast<float>(c) == 1.0f, [&] { return fmt::format("{:a}", static_cast<float>(c)); });
  findings.add(scale);
  findings.add(textbook());
  for (const Engine& engine : engines())
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const Property property = kernels(engine, dtype);
      if (property.cases > 0) findings.add(property);  // none: another engine computes this type
    }
}

}  // namespace flashtile::cli
