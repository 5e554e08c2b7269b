#include "files/zip_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "files/file_error.h"
#include "files/zip_format.h"

namespace flashtile::files {
namespace {

using namespace zip;

struct Directory {
  std::uint64_t entries = 0, size = 0, offset = 0;
};

std::uint16_t u16(std::string_view s, std::size_t at) { return number_at<std::uint16_t>(s.data() + at); }
std::uint32_t u32(std::string_view s, std::size_t at) { return number_at<std::uint32_t>(s.data() + at); }
std::uint64_t u64(std::string_view s, std::size_t at) { return number_at<std::uint64_t>(s.data() + at); }

std::string read_text(const Source& source, std::uint64_t offset, std::uint64_t n, const char* field) {
  if (offset > source.size() || n > source.size() - offset) source.read(offset, nullptr, n, field);  // refuses
  std::string text(n, '\0');
  source.read(offset, text.data(), n, field);
  return text;
}

// Offset of the end record: the last one whose comment reaches exactly to the end of the file.
std::uint64_t find_end(const Source& source) {
  const std::uint64_t size = source.size();
  const std::uint64_t tail = std::min<std::uint64_t>(size, kEndSize + 0xffff);
  const std::string text = read_text(source, size - tail, tail, "end of central directory");
  for (std::uint64_t at = tail < kEndSize ? 0 : tail - kEndSize + 1; at-- > 0;)
    if (u32(text, at) == kEnd && u16(text, at + 20) == tail - at - kEndSize) return size - tail + at;
  refuse(source.where(), "end of central directory", "missing", "a whole .npz file");
}

// The central directory must end where its end record begins.
Directory directory_before(const Source& source, std::uint64_t at, const Directory& d) {
  if (d.offset > at || d.size != at - d.offset)
    refuse(source.where(), "central directory", fmt::format("{} bytes at offset {}", d.size, d.offset),
           fmt::format("one that ends at {}", at));
  return d;
}

Directory read_end64(const Source& source, std::uint64_t end) {
  if (end < kLocator64Size) refuse(source.where(), "zip64 locator", "missing", "20 bytes before the end record");
  const std::uint64_t locator_at = end - kLocator64Size;
  const std::string locator = read_text(source, locator_at, kLocator64Size, "zip64 locator");
  if (u32(locator, 0) != kLocator64) refuse(source.where(), "zip64 locator", "missing", "one before the end record");
  const std::uint64_t at = u64(locator, 8);
  if (u32(locator, 4) != 0 || u32(locator, 16) > 1) refuse(source.where(), "disks", "several", "one");
  const std::string end64 = read_text(source, at, kEnd64Size, "zip64 end record");
  if (u32(end64, 0) != kEnd64) refuse(source.where(), "zip64 end record", "missing", "one where the locator points");
  if (u64(end64, 4) != kEnd64Size - 12 || at + kEnd64Size != locator_at)
    refuse(source.where(), "zip64 end record", fmt::format("size {} at offset {}", u64(end64, 4), at),
           fmt::format("size {} just before the locator at {}", kEnd64Size - 12, locator_at));
  if (u32(end64, 16) != 0 || u32(end64, 20) != 0 || u64(end64, 24) != u64(end64, 32))
    refuse(source.where(), "disks", "several", "one");
  return directory_before(source, at, {u64(end64, 32), u64(end64, 40), u64(end64, 48)});
}

Directory read_end(const Source& source) {
  const std::uint64_t at = find_end(source);
  const std::string end = read_text(source, at, kEndSize, "end of central directory");
  if (u16(end, 10) == kElsewhere16 || u32(end, 12) == kElsewhere32 || u32(end, 16) == kElsewhere32)
    return read_end64(source, at);
  if (u16(end, 4) != 0 || u16(end, 6) != 0 || u16(end, 8) != u16(end, 10)) refuse(source.where(), "disks", "several", "one");
  return directory_before(source, at, {u16(end, 10), u32(end, 12), u32(end, 16)});
}

// Takes the numbers that are "elsewhere" from the zip64 extra field, in the format's order.
void widen(std::string_view extra, std::initializer_list<std::uint64_t*> fields, const std::string& where) {
  std::string_view wide;
  while (!extra.empty()) {
    if (extra.size() < 4 || u16(extra, 2) > extra.size() - 4)
      refuse(where, "extra field", "longer than its record", "a whole one");
    if (u16(extra, 0) == kExtra64) wide = extra.substr(4, u16(extra, 2));
    extra.remove_prefix(4u + u16(extra, 2));
  }
  for (std::uint64_t* field : fields) {
    if (*field != kElsewhere32) continue;
    if (wide.size() < 8) refuse(where, "zip64 extra field", "missing or short", "8 bytes for each long number");
    *field = u64(wide, 0);
    wide.remove_prefix(8);
  }
}

// Checks the local header against the directory and finds the data behind it; `record` is the directory's record.
void locate(const Source& source, std::string_view record, std::uint64_t directory, ZipEntry& e) {
  const std::uint64_t at = e.header;
  const std::string where = fmt::format("{}[{}]", source.where(), in_quotes(e.name));
  const std::string local = read_text(source, at, kLocalHeaderSize, "local header");
  const std::uint64_t name_size = u16(local, 26), extra_size = u16(local, 28);
  const std::string rest = read_text(source, at + kLocalHeaderSize, name_size + extra_size, "local header");
  if (u32(local, 0) != kLocalHeader) refuse(where, "local header", "missing", "one where the directory points");
  if (rest.compare(0, name_size, e.name) != 0)
    refuse(where, "local name", in_quotes(rest.substr(0, name_size)), "the directory's");
  if (u16(local, 8) != e.method || u16(local, 6) != u16(record, 8))
    refuse(where, "local method and flags", fmt::format("{}, {}", u16(local, 8), u16(local, 6)),
           fmt::format("{}, {} as in the directory", e.method, u16(record, 8)));
  e.range.offset = at + kLocalHeaderSize + name_size + extra_size;
  if (e.range.offset > directory || e.range.packed > directory - e.range.offset)
    refuse(where, "data", fmt::format("{} bytes at offset {}", e.range.packed, e.range.offset),
           fmt::format("a range before the central directory at {}", directory));
  if (u16(local, 6) & kSizesAfterData) return;  // then the local header has none
  std::uint64_t packed = u32(local, 18), size = u32(local, 22);
  widen(std::string_view(rest).substr(name_size), {&size, &packed}, where);
  if (packed != e.range.packed || size != e.range.size || u32(local, 14) != e.range.crc)
    refuse(where, "local sizes and CRC-32", fmt::format("{}, {}, {:08x}", packed, size, u32(local, 14)),
           fmt::format("{}, {}, {:08x} as in the directory", e.range.packed, e.range.size, e.range.crc));
}

void check_record(const Source& source, std::string_view record, const std::string& name) {
  if (!is_plain_entry_name(name))
    refuse(source.where(), "entry name", in_quotes(name), "plain UTF-8, relative, without '..' and '\\'");
  const std::string where = fmt::format("{}[{}]", source.where(), in_quotes(name));
  constexpr std::uint16_t kRefused = kEncrypted | kPatched | kStrongEncryption | kMaskedDirectory;
  if (u16(record, 8) & kRefused) refuse(where, "flags", fmt::format("{:#06x}", u16(record, 8)), "no encryption, no patch");
  if (u16(record, 34) != 0) refuse(where, "disk", fmt::to_string(u16(record, 34)), "0");
}

// No name twice, and no byte in two entries: small files that unpack to giants are made by sharing.
void check_disjoint(const Source& source, std::vector<ZipEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].name == entries[i - 1].name)
      refuse(source.where(), "entry name", in_quotes(entries[i].name) + " twice", "each name once");
  std::sort(entries.begin(), entries.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.header < b.header; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const PackedRange& before = entries[i - 1].range;
    if (before.offset + before.packed > entries[i].header)
      refuse(source.where(), "entry", in_quotes(entries[i].name) + " overlapping " + in_quotes(entries[i - 1].name),
             "entries that share no byte");
  }
}

}  // namespace

bool is_plain_entry_name(const std::string& name) {
  if (!is_plain_name(name) || name.front() == '/' || name.find('\\') != std::string::npos) return false;
  return ("/" + name + "/").find("/../") == std::string::npos;
}

std::vector<ZipEntry> read_zip_directory(const Source& source) {
  const Directory d = read_end(source);
  if (d.entries > d.size / kDirectoryRecordSize)
    refuse(source.where(), "entries", fmt::to_string(d.entries),
           fmt::format("at most {} in a directory of {} bytes", d.size / kDirectoryRecordSize, d.size));
  const std::string text = read_text(source, d.offset, d.size, "central directory");
  std::vector<ZipEntry> entries;
  std::string_view rest = text;
  while (!rest.empty()) {
    if (rest.size() < kDirectoryRecordSize || u32(rest, 0) != kDirectoryRecord)
      refuse(source.where(), "central directory", fmt::format("broken after {} entries", entries.size()), "whole records");
    const std::size_t name_size = u16(rest, 28), extra_size = u16(rest, 30), comment_size = u16(rest, 32);
    const std::size_t record_size = kDirectoryRecordSize + name_size + extra_size + comment_size;
    if (rest.size() < record_size) refuse(source.where(), "central directory", "cut off in a record", "whole records");
    const std::string_view record = rest.substr(0, record_size);
    ZipEntry e;
    e.name = record.substr(kDirectoryRecordSize, name_size);
    check_record(source, record, e.name);
    e.method = u16(record, 10);
    e.range.crc = u32(record, 16), e.range.has_crc = true, e.range.deflated = e.method == kDeflated;
    e.range.packed = u32(record, 20), e.range.size = u32(record, 24);
    e.header = u32(record, 42);
    widen(record.substr(kDirectoryRecordSize + name_size, extra_size), {&e.range.size, &e.range.packed, &e.header},
          source.where());
    locate(source, record, d.offset, e);
    entries.push_back(std::move(e));
    rest.remove_prefix(record_size);
  }
  if (entries.size() != d.entries)
    refuse(source.where(), "entries", fmt::to_string(entries.size()), fmt::format("{} as counted", d.entries));
  check_disjoint(source, entries);
  return entries;
}

}  // namespace flashtile::files
