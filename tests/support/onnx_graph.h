// Evaluates the subgraphs of FlexAttention (score_mod, prob_mod): the operators that occur in the ONNX node tests, on
// whole tensors, in fp64. Slow and general.
//
// Always: an operator or a form of one that is not here throws std::runtime_error; nothing is passed over.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/onnx_pb.h"

namespace flashtile::testing::onnx {

struct Value {
  std::vector<std::int64_t> dims;  // none for a scalar
  std::vector<double> data;        // integers and booleans too

  static std::int64_t count(const std::vector<std::int64_t>& dims) {
    std::int64_t n = 1;
    for (std::int64_t d : dims) n *= d;
    return n;
  }
  double scalar() const {
    if (data.size() != 1) throw std::runtime_error("a scalar is expected");
    return data[0];
  }
};

/// Element i of `shape` read from a value that broadcasts to it (aligned at the last dimension).
inline double broadcast(const Value& v, const std::vector<std::int64_t>& shape, std::int64_t i) {
  std::int64_t offset = 0, step = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {  // from the last
    const std::int64_t n = shape[shape.size() - 1 - axis], at = i % n;
    i /= n;
    if (axis >= v.dims.size()) continue;
    const std::int64_t own = v.dims[v.dims.size() - 1 - axis];
    if (own != 1) offset += at * step;
    step *= own;
  }
  return v.data.at(static_cast<std::size_t>(offset));
}

inline std::vector<std::int64_t> common_shape(const std::vector<const Value*>& values) {
  std::vector<std::int64_t> shape;
  for (const Value* v : values) {
    if (v->dims.size() > shape.size()) shape.insert(shape.begin(), v->dims.size() - shape.size(), 1);
    for (std::size_t axis = 1; axis <= v->dims.size(); ++axis) {
      std::int64_t& n = shape[shape.size() - axis];
      const std::int64_t own = v->dims[v->dims.size() - axis];
      if (n != own && n != 1 && own != 1) throw std::runtime_error("shapes do not broadcast");
      if (n == 1) n = own;
    }
  }
  return shape;
}

/// f over the elements of one to three values, broadcast.
template <class F>
Value elementwise(const std::vector<const Value*>& in, F f) {
  Value out;
  out.dims = common_shape(in);
  const std::int64_t n = Value::count(out.dims);
  for (std::int64_t i = 0; i < n; ++i) {
    double x[3] = {};
    for (std::size_t k = 0; k < in.size(); ++k) x[k] = broadcast(*in[k], out.dims, i);
    out.data.push_back(f(x));
  }
  return out;
}

inline Value cast(const Value& x, int to) {
  switch (to) {
    case 1: return elementwise({&x}, [](const double* a) { return static_cast<double>(static_cast<float>(a[0])); });
    case 7: return elementwise({&x}, [](const double* a) { return std::trunc(a[0]); });
    case 11: return x;
    default: throw std::runtime_error("Cast to data type " + std::to_string(to));
  }
}

inline Value gather(const Value& from, const Value& at, int axis) {
  if (axis != 0 || from.dims.size() != 1) throw std::runtime_error("Gather from more than one dimension");
  return elementwise({&at}, [&](const double* i) {
    const double n = static_cast<double>(from.data.size());
    return from.data.at(static_cast<std::size_t>(i[0] < 0 ? i[0] + n : i[0]));
  });
}

inline Value range(double from, double to, double step) {
  Value r;
  for (double x = from; step > 0 ? x < to : x > to; x += step) r.data.push_back(x);
  r.dims = {static_cast<std::int64_t>(r.data.size())};
  return r;
}

inline Value reshape(Value v, const Value& shape) {
  const auto elements = static_cast<std::int64_t>(v.data.size());
  std::vector<std::int64_t> dims;
  std::int64_t known = 1, open = -1;
  for (std::size_t i = 0; i < shape.data.size(); ++i) {
    auto n = static_cast<std::int64_t>(shape.data[i]);
    if (n == 0) n = v.dims.at(i);
    if (n == -1) open = static_cast<std::int64_t>(i);
    if (n != -1) known *= n;
    dims.push_back(n);
  }
  if (open >= 0 && known > 0) dims[static_cast<std::size_t>(open)] = elements / known;
  if (Value::count(dims) != elements) throw std::runtime_error("Reshape to another number of elements");
  v.dims = dims;
  return v;
}

inline Value evaluate(const Node& node, const std::vector<const Value*>& in) {
  const std::string& op = node.op;
  const auto needs = [&](std::size_t n) {
    if (in.size() != n) throw std::runtime_error(op + " with " + std::to_string(in.size()) + " inputs");
  };
  if (op == "Tanh" || op == "Cast" || op == "Shape") {
    needs(1);
    if (op == "Tanh") return elementwise(in, [](const double* x) { return std::tanh(x[0]); });
    if (op == "Cast") return cast(*in[0], static_cast<int>(node.number("to", 0)));
    return {{static_cast<std::int64_t>(in[0]->dims.size())}, {in[0]->dims.begin(), in[0]->dims.end()}};
  }
  if (op == "Where" || op == "Range") {
    needs(3);
    if (op == "Where") return elementwise(in, [](const double* x) { return x[0] != 0 ? x[1] : x[2]; });
    return range(in[0]->scalar(), in[1]->scalar(), in[2]->scalar());
  }
  needs(2);
  if (op == "Add") return elementwise(in, [](const double* x) { return x[0] + x[1]; });
  if (op == "Sub") return elementwise(in, [](const double* x) { return x[0] - x[1]; });
  if (op == "Mul") return elementwise(in, [](const double* x) { return x[0] * x[1]; });
  if (op == "Div") return elementwise(in, [](const double* x) { return x[0] / x[1]; });
  if (op == "GreaterOrEqual") return elementwise(in, [](const double* x) { return x[0] >= x[1] ? 1.0 : 0.0; });
  if (op == "Gather") return gather(*in[0], *in[1], static_cast<int>(node.number("axis", 0)));
  if (op == "Reshape") return reshape(*in[0], *in[1]);
  throw std::runtime_error("operator " + op + " is not known");
}

/// The only output of a graph with one input.
inline Value evaluate(const Graph& graph, const Value& input) {
  if (graph.inputs.size() != 1 || graph.outputs.size() != 1) throw std::runtime_error("one input, one output expected");
  std::map<std::string, Value> values{{graph.inputs[0], input}};
  for (const TensorProto& c : graph.constants) values[c.name] = {c.dims, c.values()};
  for (const Node& node : graph.nodes) {  // in topological order, as ONNX asks
    std::vector<const Value*> in;
    for (const std::string& name : node.inputs) in.push_back(&values.at(name));
    Value result = evaluate(node, in);
    values[node.outputs.at(0)] = std::move(result);
  }
  return values.at(graph.outputs[0]);
}

}  // namespace flashtile::testing::onnx
