// Reads ONNX files (model.onnx, input_0.pb) without the onnx package: the protobuf wire format and the few messages
// that the node tests use. Field numbers are those of onnx.proto3.
//
// Always: a malformed file throws std::runtime_error. Unknown fields are passed over, as protobuf asks.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flashtile/tensor.h"
#include "problem/number.h"

namespace flashtile::testing::onnx {

inline std::runtime_error malformed(const std::string& what) { return std::runtime_error("onnx file: " + what); }

/// One field of a message: a number (varint or fixed) or a run of bytes.
struct Field {
  int number = 0, wire = 0;
  std::uint64_t integer = 0;
  std::string_view bytes;

  float as_float() const { return float_of(static_cast<std::uint32_t>(integer)); }
  std::int64_t as_int() const { return static_cast<std::int64_t>(integer); }
  std::string text() const { return std::string(bytes); }
};

class Wire {
 public:
  explicit Wire(std::string_view bytes) : left_(bytes) {}
  bool done() const { return left_.empty(); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    throw malformed("a varint of more than ten bytes");
  }
  std::uint64_t fixed(std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(size).data(), size);
    return value;
  }
  Field field() {
    const std::uint64_t tag = varint();
    Field f;
    f.number = static_cast<int>(tag >> 3), f.wire = static_cast<int>(tag & 7);
    switch (f.wire) {
      case 0: f.integer = varint(); break;
      case 1: f.integer = fixed(8); break;
      case 2: f.bytes = take(varint()); break;
      case 5: f.integer = fixed(4); break;
      default: throw malformed("wire type " + std::to_string(f.wire));
    }
    return f;
  }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > left_.size()) throw malformed("truncated");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  std::string_view left_;
};

/// Calls see(field) for every field of a message.
template <class See>
void each_field(std::string_view message, See see) {
  for (Wire w(message); !w.done();) see(w.field());
}

/// A repeated number may come packed or one by one; next(wire) reads one.
template <class T, class Next>
void append(std::vector<T>& to, const Field& f, Next next) {
  if (f.wire != 2) return to.push_back(static_cast<T>(f.integer));
  for (Wire w(f.bytes); !w.done();) to.push_back(static_cast<T>(next(w)));
}

struct TensorProto {
  std::string name, raw;
  int type = 0;
  std::vector<std::int64_t> dims, ints;  // ints: int32_data or int64_data
  std::vector<std::uint32_t> float_bits;
  std::vector<std::uint64_t> double_bits;

  explicit TensorProto(std::string_view message = {}) {
    const auto varint = [](Wire& w) { return w.varint(); };
    each_field(message, [&](const Field& f) {
      switch (f.number) {
        case 1: append(dims, f, varint); break;
        case 2: type = static_cast<int>(f.integer); break;
        case 4: append(float_bits, f, [](Wire& w) { return w.fixed(4); }); break;
        case 5:
        case 7: append(ints, f, varint); break;
        case 8: name = f.text(); break;
        case 9: raw = f.text(); break;
        case 10: append(double_bits, f, [](Wire& w) { return w.fixed(8); }); break;
        default: break;
      }
    });
  }

  DType dtype() const {
    switch (type) {
      case 1: return DType::f32;
      case 6: return DType::i32;
      case 7: return DType::i64;
      case 9: return DType::boolean;
      case 10: return DType::f16;
      case 11: return DType::f64;
      case 16: return DType::bf16;
      default: throw malformed("tensor " + name + " has data type " + std::to_string(type));
    }
  }

  /// All elements; as many as dims say.
  std::vector<double> values() const {
    std::uint64_t count = 1;
    for (std::int64_t n : dims) count *= static_cast<std::uint64_t>(n);
    std::vector<double> all;
    const auto size = static_cast<std::size_t>(size_of(dtype()));
    for (std::size_t i = 0; i < raw.size() / size; ++i)
      all.push_back(element(raw.data(), dtype(), static_cast<std::int64_t>(i)));
    for (std::uint32_t b : float_bits) all.push_back(float_of(b));
    for (std::uint64_t b : double_bits) all.push_back(__builtin_bit_cast(double, b));
    for (std::int64_t x : ints) all.push_back(from_int(x));
    if (all.size() != count || raw.size() % size != 0)
      throw malformed("tensor " + name + " has " + std::to_string(all.size()) + " elements for a shape of " +
                      std::to_string(count));
    return all;
  }

 private:
  double from_int(std::int64_t x) const {  // 16-bit floats come as their bits
    if (type == 10) return to_float(f16{static_cast<std::uint16_t>(x)});
    if (type == 16) return to_float(bf16{static_cast<std::uint16_t>(x)});
    return static_cast<double>(x);
  }
};

struct Graph;

struct Attribute {
  double number = 0;  // an int or a float
  std::shared_ptr<const Graph> graph;
};

struct Node {
  std::string op;
  std::vector<std::string> inputs, outputs;  // "" where an optional one is absent
  std::map<std::string, Attribute> attributes;

  double number(const std::string& attribute, double fallback) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? fallback : found->second.number;
  }
  const Graph* graph(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? nullptr : found->second.graph.get();
  }
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<TensorProto> constants;
  std::vector<std::string> inputs, outputs;

  explicit Graph(std::string_view message) {
    each_field(message, [&](const Field& f) {
      switch (f.number) {
        case 1: nodes.push_back(node(f.bytes)); break;
        case 5: constants.emplace_back(f.bytes); break;
        case 11: inputs.push_back(name_of_value(f.bytes)); break;
        case 12: outputs.push_back(name_of_value(f.bytes)); break;
        default: break;
      }
    });
  }

 private:
  static std::string name_of_value(std::string_view message) {
    std::string name;
    each_field(message, [&](const Field& f) {
      if (f.number == 1) name = f.text();
    });
    return name;
  }
  static Node node(std::string_view message) {
    Node n;
    each_field(message, [&](const Field& f) {
      switch (f.number) {
        case 1: n.inputs.push_back(f.text()); break;
        case 2: n.outputs.push_back(f.text()); break;
        case 4: n.op = f.text(); break;
        case 5: n.attributes.insert(attribute(f.bytes)); break;
        default: break;
      }
    });
    return n;
  }
  static std::pair<std::string, Attribute> attribute(std::string_view message) {
    std::pair<std::string, Attribute> a;
    each_field(message, [&](const Field& f) {
      switch (f.number) {
        case 1: a.first = f.text(); break;
        case 2: a.second.number = f.as_float(); break;
        case 3: a.second.number = static_cast<double>(f.as_int()); break;
        case 6: a.second.graph = std::make_shared<const Graph>(f.bytes); break;
        default: break;
      }
    });
    return a;
  }
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Graph read_model(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::shared_ptr<const Graph> graph;
  each_field(bytes, [&](const Field& f) {
    if (f.number == 7) graph = std::make_shared<const Graph>(f.bytes);
  });
  if (graph == nullptr) throw malformed(path.string() + " has no graph");
  return *graph;
}

}  // namespace flashtile::testing::onnx
