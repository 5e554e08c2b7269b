#include "files/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <new>

namespace flashtile::files {
namespace {

using namespace zip;

constexpr std::uint64_t kChunk = 1u << 20;  // zlib counts in 32 bits; also the size of its output buffer
constexpr std::uint16_t kNarrowVersion = 20, kWideVersion = 45;  // "needed to extract": deflate 2.0, zip64 4.5
constexpr std::uint16_t kUnixMade = 3u << 8;
constexpr std::uint32_t kRegularFile = 0100644u << 16;
constexpr std::uint16_t kFirstDay = 1u << 5 | 1;  // 1980-01-01, the first day of the format

template <class T>
void put(std::string& to, T x) {
  for (std::size_t i = 0; i < sizeof x; ++i) to += static_cast<char>(static_cast<std::uint64_t>(x) >> (8 * i) & 0xff);
}

std::uint16_t flags_of(const std::string& name) {
  const bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? 0 : kUtf8Name;
}

}  // namespace

std::string ZipWriter::local_header(const Record& r) const {
  std::string h;
  put(h, kLocalHeader);
  put(h, r.wide ? kWideVersion : kNarrowVersion);
  put(h, flags_of(r.name));
  put(h, compress_ ? kDeflated : kStored);
  put(h, std::uint16_t{0}), put(h, kFirstDay);
  put(h, r.crc);
  put(h, r.wide ? kElsewhere32 : static_cast<std::uint32_t>(r.packed));
  put(h, r.wide ? kElsewhere32 : static_cast<std::uint32_t>(r.size));
  put(h, static_cast<std::uint16_t>(r.name.size()));
  put(h, static_cast<std::uint16_t>(r.wide ? 20 : 0));
  h += r.name;
  if (r.wide) put(h, kExtra64), put(h, std::uint16_t{16}), put(h, r.size), put(h, r.packed);
  return h;
}

std::string ZipWriter::directory_record(const Record& r) const {
  std::string wide;
  const auto narrow = [&](std::uint64_t x, bool forced = false) {
    if (!forced && x < wide_from_) return static_cast<std::uint32_t>(x);
    put(wide, x);
    return kElsewhere32;
  };
  const std::uint32_t size = narrow(r.size, r.wide);  // in the order that the extra field demands
  const std::uint32_t packed = narrow(r.packed, r.wide);
  const std::uint32_t offset = narrow(r.offset);
  std::string h;
  put(h, kDirectoryRecord);
  put(h, static_cast<std::uint16_t>(kUnixMade | kWideVersion));
  put(h, wide.empty() ? kNarrowVersion : kWideVersion);
  put(h, flags_of(r.name));
  put(h, compress_ ? kDeflated : kStored);
  put(h, std::uint16_t{0}), put(h, kFirstDay);
  put(h, r.crc), put(h, packed), put(h, size);
  put(h, static_cast<std::uint16_t>(r.name.size()));
  put(h, static_cast<std::uint16_t>(wide.empty() ? 0 : wide.size() + 4));
  put(h, std::uint16_t{0});                          // no comment
  put(h, std::uint16_t{0}), put(h, std::uint16_t{0});  // disk 0, binary
  put(h, kRegularFile), put(h, offset);
  h += r.name;
  if (!wide.empty()) put(h, kExtra64), put(h, static_cast<std::uint16_t>(wide.size())), h += wide;
  return h;
}

void ZipWriter::write_deflated(std::span<const std::byte> part, bool last, void* stream) {
  auto& zlib = *static_cast<z_stream*>(stream);
  std::vector<Bytef> buffer(std::min<std::uint64_t>(kChunk, part.size() + 1024));
  do {
    const std::uint64_t n = std::min<std::uint64_t>(kChunk, part.size());
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
    zlib.avail_in = static_cast<uInt>(n);
    part = part.subspan(n);
    do {
      zlib.next_out = buffer.data();
      zlib.avail_out = static_cast<uInt>(buffer.size());
      deflate(&zlib, last && part.empty() ? Z_FINISH : Z_NO_FLUSH);  // cannot fail: there is room for output
      out_.write(buffer.data(), buffer.size() - zlib.avail_out);
    } while (zlib.avail_out == 0);
  } while (!part.empty());
}

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  Record r;
  r.name = name;
  r.offset = out_.size();
  for (const auto& part : parts) r.size += part.size();
  // Deflate can grow what it cannot shrink, by 5 bytes in 16 KiB and a little; the header is written before we know.
  r.wide = r.size + r.size / 1024 + 1024 >= wide_from_;
  const std::string placeholder = local_header(r);
  out_.write(placeholder.data(), placeholder.size());
  const std::uint64_t data = out_.size();
  z_stream zlib = {};
  if (compress_ && deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, void (*)(z_stream*)> free(&zlib, [](z_stream* z) { deflateEnd(z); });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (auto rest = parts[i]; !rest.empty(); rest = rest.subspan(std::min<std::uint64_t>(kChunk, rest.size())))
      r.crc = static_cast<std::uint32_t>(crc32(r.crc, reinterpret_cast<const Bytef*>(rest.data()),
                                               static_cast<uInt>(std::min<std::uint64_t>(kChunk, rest.size()))));
    if (compress_) write_deflated(parts[i], i + 1 == parts.size(), &zlib);
    else out_.write(parts[i].data(), parts[i].size());
  }
  r.packed = out_.size() - data;
  const std::string header = local_header(r);
  out_.patch(r.offset, header.data(), header.size());
  records_.push_back(std::move(r));
}

void ZipWriter::finish() {
  const std::uint64_t offset = out_.size();
  for (const Record& r : records_) {
    const std::string record = directory_record(r);
    out_.write(record.data(), record.size());
  }
  const std::uint64_t end = out_.size(), size = end - offset, n = records_.size();
  const bool wide = n >= std::min<std::uint64_t>(kElsewhere16, wide_from_) || size >= wide_from_ || offset >= wide_from_;
  std::string h;
  if (wide) {
    put(h, kEnd64), put(h, std::uint64_t{kEnd64Size - 12});
    put(h, kWideVersion), put(h, kWideVersion);
    put(h, std::uint32_t{0}), put(h, std::uint32_t{0});
    put(h, n), put(h, n), put(h, size), put(h, offset);
    put(h, kLocator64), put(h, std::uint32_t{0}), put(h, end), put(h, std::uint32_t{1});
  }
  put(h, kEnd), put(h, std::uint16_t{0}), put(h, std::uint16_t{0});
  const auto count = wide ? kElsewhere16 : static_cast<std::uint16_t>(n);
  put(h, count), put(h, count);
  put(h, wide ? kElsewhere32 : static_cast<std::uint32_t>(size));
  put(h, wide ? kElsewhere32 : static_cast<std::uint32_t>(offset));
  put(h, std::uint16_t{0});
  out_.write(h.data(), h.size());
}

}  // namespace flashtile::files
