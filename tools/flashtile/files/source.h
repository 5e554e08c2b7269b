// A file, or bytes in memory, read at any offset.
//
// Never reads outside its size, and never maps the file: a file that shrinks while it is read gives a FileError, not a
// SIGBUS. Reads have no state, so several threads may share one source.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace flashtile::files {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian and so are we");

/// The little-endian number at p.
template <class T>
T number_at(const void* p) noexcept {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

class Source {
 public:
  /// Throws FileError unless path can be read and is a regular file.
  static Source open(const std::string& path);
  /// The same for bytes that are already here; `name` plays the path.
  static Source memory(std::string name, std::vector<std::byte> bytes);

  Source(Source&& other) noexcept;
  Source& operator=(Source&&) = delete;
  ~Source();

  const std::string& path() const noexcept { return path_; }
  /// The path as errors show it.
  const std::string& where() const noexcept { return where_; }
  std::uint64_t size() const noexcept { return size_; }

  /// Fills to[0 … n). Throws FileError, naming `field`, when the range is not inside.
  void read(std::uint64_t offset, void* to, std::uint64_t n, const char* field) const;

 private:
  explicit Source(std::string path);

  std::string path_;
  std::string where_;
  std::uint64_t size_ = 0;
  int fd_ = -1;  // −1: in memory
  std::vector<std::byte> bytes_;
};

}  // namespace flashtile::files
