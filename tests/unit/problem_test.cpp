// Every limit on an argument is exact: the last allowed value is accepted and the first beyond it refused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "problem/problem.h"
#include "support/compare.h"

namespace flashtile::testing {
namespace {

Status asked(const Case& c, const std::function<void(Options&, Tensor& out)>& with) {
  Options options = c.wired();
  Tensor out = c.out.view();
  with(options, out);
  Problem p;
  return try_problem(c.q.view(), c.k.view(), c.v.view(), out, options, p);
}

Case dense() {
  Case c({.batch = 2, .queries = 3, .keys = 5, .q_heads = 2, .kv_heads = 1, .head_dim = 2, .value_dim = 2});
  c.fill_normal(1);
  return c;
}

/// `allowed` passes; `beyond` is refused with a text that begins with `name`.
void expect_limit(const char* name, const Case& c, const std::function<void(Options&, Tensor&)>& allowed,
                  const std::function<void(Options&, Tensor&)>& beyond) {
  const Status yes = asked(c, allowed), no = asked(c, beyond);
  EXPECT_TRUE(yes.ok()) << name << ": " << yes.text;
  EXPECT_FALSE(no.ok()) << name << " is not refused";
  EXPECT_EQ(std::string(no.text).rfind(name, 0), 0u) << no.text;
}

TEST(Problem, AnOutputWithTwoElementsInOnePlaceIsRefused) {
  Case c = dense();
  const auto nothing = [](Options&, Tensor&) {};
  for (int axis : {0, 1, 2, 3}) expect_limit("out.stride", c, nothing, [&](Options&, Tensor& out) { out.stride[axis] = 0; });
  for (int axis : {0, 1, 2}) {
    expect_limit("lse.stride", c, nothing, [&](Options& o, Tensor&) { o.lse.stride[axis] = 0; });
    expect_limit("key_weights.stride", c, nothing, [&](Options& o, Tensor&) { o.key_weights.stride[axis] = 0; });
  }
}

TEST(Problem, LengthsReachToTheLastSlot) {
  Case c = dense();
  c.query_lengths = Array::ints({0, 3}), c.key_lengths = Array::ints({5, 0});
  EXPECT_TRUE(asked(c, [](Options&, Tensor&) {}).ok());
  for (Index wrong : {-1, 4}) {
    c.query_lengths = Array::ints({0, wrong});
    EXPECT_EQ(std::string(asked(c, [](Options&, Tensor&) {}).text).rfind("query_lengths[1]", 0), 0u) << wrong;
  }
  c.query_lengths = Array::ints({0, 3});
  for (Index wrong : {-1, 6}) {
    c.key_lengths = Array::ints({wrong, 0});
    EXPECT_EQ(std::string(asked(c, [](Options&, Tensor&) {}).text).rfind("key_lengths[0]", 0), 0u) << wrong;
  }
}

TEST(Problem, BoundariesReachToTheLastRowAndNeverFall) {
  const auto text_of = [](const std::vector<Index>& q, const std::vector<Index>& k) {
    Case c({.queries = 4, .keys = 6, .head_dim = 2, .value_dim = 2}, q, k);
    return std::string(asked(c, [](Options&, Tensor&) {}).text);
  };
  EXPECT_EQ(text_of({0, 2, 4}, {0, 6, 6}), "");
  EXPECT_EQ(text_of({0, 2, 5}, {0, 6, 6}).rfind("cu_seqlens_q[2]", 0), 0u);
  EXPECT_EQ(text_of({0, 2, 4}, {0, 6, 7}).rfind("cu_seqlens_k[2]", 0), 0u);
  EXPECT_EQ(text_of({0, 2, 1}, {0, 6, 6}).rfind("cu_seqlens_q[2]", 0), 0u);
  EXPECT_EQ(text_of({1, 2, 4}, {0, 6, 6}).rfind("cu_seqlens_q[0]", 0), 0u);
}

TEST(Problem, NumbersReachToTheirLimits) {
  const Case c = dense();
  expect_limit(
      "window.left", c, [](Options& o, Tensor&) { o.window.left = -1; }, [](Options& o, Tensor&) { o.window.left = -2; });
  expect_limit(
      "window.right", c, [](Options& o, Tensor&) { o.window.right = 0; }, [](Options& o, Tensor&) { o.window.right = -2; });
  expect_limit(
      "dropout.probability", c, [](Options& o, Tensor&) { o.dropout.probability = std::nextafter(1.0, 0.0); },
      [](Options& o, Tensor&) { o.dropout.probability = 1; });
  expect_limit(
      "dropout.probability", c, [](Options& o, Tensor&) { o.dropout.probability = 0; },
      [](Options& o, Tensor&) { o.dropout.probability = -1e-300; });
  expect_limit("scale", c, [](Options& o, Tensor&) { o.scale = -1e38; }, [](Options& o, Tensor&) { o.scale = 1.001e38; });
  expect_limit("softcap", c, [](Options& o, Tensor&) { o.softcap = 0; }, [](Options& o, Tensor&) { o.softcap = -1e-30; });
  expect_limit("threads", c, [](Options& o, Tensor&) { o.threads = 4096; }, [](Options& o, Tensor&) { o.threads = 4097; });
}

TEST(Problem, PositionsReachTo2ToThe40) {
  const Case c = dense();
  constexpr Index kLimit = Index{1} << 40;
  for (Index sign : {1, -1})
    for (ConstTensor Options::* option : {&Options::query_offset, &Options::first_key_position}) {
      const auto at = [&](Index position) {
        const Array positions = Array::ints({position, 0}, DType::i64);
        return std::string(
            asked(c, [&](Options& o, Tensor&) { o.*option = positions.view(), o.alignment = Alignment::top_left; }).text);
      };
      EXPECT_EQ(at(sign * kLimit), "");
      EXPECT_NE(at(sign * (kLimit + 1)).find("[0] = "), std::string::npos);
    }
}

/// Also for rows whose own place is before the first key: begin − left must not pass the least integer.
TEST(Problem, WindowsBeyondEveryPositionAreNoWindow) {
  constexpr Index kMost = std::numeric_limits<Index>::max();
  const Shape shape = {.queries = 6, .keys = 2, .head_dim = 2, .value_dim = 2};
  for (const Window& window : {Window{kMost, -1}, Window{-1, kMost}, Window{kMost, kMost}}) {
    Case wide(shape), plain(shape);
    wide.fill_normal(2), plain.fill_normal(2);
    wide.options.window = window;
    EXPECT_TRUE(same_results(wide, plain)) << window.left << ", " << window.right;
  }
}

TEST(Problem, AnOutputInThePlaceOfAnInputIsRefused) {
  Case c({.queries = 3, .keys = 3, .head_dim = 4, .value_dim = 4});
  c.fill_normal(3);
  for (const Array* input : {&c.q, &c.k, &c.v}) {
    const std::vector<double> before = input->values();
    Tensor out = c.out.view();
    out.data = input->view().data;
    const Status status = try_attention(c.q.view(), c.k.view(), c.v.view(), out, {});
    EXPECT_EQ(std::string(status.text).rfind("out.data", 0), 0u) << status.text;
    EXPECT_EQ(input->values(), before);
  }
}

}  // namespace
}  // namespace flashtile::testing
