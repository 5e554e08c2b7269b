// An array that owns its elements: what the file formats read and write.
//
// Always: the elements that shape and stride reach lie inside bytes; no stride is negative; the product of the sizes of
// all non-empty dimensions, in bytes, fits in 63 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "flashtile/tensor.h"

namespace flashtile::files {

inline constexpr int kMaxFileRank = 64;  // NumPy's limit

/// Bytes on the heap at an address that is a multiple of 64 (a cache line, an AVX-512 register); not initialised.
class Bytes {
 public:
  Bytes() = default;
  /// Throws std::bad_alloc.
  explicit Bytes(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(size == 0 ? 1 : size, kAlignment))), size_(size) {}
  Bytes(Bytes&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Bytes& operator=(Bytes&& other) noexcept {
    data_ = std::move(other.data_), size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::byte* data() noexcept { return data_.get(); }
  const std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* p) const noexcept { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

struct Array {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;   // empty: a single number
  std::vector<std::int64_t> stride;  // in elements
  Bytes bytes;

  std::int64_t elements() const noexcept;

  /// Views for the library, valid as long as the array. A single number is seen as shape (1), since rank 0 means
  /// "absent" there. Throws FileError for more than four dimensions.
  Tensor view();
  ConstTensor view() const;
};

/// An array of zeros in C order. Throws FileError for a shape that is negative or too large, and when memory runs out.
Array make_array(std::string name, DType dtype, std::vector<std::int64_t> shape);

/// The same, but the elements are not set. `where` names the file in errors.
Array unset_array(std::string name, DType dtype, std::vector<std::int64_t> shape, const std::string& where);

/// Bytes of the elements; nothing when a size is negative or the product, empty dimensions left out, passes 63 bits.
std::optional<std::int64_t> checked_bytes(DType dtype, std::span<const std::int64_t> shape) noexcept;

/// Strides of a dense array, last or first dimension fastest. REQUIRES: checked_bytes(shape).
std::vector<std::int64_t> c_strides(std::span<const std::int64_t> shape);
std::vector<std::int64_t> fortran_strides(std::span<const std::int64_t> shape);

/// Whether the elements stand one after the other in C (Fortran) order. Dimensions of size 1 do not count.
bool is_c_order(const Array& a);
bool is_fortran_order(const Array& a);

/// The elements in C order; of any dtype and stride. REQUIRES: the invariant at the top.
Bytes elements_in_c_order(const Array& a);

/// Whether the invariant at the top holds.
bool is_sound(const Array& a);

/// "(2, 3)", "(5,)", "()": as Python writes a shape.
std::string text_of(std::span<const std::int64_t> shape);

}  // namespace flashtile::files
