// Public bugs, group A11, the cases of the forward: baseline builds, dropout, mixed dtypes, masks beside causal. Each
// test is named after its case; the thread that reported the bug is quoted beside it. Messages: a11_messages.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "problem/dropout.h"
#include "support/compare.h"

namespace flashtile::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// llama.cpp#27982, #1655, openvino#30098: instructions beyond the baseline in common code. One binary holds every
// instruction set, the scalar one among them, and each can be asked for.
TEST(A11_DtypesMasksDropout, A11_3_BaselineIsAlwaysThereAndRight) {
  if (std::getenv("FLASHTILE_ISA") != nullptr) GTEST_SKIP() << "FLASHTILE_ISA caps every choice";
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    Case c({.batch = 2, .queries = 9, .keys = 140, .q_heads = 4, .kv_heads = 2, .head_dim = 33, .value_dim = 19}, dtype);
    c.options.isa = Isa::scalar, c.options.causal = true, c.options.softcap = 5;
    c.fill_normal(111);
    EXPECT_EQ(std::string(c.planned().facts().isa), "scalar");
    EXPECT_TRUE(runs_right(c)) << name_of(dtype);
  }
}

// Every member of the fma family has the bits of the baseline.
TEST(A11_DtypesMasksDropout, A11_3_EveryInstructionSetOfTheFamilyHasTheBitsOfTheBaseline) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const Shape shape{.batch = 2, .queries = 9, .keys = 600, .q_heads = 4, .kv_heads = 2, .head_dim = 33, .value_dim = 19};
    Case baseline(shape, s.dtype), other(shape, s.dtype);
    for (Case* c : {&baseline, &other}) {
      c->options.causal = true, c->options.softcap = 5, c->options.arithmetic = Arithmetic::fma;
      c->fill_normal(112);
    }
    baseline.options.isa = Isa::scalar, other.options.isa = s.isa;
    EXPECT_TRUE(same_results(baseline, other));
  }
}

/// Dropped and kept weights of a case made by fill_to_show_weights(): "10110…", rows one after another.
std::string kept_weights(const Case& c) {
  std::string text;
  for (Index b = 0; b < c.shape.batch; ++b)
    for (Index h = 0; h < c.shape.q_heads; ++h)
      for (Index i = 0; i < c.shape.queries; ++i)
        for (Index j = 0; j < c.shape.keys; ++j) text += c.out.get(b, i, h, j) != 0 ? '1' : '0';
  return text;
}

Case dropping(const Setting& s, double probability, std::uint64_t seed, std::uint64_t offset, int threads = 1) {
  Case c({.batch = 2, .queries = 11, .keys = 40, .q_heads = 4, .kv_heads = 2, .value_dim = 40}, s.dtype);
  c.fill_to_show_weights();
  c.options.isa = s.isa, c.options.threads = threads;
  c.options.dropout = {.probability = probability, .seed = seed, .offset = offset};
  return c;
}

// flash-attention#2088, #612, pytorch#187225, xformers#173: the mask is a function of (seed, offset, b, h, i, j).
TEST(A11_DtypesMasksDropout, A11_5_DropoutIsAFunctionOfSeedOffsetAndCoordinates) {
  std::string first;
  FT_FOR_EACH_SETTING(s) {
    Case c = dropping(s, 0.3, 5, 7);
    ASSERT_TRUE(runs_right(c));
    if (first.empty()) first = kept_weights(c);
    EXPECT_EQ(kept_weights(c), first) << "the same for every instruction set and dtype";
    for (Index h = 0; h < 4; ++h)
      for (Index j = 0; j < 40; ++j)
        EXPECT_EQ(c.out.get(1, 3, h, j) != 0, keeps(c.options.dropout, 1, h, 3, j)) << place(1, h, 3, j);
    for (int threads : {2, 5}) {
      Case more = dropping(s, 0.3, 5, 7, threads);
      ASSERT_TRUE(more.run().ok());
      EXPECT_TRUE(same_bits(c.out, more.out)) << threads;
    }
  }
}

TEST(A11_DtypesMasksDropout, A11_5_EveryBitOfSeedAndOffsetCounts) {
  Case base = dropping({}, 0.5, 5, 7);
  ASSERT_TRUE(base.run().ok());
  const std::string kept = kept_weights(base);
  for (int bit : {0, 1, 31, 32, 33, 63}) {
    Case seed = dropping({}, 0.5, 5 ^ (std::uint64_t{1} << bit), 7),
         offset = dropping({}, 0.5, 5, 7 ^ (std::uint64_t{1} << bit));
    ASSERT_TRUE(seed.run().ok());
    ASSERT_TRUE(offset.run().ok());
    EXPECT_NE(kept_weights(seed), kept) << "seed bit " << bit;
    EXPECT_NE(kept_weights(offset), kept) << "offset bit " << bit;
  }
}

// Batch entries, heads, rows and keys each have a mask of their own.
TEST(A11_DtypesMasksDropout, A11_5_NoTwoRowsShareAMask) {
  Case c = dropping({}, 0.5, 9, 0);
  ASSERT_TRUE(c.run().ok());
  const std::string kept = kept_weights(c);
  for (std::size_t a = 0; a < kept.size(); a += 40)
    for (std::size_t b = a + 40; b < kept.size(); b += 40)
      EXPECT_NE(kept.substr(a, 40), kept.substr(b, 40)) << a << ", " << b;
}

TEST(A11_DtypesMasksDropout, A11_5_ProbabilityZeroIsNoDropoutToTheBit) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = 9, .keys = 140, .q_heads = 2, .head_dim = 16, .value_dim = 16};
    Case plain(shape, s.dtype), zero(shape, s.dtype);
    for (Case* c : {&plain, &zero}) c->options.isa = s.isa, c->fill_normal(113);
    zero.options.dropout = {.probability = 0, .seed = 1234, .offset = 99};
    EXPECT_TRUE(same_results(plain, zero));
  }
}

// LSE and statistics are those of the undropped weights; the expectation of the output is the undropped output.
TEST(A11_DtypesMasksDropout, A11_5_ExpectedOutputIsPreservedAndLseUntouched) {
  FT_FOR_EACH_SETTING(s) {
    const Shape shape{.queries = 2, .keys = 64, .value_dim = 3};
    Case plain(shape, s.dtype), dropped(shape, s.dtype);
    for (Case* c : {&plain, &dropped}) c->options.isa = s.isa, c->fill_normal(114), c->v.fill_value(1);
    ASSERT_TRUE(plain.run().ok());
    double mean = 0;
    constexpr int kDraws = 400;
    for (int n = 0; n < kDraws; ++n) {
      dropped.options.dropout = {.probability = 0.25, .seed = 17, .offset = static_cast<std::uint64_t>(n)};
      ASSERT_TRUE(dropped.run().ok());
      mean += (dropped.out.get(0, 0, 0, 0) + dropped.out.get(0, 1, 0, 1)) / (2 * kDraws);
      ASSERT_TRUE(same_bits(dropped.lse, plain.lse));
      ASSERT_TRUE(same_bits(dropped.entropy, plain.entropy));
    }
    // One draw has a deviation of at most √(p/(1−p) Σ P²) ≈ 0.15; the mean of 800, 0.005.
    EXPECT_NEAR(mean, 1, 0.025);
  }
}

// pytorch PR #161489, ComfyUI#8118, dia#158: mixed dtypes that are allowed.
TEST(A11_DtypesMasksDropout, A11_6_MixedDtypesWork) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of_isa(isa));
    for (DType q : {DType::f32, DType::f16, DType::bf16})
      for (DType k : {DType::f32, DType::f16, DType::bf16})
        for (DType v : {DType::f32, DType::f16, DType::bf16})
          for (DType out : {DType::f32, q}) {
            Case c({.queries = 6, .keys = 30, .q_heads = 2, .head_dim = 20, .value_dim = 12}, DTypes(q, k, v, out));
            c.options.isa = isa, c.options.causal = true;
            c.fill_normal(115);
            EXPECT_TRUE(runs_right(c)) << name_of(q) << ", " << name_of(k) << ", " << name_of(v) << " → " << name_of(out);
          }
  }
}

TEST(A11_DtypesMasksDropout, A11_6_MasksOfEveryDtypeWorkWithEveryInput) {
  FT_FOR_EACH_SETTING(s) {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::boolean}) {
      Case c({.queries = 6, .keys = 30, .q_heads = 2, .head_dim = 20, .value_dim = 12}, s.dtype);
      c.options.isa = s.isa;
      c.fill_normal(116);
      c.mask = Array(dtype, {1, 2, 6, 30});
      Random random(117);
      c.mask.fill([&] { return dtype == DType::boolean ? random.coin(0.7) : random.coin(0.2) ? -kInf : random.normal(); });
      EXPECT_TRUE(runs_right(c)) << "mask " << name_of(dtype);
    }
  }
}

// The same threads: what is not allowed is refused, and the message names all three dtypes.
TEST(A11_DtypesMasksDropout, A11_6_RefusedCombinationsNameEveryDtype) {
  const DTypes refused[] = {
      {DType::f64, DType::f32, DType::f32, DType::f64},  {DType::f32, DType::f64, DType::f64, DType::f32},
      {DType::bf16, DType::f64, DType::f16, DType::f32}, {DType::f64, DType::f64, DType::f64, DType::f32},
      {DType::f32, DType::f16, DType::f16, DType::f16},  {DType::f16, DType::f16, DType::f16, DType::bf16},
      {DType::bf16, DType::f32, DType::f16, DType::f64}};
  for (const DTypes& d : refused) {
    Case c({.queries = 3, .keys = 3}, d);
    c.fill_normal(118);
    const Status status = c.run();
    const std::string text = status.text;
    EXPECT_EQ(status.code, Code::invalid_argument) << text;
    const std::string names = std::string("q ") + name_of(d.q) + ", k " + name_of(d.k) + ", v " + name_of(d.v);
    EXPECT_NE(text.find(names), std::string::npos) << text << " does not contain " << names;
    EXPECT_NE(text.find("expected fp"), std::string::npos) << text;
    EXPECT_TRUE(c.out.untouched());
  }
}

// pytorch#187801, #118972; tinygrad PR #8675; minimind#382: a mask and causal together.
TEST(A11_DtypesMasksDropout, A11_7_MaskAndCausalAreBothApplied) {
  FT_FOR_EACH_SETTING(s) {
    for (bool windowed : {false, true}) {
      for (DType dtype : {DType::boolean, DType::f32}) {
        const Shape shape{.queries = 20, .keys = 150, .q_heads = 2, .head_dim = 16, .value_dim = 16};
        Case both(shape, s.dtype), merged(shape, s.dtype);
        for (Case* c : {&both, &merged}) {
          c->options.isa = s.isa;
          c->fill_normal(119);
          c->mask = Array(dtype, {20, 150});
        }
        both.options.causal = true;
        if (windowed) both.options.window.left = 60;
        Random random(120);
        for (Index i = 0; i < 20; ++i)
          for (Index j = 0; j < 150; ++j) {
            const bool allowed = random.coin(0.6);
            const bool inside = j <= i + 130 && (!windowed || j >= i + 70);
            const double bias = random.normal();
            const auto entry = [&](bool seen) { return dtype == DType::boolean ? seen : seen ? bias : -kInf; };
            both.mask.set(entry(allowed), i, j), merged.mask.set(entry(allowed && inside), i, j);
          }
        EXPECT_TRUE(same_results(both, merged)) << name_of(dtype) << (windowed ? ", window" : "");
        EXPECT_TRUE(agrees(both, default_tolerance(both)));
      }
    }
  }
}

}  // namespace
}  // namespace flashtile::testing
