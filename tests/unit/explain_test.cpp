// The one notation of problems: what problem_line() prints of packed sequences and of outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/case.h"

namespace flashtile::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<Index> bounds_of(const std::vector<Index>& lengths) {
  std::vector<Index> bounds{0};
  for (Index n : lengths) bounds.push_back(bounds.back() + n);
  return bounds;
}

/// Packed queries and keys of these lengths, `tail` rows behind the last query.
Case packed(const std::vector<Index>& queries, const std::vector<Index>& keys, Index tail = 0) {
  const std::vector<Index> q = bounds_of(queries), k = bounds_of(keys);
  Case c({.queries = q.back() + tail, .keys = k.back(), .q_heads = 2, .head_dim = 4, .value_dim = 3}, q, k);
  c.outputs = Outputs::out;
  return c;
}

TEST(ProblemLine, LengthsOfPackedSequencesAddUpToTheirRows) {
  EXPECT_EQ(problem_line(packed({17, 3, 3, 3, 0}, {5, 4, 3, 2, 2}).planned()),
            "--dtype fp32 --q 17+3*3+0x2x4 --k 5+4+3+2*2x1x4 --v 5+4+3+2*2x1x3");
  EXPECT_EQ(problem_line(packed({17}, {5}).planned()), "--dtype fp32 --q 17x2x4 --k 5x1x4 --v 5x1x3");
}

TEST(ProblemLine, CountsSequencesWhereLengthsDoNotSayItAll) {
  const char* const kCounted = "--dtype fp32 --q 10x2x4 --k 9x1x4 --v 9x1x3 --sequences 2";
  EXPECT_EQ(problem_line(packed({5, 4}, {5, 4}, 1).planned()), kCounted);  // a row of no sequence
  Case shorter = packed({5, 5}, {5, 4});
  shorter.query_lengths = Array::ints({5, 3});
  EXPECT_EQ(problem_line(shorter.planned()), kCounted);
  EXPECT_EQ(problem_line(packed({}, {}).planned()), "--dtype fp32 --q 0x2x4 --k 0x1x4 --v 0x1x3 --sequences 0");
}

TEST(ProblemLine, OfManySequencesFitsIntoTheLineOfVerboseCalls) {
  std::vector<Index> lengths(200);
  std::iota(lengths.begin(), lengths.end(), 1000);  // 999 characters
  EXPECT_THAT(problem_line(packed(lengths, lengths).planned()), HasSubstr("--q 1000+1001+"));
  EXPECT_LT(problem_line(packed(lengths, lengths).planned()).size(), 3500u);
  lengths.push_back(1);
  EXPECT_THAT(problem_line(packed(lengths, lengths).planned()), HasSubstr(" --sequences 201"));
  EXPECT_THAT(problem_line(packed(std::vector<Index>(5000, 3), std::vector<Index>(5000, 4)).planned()),
              HasSubstr("--q 5000*3x2x4 --k 5000*4x1x4"));
}

TEST(ProblemLine, NamesEachStatisticOrAllOfThem) {
  Case c({.queries = 3, .keys = 3});
  Options o = c.wired();
  const auto line = [&] { return problem_line(plan(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o)); };
  EXPECT_THAT(line(), EndsWith(" --lse --statistics --key-weights"));
  o.statistics.logit_mean = {};
  EXPECT_THAT(line(), EndsWith(" --lse --largest-weight --entropy --logit-deviation --key-weights"));
  o.statistics = {}, o.statistics.logit_mean = c.logit_mean.view(), o.lse = {}, o.key_weights = {};
  EXPECT_THAT(line(), EndsWith("x8 --logit-mean"));
}

TEST(Explain, ScoreMatricesOfPackedSequencesAreThoseOfEachAlone) {
  EXPECT_THAT(explain(packed({1000, 1}, {1000, 500}).planned()),  // 2 · (1000² + 500) · 4 bytes
              HasSubstr("the score matrices of the sequences would be 8.004 MB"));
}

}  // namespace
}  // namespace flashtile::testing
