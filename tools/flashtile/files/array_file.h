// Files of arrays: NumPy's .npy and .npz and .safetensors, in both directions. This is the only header that a user of
// the file formats needs.
//
// Always: a file is believed only after it was checked. Whatever its bytes, reading it gives arrays that are sound or a
// FileError of one line; never a read outside the file, and never an allocation beyond what its checked header and its
// size justify (a deflated entry cannot hold more than 1032 times its packed size). An output file appears whole or not
// at all. No array is converted, transposed or reordered on reading.
// Only one thread may use an ArrayFile's move operations; entries() and read() are safe from several.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/array.h"
#include "files/container.h"
#include "files/file_error.h"

namespace flashtile::files {

/// An open file: its arrays by name, read one at a time.
/// The format is found by content (magic number), except that a name ending in .safetensors says it, since that format
/// has no magic number. An array that cannot be read (a dtype without a meaning here, an entry of a zip file that is no
/// array) is listed with its `problem` and refused when it is read, so that it does not spoil the others.
class ArrayFile {
 public:
  static ArrayFile open(const std::string& path);                                          // throws FileError
  static ArrayFile from_bytes(std::string name, std::vector<std::byte> bytes);             // the same, from memory

  const char* format() const noexcept { return container_->format(); }  // ".npy", ".npz" or ".safetensors"
  const std::vector<Entry>& entries() const noexcept { return container_->entries(); }
  /// The "__metadata__" of .safetensors; empty for the others.
  const std::map<std::string, std::string>& metadata() const noexcept { return container_->metadata(); }

  /// Throws FileError when there is no such array, or it has a problem, or its data is damaged.
  Array read(std::string_view name) const;
  Array read(std::size_t i) const;

 private:
  ArrayFile(std::string where, std::unique_ptr<const Container> container)
      : where_(std::move(where)), container_(std::move(container)) {}

  std::string where_;
  std::unique_ptr<const Container> container_;
};

/// Every array of a file, in the file's order. An array of an .npy file is named after the file, without extension.
/// Throws FileError, also when only one of the arrays cannot be read.
std::vector<Array> read_arrays(const std::string& path);

struct WriteOptions {
  std::map<std::string, std::string> metadata = {};  // .safetensors only
  bool compress = false;                             // .npz only: deflate
};

/// Writes the arrays to a temporary file beside `path`, flushes it to the disk and renames it: whoever looks finds the
/// old file or the whole new one. The extension chooses the format: .npy (exactly one array, whose name is not kept),
/// .npz or .safetensors. The same arrays give the same bytes. Strides of any kind are written in C order, except that
/// .npy and .npz keep Fortran order; bf16 is '<V2' in .npy and .npz. Throws FileError, and then `path` is what it was.
void write_arrays(const std::string& path, std::span<const Array> arrays, const WriteOptions& options = {});

}  // namespace flashtile::files
