// NumPy's .npy format, versions 1.0, 2.0 and 3.0, from and to a stream: magic, version, length, a header that is a
// Python dictionary, elements.   https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
//   \x93 N U M P Y  major minor  length (2 or 4 bytes)  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } … \n
//
// Read: fp64, fp32, fp16, bool, int32, int64 in either byte order (big-endian is swapped), and bf16. NumPy has no bf16:
// ml_dtypes writes it as '<V2', which NumPy turns into '|V2'; two bytes without a meaning are therefore taken as bf16,
// and so is the name 'bfloat16'. Fortran order becomes strides; nothing is transposed.
// The dictionary is read by a strict parser: the three keys, each once, and nothing that Python would have to evaluate.
// The elements must fill the rest of the stream exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/array.h"
#include "files/stream.h"

namespace flashtile::files {

struct NpyHeader {
  std::string descr;            // as the file says; a structured type as its text
  std::optional<DType> dtype;   // nothing: a type that we do not read
  bool swapped = false;         // big-endian
  bool fortran = false;
  std::vector<std::int64_t> shape;
};

/// Reads up to the first element. Throws FileError.
NpyHeader read_npy_header(ByteStream& in);

/// Why the type of a well-formed header cannot be read, as a FileError's text; empty if it can.
std::string npy_type_problem(const NpyHeader& header, const std::string& where);

/// Reads a whole array; allocates only when the rest of the stream has just the size that the header implies.
Array read_npy(ByteStream& in, std::string name);

/// The dictionary alone. Throws FileError.
NpyHeader parse_npy_header(std::string_view text, const std::string& where);

/// Everything before the elements, byte for byte as NumPy writes it.
std::string npy_preamble(DType dtype, bool fortran, const std::vector<std::int64_t>& shape);

}  // namespace flashtile::files
