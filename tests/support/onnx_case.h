// One ONNX node test of Attention or FlexAttention as a call of flashtile: the directory's tensors and attributes
// become views and options, and the expected outputs stay beside them.
//
// The mapping is that of the ONNX specification: Q (B, H, S, D) or (B, S, H·D); past keys and values are put before
// the new ones; a mask whose last dimension is short is padded with "hidden"; query 0 stands at past length, or at
// nonpad_kv_seqlen − Sq with an external cache, or else at key 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "flashtile/flashtile.h"
#include "reference/attention.h"
#include "support/array.h"
#include "support/onnx_graph.h"
#include "support/onnx_pb.h"

namespace flashtile::testing::onnx {

inline std::filesystem::path data_directory() { return std::filesystem::path(FLASHTILE_TEST_DATA) / "onnx"; }

/// The N-th node input or output as it was stored; not present() where the node has none.
class Files {
 public:
  explicit Files(const std::string& name)
      : directory_(data_directory() / name), graph_(read_model(directory_ / "model.onnx")) {}

  const Node& node() const { return graph_.nodes.at(0); }
  Array input(std::size_t position) const { return load("input_", node().inputs, graph_.inputs, position); }
  Array output(std::size_t position) const { return load("output_", node().outputs, graph_.outputs, position); }
  std::size_t stored_outputs() const { return graph_.outputs.size(); }

 private:
  Array load(const std::string& prefix, const std::vector<std::string>& of_node, const std::vector<std::string>& of_graph,
             std::size_t position) const {
    if (position >= of_node.size() || of_node[position].empty()) return {};
    const auto found = std::find(of_graph.begin(), of_graph.end(), of_node[position]);
    if (found == of_graph.end()) throw std::runtime_error("the graph does not name " + of_node[position]);
    const std::string file = prefix + std::to_string(found - of_graph.begin()) + ".pb";
    const std::string bytes = read_file(directory_ / "test_data_set_0" / file);
    const TensorProto t(bytes);
    return Array::of(t.dtype(), t.dims, t.values());
  }

  std::filesystem::path directory_;
  Graph graph_;
};

/// Reads an operand as (B, S, H, D), however it is stored.
inline Tensor operand_view(const Array& a, Index heads) {
  if (a.view().rank == 4) return transposed(a.view(), 1, 2);
  Tensor t = a.view();
  t.rank = 4;
  t.shape[2] = heads, t.shape[3] = a.shape(2) / heads;
  t.stride[2] = t.shape[3], t.stride[3] = 1;
  return t;
}

inline double at(const Tensor& t, Index b, Index s, Index h, Index d) {
  return element(t.data, t.dtype, b * t.stride[0] + s * t.stride[1] + h * t.stride[2] + d * t.stride[3]);
}

/// (B, H, past + S, D): the past, then the new keys or values.
inline Array present_of(const Array& past, const Tensor& fresh) {
  const Index length = past.shape(2);
  Array all(past.dtype(), {past.shape(0), past.shape(1), length + fresh.shape[1], past.shape(3)});
  for (Index b = 0; b < all.shape(0); ++b)
    for (Index h = 0; h < all.shape(1); ++h)
      for (Index s = 0; s < all.shape(2); ++s)
        for (Index d = 0; d < all.shape(3); ++d)
          all.set(s < length ? past.get(b, h, s, d) : at(fresh, b, s - length, h, d), b, h, s, d);
  return all;
}

/// A mask of rank 1 to 4, as numpy broadcasts it, as a mask over `keys` keys of rank 2 or 4.
inline Array mask_over(const Array& given, Index keys) {
  const int rank = given.view().rank;
  std::vector<Index> shape(given.view().shape, given.view().shape + rank);
  while (shape.size() != 2 && shape.size() != 4) shape.insert(shape.begin(), 1);
  const Index own = shape.back();
  shape.back() = keys;
  const std::vector<double> from = given.values();
  std::vector<double> to;
  const double hidden = given.dtype() == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < from.size() / static_cast<std::size_t>(own); ++row)
    for (Index j = 0; j < keys; ++j)
      to.push_back(j < own ? from[row * static_cast<std::size_t>(own) + static_cast<std::size_t>(j)] : hidden);
  return Array::of(given.dtype(), shape, to);
}

/// The context of a score modifier that evaluates a graph. A tile is put at its place in a whole score tensor, so
/// that a graph may ask for shapes and make indices of its own.
struct GraphModifier {
  const Graph* graph = nullptr;
  std::vector<Index> shape;  // (B, Hq, Sq, Sk)

  Value zeros() const { return {shape, std::vector<double>(static_cast<std::size_t>(Value::count(shape)))}; }
  std::size_t place(const ScoreTile& t, Index i, Index j) const {
    return static_cast<std::size_t>(((t.batch * shape[1] + t.head) * shape[2] + t.query + i) * shape[3] + t.key + j);
  }
  template <class T>
  void apply(const ScoreTile& t) const {
    Value scores = zeros();
    for (Index i = 0; i < t.queries; ++i)
      for (Index j = 0; j < t.keys; ++j) scores.data.at(place(t, i, j)) = t.at<T>(i, j);
    const Value changed = evaluate(*graph, scores);
    for (Index i = 0; i < t.queries; ++i)
      for (Index j = 0; j < t.keys; ++j) t.at<T>(i, j) = static_cast<T>(changed.data.at(place(t, i, j)));
  }
  static void call(void* context, const ScoreTile& t) {
    const auto& self = *static_cast<const GraphModifier*>(context);
    t.dtype == DType::f64 ? self.apply<double>(t) : self.apply<float>(t);
  }
};

class Call {
 public:
  explicit Call(const std::string& name) : files(name) {
    const Node& node = files.node();
    q_ = files.input(0), k_ = files.input(1), v_ = files.input(2);
    const auto heads = [&](const char* attribute) { return static_cast<Index>(node.number(attribute, 0)); };
    q = operand_view(q_, heads("q_num_heads"));
    k = operand_view(k_, heads("kv_num_heads")), v = operand_view(v_, heads("kv_num_heads"));
    expected_y = files.output(0);
    y = Array(expected_y.dtype(), dims_of(expected_y));
    out = operand_view(y, q.shape[2]);
    if (node.attributes.count("scale") != 0) options.scale = node.number("scale", 1);
    node.op == "Attention" ? attention(node) : flex_attention(node);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Index batch() const { return q.shape[0]; }
  Index q_heads() const { return q.shape[2]; }
  Index queries() const { return q.shape[1]; }
  Index keys() const { return k.shape[1]; }
  DType dtype() const { return y.dtype(); }

  /// Runs flashtile into y, which is poisoned first.
  Status run(Isa isa) {
    y.poison();
    Options capped = options;
    capped.isa = isa;
    return try_attention(q, k, v, out, capped);
  }

  /// see(b, h, i, row) for every row of the definition.
  template <class See>
  Status each_row(const Options& with, See see) const {
    Problem problem;
    if (const Status status = try_problem(q, k, v, out, with, problem); !status.ok()) return status;
    const Tensors tensors = tensors_of(q, k, v, out, with);
    for (Index s = 0; s < problem.sequence_count; ++s)
      for (Index h = 0; h < problem.q_heads; ++h)
        for (Index i = 0; i < problem.sequences[s].queries; ++i)
          see(problem.sequences[s].batch, h, i,
              reference::attention_row<double>(problem, tensors, problem.sequences[s], h, i));
    return {};
  }

  /// Where element (b, h, i, d) of Y stands in y.values().
  std::size_t y_index(Index b, Index h, Index i, Index d) const {
    return static_cast<std::size_t>(b * out.stride[0] + i * out.stride[1] + h * out.stride[2] + d);
  }
  std::size_t score_index(Index b, Index h, Index i, Index j) const {
    return static_cast<std::size_t>(((b * q_heads() + h) * queries() + i) * keys() + j);
  }
  double largest_value() const {
    double largest = 0;
    for (double x : (present_value.present() ? present_value : v_).values())
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
    return largest;
  }

  Files files;
  Tensor q, k, v, out;
  Array y, expected_y;
  Array present_key, present_value;  // when there is a past
  Options options;
  const Graph* probability_graph = nullptr;

 private:
  static std::vector<Index> dims_of(const Array& a) { return {a.view().shape, a.view().shape + a.view().rank}; }

  void attention(const Node& node) {
    options.causal = node.number("is_causal", 0) != 0;
    options.softcap = node.number("softcap", 0);
    options.alignment = Alignment::top_left;
    if (const Array past_key = files.input(4), past_value = files.input(5); past_key.present()) {
      present_key = present_of(past_key, k), present_value = present_of(past_value, v);
      k = transposed(present_key.view(), 1, 2), v = transposed(present_value.view(), 1, 2);
      query_offset_ = Array::ints(std::vector<Index>(static_cast<std::size_t>(batch()), past_key.shape(2)), DType::i64);
      options.query_offset = query_offset_.view();
    }
    if (const Array nonpad = files.input(6); nonpad.present()) {
      const std::vector<double> lengths = nonpad.values();
      key_lengths_ = Array::of(DType::i32, {batch()}, lengths);
      options.key_lengths = key_lengths_.view();
      options.alignment = Alignment::bottom_right;  // offset nonpad − Sq
    }
    if (const Array given = files.input(3); given.present()) {
      mask_ = mask_over(given, keys());
      options.mask = mask_.view();
    }
  }

  void flex_attention(const Node& node) {
    probability_graph = node.graph("prob_mod");
    modifier_.graph = node.graph("score_mod");
    if (modifier_.graph == nullptr) return;
    modifier_.shape = {batch(), q_heads(), queries(), keys()};
    // An unknown operator throws here, where it may.
    evaluate(*modifier_.graph, modifier_.zeros());
    options.score_modifier = {GraphModifier::call, nullptr, &modifier_};
  }

  Array q_, k_, v_, mask_, key_lengths_, query_offset_;
  GraphModifier modifier_;
};

}  // namespace flashtile::testing::onnx
