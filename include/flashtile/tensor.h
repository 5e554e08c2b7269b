// Tensors as flashtile sees them: non-owning views with a dtype, a shape and strides counted in elements.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace flashtile {

enum class DType : std::uint8_t { f32 = 0, f64 = 1, f16 = 2, bf16 = 3, boolean = 4, i32 = 5, i64 = 6 };

/// Bytes of one element.
constexpr int size_of(DType t) noexcept {
  switch (t) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::boolean: return 1;
  }
  return 0;
}

/// "fp32", "fp64", "fp16", "bf16", "bool", "int32", "int64".
constexpr const char* name_of(DType t) noexcept {
  switch (t) {
    case DType::f32: return "fp32";
    case DType::f64: return "fp64";
    case DType::f16: return "fp16";
    case DType::bf16: return "bf16";
    case DType::boolean: return "bool";
    case DType::i32: return "int32";
    case DType::i64: return "int64";
  }
  return "?";
}

/// Storage for the two 16-bit formats; the bits, no arithmetic.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};

inline constexpr int kMaxRank = 4;

/// A view of somebody else's array. rank 0 means "absent" (an option that was not given). Strides count elements, may
/// be 0 (broadcast) where the option says so, and may be negative. A boolean is one byte, 0 or not 0.
struct ConstTensor {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t stride[kMaxRank] = {};

  constexpr bool present() const noexcept { return rank != 0; }
};

/// The same, to be written to.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t stride[kMaxRank] = {};

  constexpr bool present() const noexcept { return rank != 0; }
  constexpr operator ConstTensor() const noexcept {
    ConstTensor t;
    t.data = data;
    t.dtype = dtype;
    t.rank = rank;
    for (int i = 0; i < kMaxRank; ++i) t.shape[i] = shape[i], t.stride[i] = stride[i];
    return t;
  }
};

/// A dense view, last dimension fastest: view(pointer, {batch, seq, heads, head_dim}). At most four dimensions.
template <class T>
constexpr Tensor view(T* data, std::initializer_list<std::int64_t> shape) noexcept {
  Tensor t;
  t.data = data;
  t.dtype = DTypeOf<T>::value;
  for (std::int64_t n : shape)
    if (t.rank < kMaxRank) t.shape[t.rank++] = n;
  std::int64_t step = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    t.stride[i] = step;
    step *= t.shape[i];
  }
  return t;
}
template <class T>
constexpr ConstTensor view(const T* data, std::initializer_list<std::int64_t> shape) noexcept {
  const Tensor t = view(const_cast<T*>(data), shape);
  return t;
}

/// The same array with two dimensions exchanged: transposed(t, 1, 2) reads a (B, H, S, D) array as (B, S, H, D).
template <class AnyTensor>
constexpr AnyTensor transposed(AnyTensor t, int a, int b) noexcept {
  const std::int64_t shape = t.shape[a], stride = t.stride[a];
  t.shape[a] = t.shape[b], t.stride[a] = t.stride[b];
  t.shape[b] = shape, t.stride[b] = stride;
  return t;
}

}  // namespace flashtile
