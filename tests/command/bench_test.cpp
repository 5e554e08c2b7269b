// `flashtile bench`: which problems it takes and what it says of them. No time decides anything here.
#include "bench.h"

#include "command/command.h"
#include "failure.h"
#include "inputs.h"
#include "parse.h"
#include "roofs/roofs.h"
#include "unfused.h"

namespace flashtile::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<std::string> queries(const std::vector<BenchCase>& cases) {
  std::vector<std::string> words;
  for (const BenchCase& c : cases) words.push_back(c.problem.dtype + " " + c.problem.q + " " + c.problem.k);
  return words;
}

TEST(Bench, RangesHaveBothEnds) {
  EXPECT_THAT(expand_range("--n", "8"), ElementsAre(8));
  EXPECT_THAT(expand_range("--n", "1-4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(expand_range("--n", "1-8*2"), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(expand_range("--n", "64-255+64"), ElementsAre(64, 128, 192));
  EXPECT_THAT(expand_range("--n", "0-0"), ElementsAre(0));
  for (const char* text : {"", "a", "1-", "-1", "2-1", "1-8*1", "0-8*2", "1-8+0", "1-8*", "1-99999999", "1--2"})
    EXPECT_THROW(expand_range("--n", text), UsageError) << text;
}

TEST(Bench, ListsMultiplyAndKeysFollowTheQueries) {
  BenchRequest request;
  request.problem.q = "1x16-32*2x4x8";
  request.problem.dtype = "fp32,bf16";
  request.kv_heads = "2,4";
  EXPECT_THAT(
      queries(bench_cases(request)),
      ElementsAre("fp32 1x16x4x8 1x16x2x8", "bf16 1x16x4x8 1x16x2x8", "fp32 1x16x4x8 1x16x4x8", "bf16 1x16x4x8 1x16x4x8",
                  "fp32 1x32x4x8 1x32x2x8", "bf16 1x32x4x8 1x32x2x8", "fp32 1x32x4x8 1x32x4x8", "bf16 1x32x4x8 1x32x4x8"));
  request.problem.q = "1-200x1-200x1x8";
  EXPECT_THROW(bench_cases(request), UsageError);
}

TEST(Bench, PackedSequencesAreNoRangeAndTheirHeadsFollow) {
  BenchRequest request;
  request.problem.q = "3+5*2x2-4*2x8,16-32*2x4x8";
  request.kv_heads = "2";
  EXPECT_THAT(queries(bench_cases(request)), ElementsAre("fp32 3+5*2x2x8 3+5*2x2x8", "fp32 3+5*2x4x8 3+5*2x2x8",
                                                         "fp32 16x4x8 16x2x8", "fp32 32x4x8 32x2x8"));
}

TEST(Bench, TheDefaultSetIsMadeOfProblems) {
  const std::vector<BenchCase> cases = bench_cases({});
  EXPECT_GE(cases.size(), 20u);
  for (const BenchCase& c : cases) {
    options_of(c.problem);
    EXPECT_THAT(parse_shape("--v", c.problem.v).sizes, SizeIs(::testing::AnyOf(3, 4)));
  }
  BenchRequest half;
  half.problem.dtype = "bf16,fp16";
  for (const BenchCase& c : bench_cases(half)) EXPECT_NE(c.problem.dtype, "fp32");
}

TEST(Bench, TheDefaultSetShowsWhatOutputsCost) {
  int plain = 0, weights = 0, moments = 0, columns = 0;
  for (const BenchCase& c : bench_cases({})) {
    const Outputs& o = c.outputs;
    if (c.problem.q != "1x2048x8x64" || c.problem.dtype != "fp32" || c.problem.causal) continue;
    if (o.lse && o.largest_weight && o.entropy && !o.logit_mean) ++weights;
    else if (o.logit_mean && o.logit_deviation && !o.lse) ++moments;
    else if (c.problem.key_weights && !o.lse) ++columns;
    else ++plain;
  }
  EXPECT_THAT((std::vector{plain, weights, moments, columns}), ElementsAre(1, 1, 1, 1));
}

// Case A10.1: the program without a fused kernel stands beside ours at every length, however many threads there are.
TEST(Bench, A10_1_TheDefaultSetHasABaselineFromShortToLong) {
  for (std::int64_t length = 128; length <= 8192; length *= 2) {
    bool found = false;
    for (const BenchCase& c : bench_cases({})) {
      if (c.problem.q != fmt::format("1x{}x2x64", length) || c.problem.k != c.problem.q) continue;
      found = true;
      Inputs inputs;  // sizes alone matter
      inputs.q = inputs.k = inputs.v = view(static_cast<const float*>(nullptr), {1, length, 2, 64});
      for (int threads = 1; threads <= 256; ++threads)
        EXPECT_EQ(Unfused::refusal(inputs, options_of(c.problem), threads), "") << length << " " << threads;
    }
    EXPECT_TRUE(found) << length;
  }
}

/// Every rule that the baseline knows, against the definition.
TEST(Bench, TheBaselineIsAttention) {
  if (!unfused_missing().empty()) GTEST_SKIP() << unfused_missing();
  const struct {
    const char *q, *k, *v, *window, *alignment;
    bool causal;
    const char* mask = "";
  } problems[] = {{"2x5x4x8", "2x19x2x8", "2x19x2x3", "", "bottom-right", false},
                  {"1x19x2x8", "1x19x2x8", "1x19x2x8", "", "bottom-right", true},
                  {"1x5x2x8", "1x19x2x8", "1x19x2x8", "", "top-left", true},
                  {"1x9x1x8", "1x5x1x8", "1x5x1x8", "", "bottom-right", true},  // rows that see nothing
                  {"19+0+2*5+3x4x8", "19+4+0+70+1x2x8", "19+4+0+70+1x2x3", "", "bottom-right", true},
                  {"1x40x1x8", "1x40x1x8", "1x40x1x8", "3,2", "bottom-right", false},
                  {"2x5x4x8", "2x19x2x8", "2x19x2x3", "", "bottom-right", true, "bool"},
                  {"2x1x2x8", "2x19x2x8", "2x19x2x3", "", "bottom-right", false, "bf16"},
                  {"19+5x4x8", "19+70x2x8", "19+70x2x3", "9,-1", "bottom-right", false, "fp32"}};
  for (const auto& p : problems)
    for (const int threads : {1, 3}) {
      RunRequest request;
      request.q = p.q, request.k = p.k, request.v = p.v, request.window = p.window, request.causal = p.causal;
      request.alignment = p.alignment, request.mask = p.mask;
      const Inputs inputs = read_inputs(request);
      Options options = options_of(request);
      inputs.pass_to(options);
      ASSERT_EQ(Unfused::refusal(inputs, options, threads), "");
      Unfused unfused(inputs, options, Isa::scalar, threads);
      unfused.run();
      const CheckResult r = check(inputs.q, inputs.k, inputs.v, unfused.out(), options, Family::fma, 1, false);
      EXPECT_LT(r.relative_rms, 1e-6) << p.q << " " << p.k;
      EXPECT_EQ(r.disagreements, 0);
    }
}

TEST(Bench, FewerRowsMayBeCompared) {
  RunRequest request;
  request.q = "1x64x2x8", request.k = request.v = "1x32x2x8";
  const Inputs inputs = read_inputs(request);
  files::Array out = files::make_array("out", DType::f32, {1, 64, 2, 8});
  attention(inputs.q, inputs.k, inputs.v, out.view());
  EXPECT_EQ(check(inputs.q, inputs.k, inputs.v, out.view(), {}, Family::fma, 1, false).rows, 128);
  const CheckResult some = check(inputs.q, inputs.k, inputs.v, out.view(), {}, Family::fma, 1, false, 10);
  EXPECT_EQ(some.rows, 10);
  EXPECT_TRUE(some.passed());
}

TEST(Bench, RoofsAreMeasured) {
  EXPECT_GT(roofs::Arithmetic(Isa::scalar, 1).measure(), 0);
  EXPECT_FALSE(roofs::Arithmetic(Isa::amx_emulated, 1).known());
  EXPECT_EQ(roofs::Arithmetic(Isa::amx_emulated, 1).measure(), 0);
}

TEST_F(Command, BenchSaysEverythingOfEveryProblem) {
  const Result r = run("bench --q 1x16-32*2x2x8 --dtype fp32,bf16,fp64 --lse --rounds 2 --output json");
  ASSERT_EQ(r.status, 0) << r.err;
  const json all = json::parse(r.out)["measurements"];
  ASSERT_EQ(all.size(), 6u);
  for (const json& m : all) {
    EXPECT_EQ(m["rounds"], 2);
    EXPECT_EQ(m["flops"], 32 * m["visible_pairs"].get<double>());
    for (const char* name : {"seconds_best", "seconds_median", "tflops", "bytes_min", "workspace_bytes"})
      EXPECT_GT(m[name].get<double>(), 0) << name;
    EXPECT_LE(m["seconds_best"].get<double>(), m["seconds_median"].get<double>());
    EXPECT_LE(m["relative_rms_error"].get<double>(), m["relative_rms_bound"].get<double>());
    EXPECT_NE(m["unfused_missing"].get<std::string>().empty(), m["unfused_seconds_best"].is_null());
    EXPECT_THAT(m["problem"].get<std::string>(), HasSubstr("--lse"));
  }
  const Result csv = run("bench --q 1x4x1x8 --rounds 1 --output csv --cold --statistics --key-weights");
  ASSERT_EQ(csv.status, 0) << csv.err;
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
  EXPECT_THAT(csv.out, StartsWith("problem,isa,"));
  for (const char* output : {"--lse --largest-weight --entropy", "--logit-mean", "--logit-deviation", "--key-weights"}) {
    const Result one = run(std::string("bench --q 1x4x1x8 --rounds 1 --output json ") + output);
    ASSERT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(json::parse(one.out)["measurements"][0]["problem"],
              std::string("--dtype fp32 --q 1x4x1x8 --k 1x4x1x8 --v 1x4x1x8 ") + output);
  }
  const Result table = run("bench --q 1x4x1x8 --rounds 1 --threads 1,2");
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("| --dtype fp32 --q 1x4x1x8 |"));
}

TEST_F(Command, BenchCountsThePairsOfEachPackedSequence) {
  const Result r = run("bench --q 3+2*5x2x8 --k 4+2*5x1x8 --causal --rounds 1 --output json");
  ASSERT_EQ(r.status, 0) << r.err;
  const json m = json::parse(r.out)["measurements"][0];
  EXPECT_EQ(m["visible_pairs"], 2 * ((2 + 3 + 4) + 2 * (5 * 6 / 2)));
  EXPECT_EQ(m["flops"], 32 * m["visible_pairs"].get<double>());
  EXPECT_EQ(m["problem"], "--dtype fp32 --q 3+2*5x2x8 --k 4+2*5x1x8 --v 4+2*5x1x8 --causal");
}

TEST_F(Command, BenchReplaysPackedSequencesWhereTheLineHasTheirLengths) {
  run("run --q 3+2*5x2x8 --k 4+6+2x1x8 --causal --repeat 0", "FLASHTILE_VERBOSE=1");
  std::ofstream(path("calls")) << contents(path("stderr")) << "flashtile: --dtype fp32 --q 14x2x8 --k 14x2x8 "
                               << "--v 14x2x8 --sequences 3 # avx2\n";
  const Result r = run("bench --rounds 1 --output json --replay " + path("calls"));
  ASSERT_EQ(r.status, 0) << r.err;
  const json all = json::parse(r.out)["measurements"];
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["problem"], "--dtype fp32 --q 3+2*5x2x8 --k 4+6+2x1x8 --v 4+6+2x1x8 --causal --lse --statistics");
  EXPECT_THAT(r.err, HasSubstr("skips 1 problems: --sequences"));
}

TEST_F(Command, BenchReplaysWhatVerboseCallsPrinted) {
  run("run --q 1x4x2x8 --k 1x6x1x8 --causal --repeat 2", "FLASHTILE_VERBOSE=1");
  std::ofstream(path("calls")) << contents(path("stderr"))
                               << "another line\nflashtile: --dtype fp32 --q 1x4x2x8 --k 1x6x2x8 "
                               << "--v 1x6x2x8 --mask bool # avx2\n";
  const Result r = run("bench --rounds 1 --output json --replay " + path("calls"));
  ASSERT_EQ(r.status, 0) << r.err;
  const json all = json::parse(r.out)["measurements"];
  ASSERT_GE(all.size(), 1u);  // the call with all outputs, and those for O and LSE alone
  for (const json& m : all)
    EXPECT_THAT(m["problem"].get<std::string>(),
                StartsWith("--dtype fp32 --q 1x4x2x8 --k 1x6x1x8 --v 1x6x1x8 --causal --lse"));
  EXPECT_THAT(r.err, HasSubstr("skips 1 problems: --mask"));
}

TEST_F(Command, BenchRefusesWhatItCannotMeasure) {
  expect_wrong("bench --q 1x2", "--q = 1x2", "BxSxHxD");
  expect_wrong("bench --q 1+-2x3x4", "--q = 1+-2", "64-256+64");
  expect_wrong("bench --q 1+2x3x4 --k 3x3x4", "--k = 3x3x4", "2 sequences");
  expect_wrong("bench --q 1x2x3x4 --dtype int4", "--dtype = int4", "fp32");
  expect_wrong("bench --q 1x4x3x8 --kv-heads 2 --rounds 1", "k.heads = 2", "q.heads = 3");
  expect_wrong("bench --q 1x2-1x3x4", "--q = 2-1", "64-256+64");
  expect_wrong("bench --k 1x2x3x4", "--q = ", "BxSxHxD");
  expect_wrong("bench --q 1x2x3x4 --mask int4", "--mask = int4", "bool, fp64");
  expect_wrong("bench --rounds 0", "--rounds = 0", "from 1");
  expect_wrong("bench --output xml", "--output = xml", "md, csv or json");
  expect_wrong("bench --isa sse9", "--isa = sse9", "scalar");
  expect_wrong("bench --replay /no/such/file", "--replay = ", "can be read");
  expect_wrong("bench --replay /dev/null", "--replay = ", "FLASHTILE_VERBOSE");
}

}  // namespace
}  // namespace flashtile::cli
