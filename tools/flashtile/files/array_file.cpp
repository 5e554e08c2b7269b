#include "files/array_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "files/source.h"

namespace flashtile::files {
namespace {

std::unique_ptr<const Container> open_by_format(Source source) {
  if (source.path().ends_with(".safetensors")) return open_safetensors(std::move(source));
  unsigned char start[9] = {};
  const std::uint64_t have = std::min<std::uint64_t>(source.size(), sizeof start);
  source.read(0, start, have, "format");
  if (have >= 6 && std::memcmp(start, "\x93NUMPY", 6) == 0) return open_npy(std::move(source));
  if (have >= 4 && (std::memcmp(start, "PK\3\4", 4) == 0 || std::memcmp(start, "PK\5\6", 4) == 0))
    return open_npz(std::move(source));
  if (have == 9 && start[8] == '{') return open_safetensors(std::move(source));
  refuse(source.where(), "format", have == 0 ? "an empty file" : "unknown", ".npy, .npz or .safetensors");
}

// Memory that a checked header asks for may still be more than there is.
template <class F>
auto guarded(const std::string& where, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw FileError(where + ": out of memory");
  }
}

}  // namespace

ArrayFile ArrayFile::open(const std::string& path) {
  return guarded(printable(path), [&] { return ArrayFile(printable(path), open_by_format(Source::open(path))); });
}

ArrayFile ArrayFile::from_bytes(std::string name, std::vector<std::byte> bytes) {
  return guarded(printable(name), [&] {
    std::string where = printable(name);
    return ArrayFile(std::move(where), open_by_format(Source::memory(std::move(name), std::move(bytes))));
  });
}

Array ArrayFile::read(std::size_t i) const {
  if (i >= entries().size())
    refuse(where_, "array", fmt::format("number {}", i), fmt::format("one of {}", entries().size()));
  if (!entries()[i].problem.empty()) throw FileError(entries()[i].problem);
  return guarded(where_, [&] { return container_->read(i); });
}

Array ArrayFile::read(std::string_view name) const {
  for (std::size_t i = 0; i < entries().size(); ++i)
    if (entries()[i].name == name) return read(i);
  constexpr std::size_t kShown = 12;
  std::string names = entries().empty() ? "a file with arrays" : "one of ";
  for (std::size_t i = 0; i < entries().size() && i < kShown; ++i)
    names += (i == 0 ? "" : ", ") + in_quotes(entries()[i].name);
  if (entries().size() > kShown) names += fmt::format(" and {} more", entries().size() - kShown);
  refuse(where_, "array", in_quotes(name), names);
}

std::vector<Array> read_arrays(const std::string& path) {
  const ArrayFile file = ArrayFile::open(path);
  std::vector<Array> arrays;
  arrays.reserve(file.entries().size());
  for (std::size_t i = 0; i < file.entries().size(); ++i) arrays.push_back(file.read(i));
  return arrays;
}

}  // namespace flashtile::files
