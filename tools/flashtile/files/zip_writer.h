// Writes a zip file, entry by entry, stored or deflated, with zip64 structures where numbers need them.
// The bytes depend on names and contents only: no time of day, no owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files/whole_file.h"
#include "files/zip_format.h"

namespace flashtile::files {

class ZipWriter {
 public:
  /// Numbers from `wide_from` on go to zip64 structures; less than the default is for tests of these.
  explicit ZipWriter(WholeFile& out, bool compress, std::uint64_t wide_from = zip::kElsewhere32)
      : out_(out), compress_(compress), wide_from_(wide_from) {}

  /// REQUIRES: is_plain_entry_name(name), a new one.
  void add(const std::string& name, std::span<const std::span<const std::byte>> parts);
  /// The central directory; nothing may be added afterwards.
  void finish();

 private:
  struct Record {
    std::string name;
    std::uint64_t offset = 0, packed = 0, size = 0;
    std::uint32_t crc = 0;
    bool wide = false;  // the local header has the zip64 extra field
  };

  std::string local_header(const Record& r) const;
  std::string directory_record(const Record& r) const;
  void write_deflated(std::span<const std::byte> part, bool last, void* stream);

  WholeFile& out_;
  bool compress_;
  std::uint64_t wide_from_;
  std::vector<Record> records_;
};

}  // namespace flashtile::files
