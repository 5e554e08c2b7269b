// A fixed array on the heap that reports exhaustion instead of throwing: the core compiles without exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "problem/inline.h"

namespace flashtile {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr, other.size_ = 0; }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      delete[] data_;
      data_ = other.data_, size_ = other.size_;
      other.data_ = nullptr, other.size_ = 0;
    }
    return *this;
  }
  ~Buffer() { delete[] data_; }

  /// False, and empty, when there is no memory for n value-initialised elements.
  [[nodiscard]] bool allocate(std::int64_t n) noexcept {
    delete[] data_;
    data_ = nullptr, size_ = 0;
    if (n < 0 || static_cast<std::uint64_t>(n) > SIZE_MAX / 2 / sizeof(T)) return false;
    if (n > 0) data_ = new (std::nothrow) T[static_cast<std::size_t>(n)]();
    if (n > 0 && data_ == nullptr) return false;
    size_ = n;
    return true;
  }

  FT_INLINE std::int64_t size() const noexcept { return size_; }
  FT_INLINE T* data() noexcept { return data_; }
  FT_INLINE const T* data() const noexcept { return data_; }
  FT_INLINE T& operator[](std::int64_t i) noexcept { return data_[i]; }
  FT_INLINE const T& operator[](std::int64_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace flashtile
