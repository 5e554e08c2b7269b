#include "files/stream.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <new>
#include <vector>

#include "files/file_error.h"

namespace flashtile::files {
namespace {

constexpr std::uint64_t kChunk = 1u << 16;
constexpr std::uint64_t kMostPerCall = 1u << 30;  // zlib counts in 32 bits

// A match of 258 bytes needs at least 1 bit for its length and 1 for its distance: 4 matches in a byte.
constexpr std::uint64_t kMostInflation = 4 * 258;

class StoredStream final : public ByteStream {
 public:
  StoredStream(const Source& source, std::string where, const PackedRange& range)
      : ByteStream(std::move(where), range), source_(source) {}

 private:
  void unpack(std::byte* to, std::uint64_t n) override {
    source_.read(range_.offset + used_, to, n, "data");
    used_ += n;
  }
  void check_end() override {}

  const Source& source_;
  std::uint64_t used_ = 0;
};

class InflatedStream final : public ByteStream {
 public:
  InflatedStream(const Source& source, std::string where, const PackedRange& range)
      : ByteStream(std::move(where), range), source_(source), buffer_(std::min(range.packed, kChunk)) {
    if (inflateInit2(&zlib_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~InflatedStream() override { inflateEnd(&zlib_); }
  InflatedStream(const InflatedStream&) = delete;
  InflatedStream& operator=(const InflatedStream&) = delete;

 private:
  void unpack(std::byte* to, std::uint64_t n) override {
    while (n > 0) {
      const std::uint64_t got = step(to, n);
      if (got == 0 && ended_)
        refuse(where_, "deflated data", fmt::format("{} bytes short", n), fmt::format("{} bytes", range_.size));
      to += got, n -= got;
    }
  }

  void check_end() override {
    std::byte more{};
    while (!ended_)
      if (step(&more, 1) != 0)
        refuse(where_, "deflated data", "more bytes than declared", fmt::format("{} bytes", range_.size));
    const std::uint64_t unused = range_.packed - taken_ + zlib_.avail_in;
    if (unused != 0) refuse(where_, "deflated data", fmt::format("{} bytes after its end", unused), "none");
  }

  // One call of inflate; how many bytes it produced. Sets ended_ at the end of the deflate stream.
  std::uint64_t step(std::byte* to, std::uint64_t n) {
    if (ended_) return 0;
    if (zlib_.avail_in == 0) refill();
    const auto room = static_cast<uInt>(std::min(n, kMostPerCall));
    zlib_.next_out = reinterpret_cast<Bytef*>(to);
    zlib_.avail_out = room;
    const uInt had = zlib_.avail_in;
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    const uInt got = room - zlib_.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    ended_ = status == Z_STREAM_END;
    // Neither input taken nor output given would repeat for ever: there is no input left.
    const bool stuck = !ended_ && got == 0 && had == zlib_.avail_in;
    if ((status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) || stuck)
      refuse(where_, "deflated data", stuck ? "cut off" : "damaged", "a whole deflate stream");
    return got;
  }

  void refill() {
    const std::uint64_t n = std::min(range_.packed - taken_, std::uint64_t{buffer_.size()});
    source_.read(range_.offset + taken_, buffer_.data(), n, "deflated data");
    taken_ += n;
    zlib_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    zlib_.avail_in = static_cast<uInt>(n);
  }

  const Source& source_;
  std::vector<std::byte> buffer_;
  std::uint64_t taken_ = 0;  // packed bytes that were put in the buffer so far
  bool ended_ = false;
  z_stream zlib_ = {};
};

}  // namespace

void ByteStream::read(void* to, std::uint64_t n, const char* field) {
  if (n > left_) refuse(where_, field, fmt::format("{} bytes", n), fmt::format("at most the {} bytes left", left_));
  auto* out = static_cast<std::byte*>(to);
  for (std::uint64_t rest = n; rest > 0;) {  // in pieces, so that the CRC finds them in the cache
    const std::uint64_t piece = std::min(rest, range_.has_crc ? kChunk : kMostPerCall);
    unpack(out, piece);
    if (range_.has_crc)
      crc_ = static_cast<std::uint32_t>(crc32(crc_, reinterpret_cast<const Bytef*>(out), static_cast<uInt>(piece)));
    out += piece, rest -= piece;
  }
  left_ -= n;
}

void ByteStream::finish() {
  check_end();
  if (range_.has_crc && crc_ != range_.crc)
    refuse(where_, "CRC-32", fmt::format("{:08x}", crc_), fmt::format("{:08x} as the file says", range_.crc));
}

std::unique_ptr<ByteStream> open_stream(const Source& source, std::string where, const PackedRange& range) {
  if (range.offset > source.size() || range.packed > source.size() - range.offset)
    refuse(where, "data", fmt::format("{} bytes at offset {}", range.packed, range.offset),
           fmt::format("a range inside the file of {} bytes", source.size()));
  if (!range.deflated) {
    if (range.packed != range.size)
      refuse(where, "size", fmt::format("{} stored as {}", range.size, range.packed), "two equal numbers");
    return std::make_unique<StoredStream>(source, std::move(where), range);
  }
  if (range.size / kMostInflation > range.packed)
    refuse(where, "size", fmt::format("{} bytes deflated to {}", range.size, range.packed),
           fmt::format("at most {} times as much", kMostInflation));
  return std::make_unique<InflatedStream>(source, std::move(where), range);
}

}  // namespace flashtile::files
