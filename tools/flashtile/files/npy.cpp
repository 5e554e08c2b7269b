#include "files/npy.h"

#include <fmt/format.h>

#include <algorithm>

#include "files/file_error.h"

namespace flashtile::files {
namespace {

// The longest shape of 64 dimensions needs 1400 characters; structured types, which we only name, may need more.
constexpr std::uint32_t kLongestHeader = 1u << 16;

void swap_elements(Array& a) {
  const std::size_t size = static_cast<std::size_t>(size_of(a.dtype));
  for (std::byte *p = a.bytes.data(), *end = p + a.bytes.size(); p != end; p += size) std::reverse(p, p + size);
}

}  // namespace

NpyHeader read_npy_header(ByteStream& in) {
  unsigned char start[8];
  in.read(start, sizeof start, ".npy magic");
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    refuse(in.where(), "magic", in_quotes({reinterpret_cast<const char*>(start), 6}), "'\\x93NUMPY'");
  if (start[6] < 1 || start[6] > 3 || start[7] != 0)
    refuse(in.where(), ".npy version", fmt::format("{}.{}", start[6], start[7]), "1.0, 2.0 or 3.0");
  std::uint32_t length = 0;
  in.read(&length, start[6] == 1 ? 2 : 4, "header length");
  if (length > kLongestHeader || length > in.left())
    refuse(in.where(), "header length", fmt::to_string(length),
           fmt::format("at most {}", std::min<std::uint64_t>(kLongestHeader, in.left())));
  std::string text(length, '\0');
  in.read(text.data(), length, "header");
  return parse_npy_header(text, in.where());
}

Array read_npy(ByteStream& in, std::string name) {
  const NpyHeader header = read_npy_header(in);
  if (!header.dtype) throw FileError(npy_type_problem(header, in.where()));
  const auto bytes = static_cast<std::uint64_t>(*checked_bytes(*header.dtype, header.shape));
  if (bytes != in.left())
    refuse(in.where(), "data", fmt::format("{} bytes", in.left()),
           fmt::format("{} bytes for {} of shape {}", bytes, name_of(*header.dtype), text_of(header.shape)));
  Array a = unset_array(std::move(name), *header.dtype, header.shape, in.where());
  if (header.fortran) a.stride = fortran_strides(a.shape);
  in.read(a.bytes.data(), a.bytes.size(), "data");
  in.finish();
  if (header.swapped) swap_elements(a);
  return a;
}

}  // namespace flashtile::files
