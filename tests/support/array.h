// An array of any dtype, shape and strides in guarded memory, read and written through doubles. Slow and general.
//
// Always: elements start as poison (NaN, −1, true), and so does everything between and around them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "flashtile/tensor.h"
#include "problem/number.h"
#include "support/buffers.h"
#include "support/random.h"

namespace flashtile::testing {

using Index = std::int64_t;

/// x as the format stores it.
inline double rounded(DType dtype, double x) {
  switch (dtype) {
    case DType::f32: return static_cast<float>(x);
    case DType::f16: return to_float(to_f16(static_cast<float>(x)));
    case DType::bf16: return to_float(to_bf16(static_cast<float>(x)));
    default: return x;
  }
}

inline void store_element(void* data, DType dtype, Index i, double x) {
  switch (dtype) {
    case DType::f64: static_cast<double*>(data)[i] = x; break;
    case DType::f32: static_cast<float*>(data)[i] = static_cast<float>(x); break;
    case DType::f16: static_cast<f16*>(data)[i] = to_f16(static_cast<float>(x)); break;
    case DType::bf16: static_cast<bf16*>(data)[i] = to_bf16(static_cast<float>(x)); break;
    case DType::boolean: static_cast<std::uint8_t*>(data)[i] = x != 0; break;
    case DType::i32: static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(x); break;
    case DType::i64: static_cast<std::int64_t*>(data)[i] = static_cast<std::int64_t>(x); break;
  }
}

class Array {
 public:
  Array() = default;
  /// Dense, last dimension fastest.
  Array(DType dtype, const std::vector<Index>& shape, Placement placement = {})
      : Array(dtype, shape, dense_strides(shape), placement) {}
  Array(DType dtype, const std::vector<Index>& shape, const std::vector<Index>& strides, Placement placement = {}) {
    view_.dtype = dtype;
    view_.rank = static_cast<int>(shape.size());
    extent_ = 1;
    for (int i = 0; i < view_.rank; ++i) {
      view_.shape[i] = shape[i], view_.stride[i] = strides[i];
      extent_ = shape[i] == 0 || extent_ == 0 ? 0 : extent_ + (shape[i] - 1) * strides[i];
    }
    placement.shift *= size_of(dtype);  // an Array counts shifts in elements
    bytes_ = GuardedBytes(static_cast<std::size_t>(extent_) * size_of(dtype), placement);
    view_.data = bytes_.data();
  }
  static Array ints(const std::vector<Index>& values, DType dtype = DType::i32) {
    return Array::of(dtype, {static_cast<Index>(values.size())}, std::vector<double>(values.begin(), values.end()));
  }
  static Array of(DType dtype, const std::vector<Index>& shape, const std::vector<double>& values) {
    Array a(dtype, shape);
    Index i = 0;
    a.fill([&] { return values.at(static_cast<std::size_t>(i++)); });
    return a;
  }

  const Tensor& view() const { return view_; }
  bool present() const { return view_.present(); }
  DType dtype() const { return view_.dtype; }
  Index shape(int i) const { return view_.shape[i]; }
  Index elements() const {
    Index n = view_.rank == 0 ? 0 : 1;
    for (int i = 0; i < view_.rank; ++i) n *= view_.shape[i];
    return n;
  }

  template <class... Indices>
  double get(Indices... indices) const {
    return element(view_.data, view_.dtype, offset({static_cast<Index>(indices)...}));
  }
  template <class... Indices>
  void set(double x, Indices... indices) {
    store_element(view_.data, view_.dtype, offset({static_cast<Index>(indices)...}), x);
  }

  /// Element offsets in index order, whatever the strides.
  std::vector<Index> offsets() const {
    std::vector<Index> all;
    if (elements() == 0) return all;
    const Index n[4] = {view_.shape[0], rank_shape(1), rank_shape(2), rank_shape(3)};
    for (Index a = 0; a < n[0]; ++a)
      for (Index b = 0; b < n[1]; ++b)
        for (Index c = 0; c < n[2]; ++c)
          for (Index d = 0; d < n[3]; ++d)
            all.push_back(a * view_.stride[0] + b * view_.stride[1] + c * view_.stride[2] + d * view_.stride[3]);
    return all;
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (Index o : offsets()) all.push_back(element(view_.data, view_.dtype, o));
    return all;
  }

  template <class Next>
  void fill(Next next) {
    for (Index o : offsets()) store_element(view_.data, view_.dtype, o, next());
  }
  void fill_value(double x) {
    fill([x] { return x; });
  }
  void fill_normal(std::uint64_t seed, double deviation = 1) {
    Random random(seed);
    fill([&] { return deviation * random.normal(); });
  }
  void fill_uniform(std::uint64_t seed, double low, double high) {
    Random random(seed);
    fill([&] { return random.uniform(low, high); });
  }
  /// The same numbers by index; the layouts may differ.
  void copy_from(const Array& other) {
    const std::vector<double> all = other.values();
    std::size_t i = 0;
    fill([&] { return all.at(i++); });
  }

  void poison() { bytes_.poison(); }
  /// Nothing but elements was written: neither guard bytes nor what lies between elements.
  bool surroundings_intact() const {
    std::vector<bool> mine(bytes_.size(), false);
    for (Index o : offsets())
      for (int byte = 0; byte < size_of(view_.dtype); ++byte) mine[o * size_of(view_.dtype) + byte] = true;
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (!mine[i] && bytes_.data()[i] != kPoison) return false;
    return bytes_.guards_intact();
  }
  bool untouched() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if (bytes_.data()[i] != kPoison) return false;
    return bytes_.guards_intact();
  }

  static std::vector<Index> dense_strides(const std::vector<Index>& shape) {
    std::vector<Index> strides(shape.size());
    Index step = 1;
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
    return strides;
  }

 private:
  Index rank_shape(int i) const { return i < view_.rank ? view_.shape[i] : 1; }
  Index offset(std::initializer_list<Index> indices) const {
    Index o = 0;
    int i = 0;
    for (Index index : indices) {
      EXPECT_TRUE(i < view_.rank && index >= 0 && index < view_.shape[i]) << "index " << index << " at " << i;
      o += index * view_.stride[i++];
    }
    return o;
  }

  Tensor view_;
  Index extent_ = 0;
  GuardedBytes bytes_;
};

/// Equal bits by index, whatever the layouts; any NaN equals any NaN.
inline ::testing::AssertionResult same_bits(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.elements() != b.elements())
    return ::testing::AssertionFailure() << "arrays of different kind or size";
  const std::vector<double> x = a.values(), y = b.values();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], sizeof(double)) != 0 && !(x[i] != x[i] && y[i] != y[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << ::testing::PrintToString(x[i]) << " and " << ::testing::PrintToString(y[i]);
    }
  return ::testing::AssertionSuccess();
}

}  // namespace flashtile::testing
