// Memory that notices misuse: every buffer lies between two pages that may not be touched, directly against one of
// them, and all of it starts as 0xff bytes: NaN in every floating-point format, −1 as an integer, true as a boolean.
//
// Always: an access beyond the protected side faults; a write on the other side is found by guards_intact().
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace flashtile::testing {

inline constexpr unsigned char kPoison = 0xff;

/// Where a buffer lies: against the protected page after it (end) or before it (begin), `shift` bytes away from it.
/// A shift of one element gives a pointer that is aligned for its type and for nothing more.
struct Placement {
  enum class Edge { end, begin };
  Edge edge = Edge::end;
  std::size_t shift = 0;
};

class GuardedBytes {
 public:
  GuardedBytes() = default;
  explicit GuardedBytes(std::size_t size, Placement placement = {}) : size_(size) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inner_size_ = (size + placement.shift + page) / page * page;  // at least one page, also for an empty buffer
    mapped_ = inner_size_ + 2 * page;
    void* map = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    map_ = static_cast<unsigned char*>(map);
    inner_ = map_ + page;
    if (mprotect(inner_, inner_size_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    const bool at_end = placement.edge == Placement::Edge::end;
    data_ = at_end ? inner_ + inner_size_ - placement.shift - size : inner_ + placement.shift;
    std::memset(inner_, kPoison, inner_size_);
  }
  GuardedBytes(GuardedBytes&& other) noexcept { *this = std::move(other); }
  GuardedBytes& operator=(GuardedBytes&& other) noexcept {
    std::swap(map_, other.map_), std::swap(mapped_, other.mapped_);
    std::swap(inner_, other.inner_), std::swap(inner_size_, other.inner_size_);
    std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  ~GuardedBytes() {
    if (map_ != nullptr) munmap(map_, mapped_);
  }

  unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }
  void poison() {
    if (size_ > 0) std::memset(data_, kPoison, size_);
  }

  /// The reachable bytes around the buffer are as they were made.
  bool guards_intact() const {
    for (const unsigned char* p = inner_; p < data_; ++p)
      if (*p != kPoison) return false;
    for (const unsigned char* p = data_ + size_; p < inner_ + inner_size_; ++p)
      if (*p != kPoison) return false;
    return true;
  }

 private:
  unsigned char* map_ = nullptr;
  std::size_t mapped_ = 0;
  unsigned char* inner_ = nullptr;
  std::size_t inner_size_ = 0;
  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The same as an array of T.
template <class T>
class GuardedArray {
 public:
  explicit GuardedArray(std::size_t n, Placement placement = {}) : bytes_(n * sizeof(T), placement), n_(n) {}
  T* data() const { return reinterpret_cast<T*>(bytes_.data()); }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + n_; }
  bool guards_intact() const { return bytes_.guards_intact(); }

 private:
  GuardedBytes bytes_;
  std::size_t n_;
};

/// Address space without memory behind it, for views whose strides exceed 32 bits. valid() is false where the system
/// does not give that much.
class SparseBytes {
 public:
  explicit SparseBytes(std::size_t size) : size_(size) {
    void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED) data_ = map;
  }
  SparseBytes(const SparseBytes&) = delete;
  SparseBytes& operator=(const SparseBytes&) = delete;
  ~SparseBytes() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  bool valid() const { return data_ != nullptr; }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

}  // namespace flashtile::testing
