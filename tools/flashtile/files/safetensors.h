// The header of a .safetensors file.   https://huggingface.co/docs/safetensors
//
//   length (8 bytes) │ {"__metadata__": {…}, "q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …} │ data
//
// Always, once parsed: names are plain and unique; every key of a tensor stands there once and no other; the ranges lie
// inside the data and, sorted, follow each other without hole or overlap to the end of the file; the range of a dtype
// that we read has just the size that dtype and shape imply. Tensors of other dtypes are kept in the list (a file may
// hold int8 weights beside what is asked for) and refused when they are asked for.
// Parsing needs memory in proportion to the header alone; JSON deeper than the format is refused at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flashtile/tensor.h"

namespace flashtile::files {

inline constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;  // the format's own limit

struct SafetensorsEntry {
  std::string name;
  std::string dtype_word;
  std::optional<DType> dtype;  // nothing: a type that we do not read
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of the file
  std::map<std::string, std::string> metadata;
};

/// `where` names the file in errors; data_size: bytes after the header. Throws FileError.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_size, const std::string& where);

/// "F32" …
const char* safetensors_word(DType t) noexcept;

/// Place of a dtype in a file: tensors of a smaller one come first.
int safetensors_rank(DType t) noexcept;

}  // namespace flashtile::files
