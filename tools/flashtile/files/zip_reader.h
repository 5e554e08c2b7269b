// The directory of a zip file, as far as .npz needs it: stored and deflated entries, zip64.
// Format: PKWARE APPNOTE.TXT 6.3.10, sections 4.3.6 to 4.5.3.
//
//   local header · data │ local header · data │ …        central directory          [zip64 end · locator]  end record
//                                                        one record per entry                              22 + comment
//
// Two readings of one file are the classic trap, so only files with one reading are taken: the directory ends where the
// end record begins and holds exactly the records that are counted; local headers repeat what the directory says;
// entries do not overlap; names are unique. Nothing is unpacked here, and nothing is ever written under an entry's
// name. Refused by name: encryption, several disks, names that are absolute, contain ".." or "\", or are not plain
// UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/stream.h"

namespace flashtile::files {

struct ZipEntry {
  std::string name;
  std::uint16_t method = 0;  // 0 stored, 8 deflated; others are listed, and refused by whoever opens them
  std::uint64_t header = 0;  // offset of the local header, where the entry starts
  PackedRange range;
};

/// All entries, in the order of the directory; memory is bounded by the size of the file. Throws FileError.
std::vector<ZipEntry> read_zip_directory(const Source& source);

/// Whether a zip entry may have this name.
bool is_plain_entry_name(const std::string& name);

}  // namespace flashtile::files
