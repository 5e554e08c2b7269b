// Conformance with the ONNX operators Attention (opsets 23, 24) and FlexAttention (preview 1): all 87 node tests of
// the ONNX project, kept in tests/data/onnx. The definition must give every stored output (Y, present keys and
// values, qk_matmul_output); every instruction set must give Y, within ONNX's tolerance of the data and near the
// definition.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "support/case.h"
#include "support/compare.h"
#include "support/onnx_case.h"

namespace flashtile::testing::onnx {
namespace {

/// Directories whose names start so, in order. None when the data is missing: the count test then fails.
std::vector<std::string> cases(const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(data_directory(), missing))
    if (entry.is_directory() && entry.path().filename().string().rfind(prefix, 0) == 0)
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string name_of_case(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(std::string("test_").size());
}

std::string text_of(double x) {
  std::ostringstream text;
  text << x;
  return text.str();
}

struct Difference {
  double largest = 0;
  std::string failure;  // the first element outside the tolerance
};

/// |got − want| ≤ absolute + relative · |want|; two NaN and two equal infinities agree.
Difference compare(const std::vector<double>& got, const std::vector<double>& want, double relative, double absolute) {
  Difference d;
  if (got.size() != want.size()) d.failure = "another number of elements";
  for (std::size_t i = 0; d.failure.empty() && i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double error = std::fabs(got[i] - want[i]);
    if (error <= absolute + relative * std::fabs(want[i])) {
      d.largest = std::max(d.largest, error);
      continue;
    }
    std::ostringstream text;
    text.precision(9);
    text << "element " << i << " = " << got[i] << "; expected " << want[i];
    d.failure = text.str();
  }
  return d;
}

/// ONNX's own tolerance, the same for all dtypes.
Difference compare_as_onnx(const std::vector<double>& got, const std::vector<double>& want) {
  return compare(got, want, 1e-3, 1e-7);
}

/// What a kernel may differ from the definition by: a few roundings of sums of |v|, and the rounding of the result.
Difference compare_closely(const Call& call, const std::vector<double>& got, const std::vector<double>& definition) {
  const double largest_value = call.largest_value();
  switch (call.dtype()) {
    case DType::f64: return compare(got, definition, 0, 1e-13 * largest_value);
    case DType::f16: return compare(got, definition, 0x1p-11, 1e-6 * largest_value + 0x1p-25);
    default: return compare(got, definition, 0, 1e-6 * largest_value);
  }
}

/// Y = weights V in the stored order, in fp64; weights (B, Hq, Sq, Sk).
std::vector<double> product_with_values(const Call& call, const Value& weights) {
  std::vector<double> y(static_cast<std::size_t>(call.y.elements()));
  const Index group = call.q_heads() / call.v.shape[2];
  for (Index b = 0; b < call.batch(); ++b)
    for (Index h = 0; h < call.q_heads(); ++h)
      for (Index i = 0; i < call.queries(); ++i)
        for (Index j = 0; j < call.keys(); ++j)
          for (Index d = 0; d < call.v.shape[3]; ++d)
            y[call.y_index(b, h, i, d)] += weights.data[call.score_index(b, h, i, j)] * at(call.v, b, j, h / group, d);
  return y;
}

/// Y of the definition, in the stored order; weights are changed by prob_mod where there is one.
std::vector<double> definition_y(const Call& call) {
  std::vector<double> y(static_cast<std::size_t>(call.y.elements()));
  Value weights{{call.batch(), call.q_heads(), call.queries(), call.keys()}, {}};
  weights.data.resize(static_cast<std::size_t>(Value::count(weights.dims)));
  const Status status = call.each_row(call.options, [&](Index b, Index h, Index i, const reference::Row<double>& row) {
    for (Index d = 0; d < call.v.shape[3]; ++d) y[call.y_index(b, h, i, d)] = row.out[static_cast<std::size_t>(d)];
    for (std::size_t j = 0; j < row.weights.size(); ++j)
      weights.data[call.score_index(b, h, i, static_cast<Index>(j))] = row.weights[j];
  });
  EXPECT_TRUE(status.ok()) << status.text;
  if (call.probability_graph == nullptr) return y;
  return product_with_values(call, evaluate(*call.probability_graph, weights));
}

/// qk_matmul_output, (B, Hq, Sq, Sk). Modes 0 and 1, the scores before and after softcap, are those of all pairs,
/// hidden ones too (no hidden pair occurs there in the data); mode 2 is what enters softmax, −inf where hidden; mode
/// 3 the weights, 0 in rows without a visible key.
std::vector<double> definition_scores(const Call& call, int mode) {
  Options options = call.options;
  if (mode < 2) options.causal = false, options.mask = {}, options.key_lengths = {}, options.query_offset = {};
  const double hidden = mode == 3 ? 0 : -std::numeric_limits<double>::infinity();
  std::vector<double> scores(static_cast<std::size_t>(call.batch() * call.q_heads() * call.queries() * call.keys()), hidden);
  const Status status = call.each_row(options, [&](Index b, Index h, Index i, const reference::Row<double>& row) {
    const std::vector<double>* const of_mode[] = {&row.raw, &row.capped, &row.logits, &row.weights};
    for (std::size_t j = 0; j < row.raw.size(); ++j)
      scores[call.score_index(b, h, i, static_cast<Index>(j))] = (*of_mode[mode])[j];
  });
  EXPECT_TRUE(status.ok()) << status.text;
  return scores;
}

void expect_stored_outputs(const Call& call) {
  std::size_t compared = 0;
  const auto expect = [&](const char* what, const std::vector<double>& got, std::size_t position) {
    const Array want = call.files.output(position);
    if (!want.present()) return;
    ++compared;
    const Difference d = compare_as_onnx(got, want.values());
    EXPECT_EQ(d.failure, "") << what;
    ::testing::Test::RecordProperty(std::string(what) + "_difference", text_of(d.largest));
  };
  expect("y", definition_y(call), 0);
  expect("present_key", call.present_key.values(), 1);
  expect("present_value", call.present_value.values(), 2);
  const int mode = static_cast<int>(call.files.node().number("qk_matmul_output_mode", 0));
  ASSERT_TRUE(mode >= 0 && mode <= 3) << "qk_matmul_output_mode " << mode;
  expect("scores", definition_scores(call, mode), 3);
  EXPECT_EQ(compared, call.files.stored_outputs()) << "an output of the model was not compared";
}

void expect_kernels_give_y(Call& call) {
  ASSERT_FALSE(available_isas().empty());
  const std::vector<double> definition = definition_y(call);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of_isa(isa));
    const Status status = call.run(isa);
    ASSERT_TRUE(status.ok()) << status.text;
    const Difference data = compare_as_onnx(call.y.values(), call.expected_y.values());
    EXPECT_EQ(data.failure, "") << "against the data";
    const Difference exact = compare_closely(call, call.y.values(), definition);
    EXPECT_EQ(exact.failure, "") << "against the definition";
    EXPECT_TRUE(call.y.surroundings_intact());
    ::testing::Test::RecordProperty(std::string(name_of_isa(isa)) + "_differences",
                                    "data " + text_of(data.largest) + ", definition " + text_of(exact.largest));
  }
}

TEST(OnnxData, HoldsAll76AttentionAnd11FlexAttentionCasesOfTheIndex) {
  EXPECT_EQ(cases("test_attention_").size(), 76u);
  EXPECT_EQ(cases("test_flexattention").size(), 11u);
  std::vector<std::string> listed;
  std::ifstream index(data_directory() / "INDEX.txt");
  for (std::string line; std::getline(index, line);) listed.push_back(line.substr(0, line.find(' ')));
  std::sort(listed.begin(), listed.end());
  EXPECT_EQ(cases("test_"), listed);
}

TEST(OnnxData, EveryTruncationOfATensorIsRefused) {
  const std::string whole = read_file(data_directory() / "test_attention_4d" / "test_data_set_0" / "input_0.pb");
  EXPECT_EQ(TensorProto(whole).values().size(), 2u * 3 * 4 * 8);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(TensorProto(std::string_view(whole).substr(0, size)).values(), std::runtime_error) << size << " bytes";
}

TEST(OnnxData, UnknownGraphOperatorIsRefused) {
  Node node;
  node.op = "Erf";
  const Value x{{1}, {0.5}};
  EXPECT_THROW(evaluate(node, {&x, &x}), std::runtime_error);
}

TEST(OnnxData, ShortMaskHidesTheKeysBeyondIt) {
  const double hidden = -std::numeric_limits<double>::infinity();
  const Array numbers = Array::of(DType::f32, {2, 1}, {0.5, 0.25}), booleans = Array::of(DType::boolean, {1, 2, 1}, {1, 0});
  EXPECT_EQ(mask_over(numbers, 2).values(), (std::vector<double>{0.5, hidden, 0.25, hidden}));
  EXPECT_EQ(mask_over(booleans, 2).values(), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(mask_over(booleans, 2).view().rank, 4);
}

class OnnxAttention : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Node, OnnxAttention, ::testing::ValuesIn(cases("test_attention_")), name_of_case);

TEST_P(OnnxAttention, DefinitionGivesEveryStoredOutput) {
  const Call call(GetParam());
  ASSERT_EQ(call.files.node().op, "Attention");
  expect_stored_outputs(call);
}

TEST_P(OnnxAttention, EveryInstructionSetGivesY) {
  Call call(GetParam());
  expect_kernels_give_y(call);
}

class OnnxFlexAttention : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Node, OnnxFlexAttention, ::testing::ValuesIn(cases("test_flexattention")), name_of_case);

TEST_P(OnnxFlexAttention, DefinitionGivesTheStoredOutput) {
  const Call call(GetParam());
  ASSERT_EQ(call.files.node().op, "FlexAttention");
  expect_stored_outputs(call);
}

/// flashtile changes scores, not weights: with prob_mod the kernel is asked for the weights (V = I), the graph is
/// applied to them and the product with V done here.
std::vector<double> y_through_weights(Call& call, Isa isa, Status& status) {
  const Index keys = call.keys(), heads = call.v.shape[2];
  Array identity(call.v.dtype, {call.batch(), keys, heads, keys});
  identity.fill_value(0);
  for (Index b = 0; b < call.batch(); ++b)
    for (Index h = 0; h < heads; ++h)
      for (Index j = 0; j < keys; ++j) identity.set(1, b, j, h, j);
  Array weights(call.dtype(), {call.batch(), call.q_heads(), call.queries(), keys});
  Options options = call.options;
  options.isa = isa;
  status = try_attention(call.q, call.k, identity.view(), transposed(weights.view(), 1, 2), options);
  const Value as_weights{{call.batch(), call.q_heads(), call.queries(), keys}, weights.values()};
  return product_with_values(call, evaluate(*call.probability_graph, as_weights));
}

TEST_P(OnnxFlexAttention, EveryInstructionSetGivesY) {
  Call call(GetParam());
  if (call.probability_graph == nullptr) return expect_kernels_give_y(call);
  ASSERT_FALSE(available_isas().empty());
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of_isa(isa));
    Status status;
    const std::vector<double> y = y_through_weights(call, isa, status);
    ASSERT_TRUE(status.ok()) << status.text;
    EXPECT_EQ(compare_as_onnx(y, call.expected_y.values()).failure, "") << "against the data";
    EXPECT_EQ(compare_closely(call, y, definition_y(call)).failure, "") << "against the definition";
  }
}

}  // namespace
}  // namespace flashtile::testing::onnx
