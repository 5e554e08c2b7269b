// Bytes of one array in sequence: a range of a file as it stands, or inflated.
//
// Always: no more than the declared size is produced, and finish() accepts only a stream that held exactly that many
// bytes, used exactly the packed range and has the declared CRC-32. Memory: one fixed buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "files/source.h"

namespace flashtile::files {

/// Where the bytes are and what the file says about them.
struct PackedRange {
  std::uint64_t offset = 0;
  std::uint64_t packed = 0;  // bytes in the file
  std::uint64_t size = 0;    // bytes after unpacking
  bool deflated = false;
  bool has_crc = false;
  std::uint32_t crc = 0;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills to[0 … n). Throws FileError when fewer are left, or the packed bytes are damaged.
  void read(void* to, std::uint64_t n, const char* field);
  /// REQUIRES: left() == 0. Throws FileError unless everything adds up.
  void finish();

  std::uint64_t left() const noexcept { return left_; }
  const std::string& where() const noexcept { return where_; }

 protected:
  ByteStream(std::string where, const PackedRange& range) : where_(std::move(where)), range_(range), left_(range.size) {}
  virtual void unpack(std::byte* to, std::uint64_t n) = 0;
  virtual void check_end() = 0;

  std::string where_;
  PackedRange range_;

 private:
  std::uint64_t left_;
  std::uint32_t crc_ = 0;
};

/// Throws FileError when the range is not inside the source, when a range that is not deflated has two sizes, or when
/// deflate cannot have packed that much into that little. `where` names the array in errors; source must outlive the
/// stream.
std::unique_ptr<ByteStream> open_stream(const Source& source, std::string where, const PackedRange& range);

}  // namespace flashtile::files
