// Writing: everything that can be wrong with the arrays is found before the output file is touched.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "files/array_file.h"
#include "files/npy.h"
#include "files/safetensors.h"
#include "files/whole_file.h"
#include "files/zip_reader.h"
#include "files/zip_writer.h"

namespace flashtile::files {
namespace {

enum class Format { npy, npz, safetensors };

Format format_of(const std::string& path) {
  if (path.ends_with(".npy")) return Format::npy;
  if (path.ends_with(".npz")) return Format::npz;
  if (path.ends_with(".safetensors")) return Format::safetensors;
  refuse(printable(path), "extension", in_quotes(std::filesystem::path(path).extension().string()),
         ".npy, .npz or .safetensors");
}

// The elements as they go to a file: the array's own, or a copy in C order.
struct Elements {
  Elements(const Array& a, bool fortran)
      : copied(fortran || is_c_order(a) ? Bytes() : elements_in_c_order(a)),
        span(copied.data() != nullptr ? copied.data() : a.bytes.data(),
             static_cast<std::size_t>(*checked_bytes(a.dtype, a.shape))) {}
  Bytes copied;
  std::span<const std::byte> span;
};

bool keeps_fortran(const Array& a) { return !is_c_order(a) && is_fortran_order(a); }

void write_npy(WholeFile& out, const Array& a) {
  const std::string preamble = npy_preamble(a.dtype, keeps_fortran(a), a.shape);
  out.write(preamble.data(), preamble.size());
  const Elements elements(a, keeps_fortran(a));
  out.write(elements.span.data(), elements.span.size());
}

void write_npz(WholeFile& out, std::span<const Array> arrays, bool compress) {
  ZipWriter zip(out, compress);
  for (const Array& a : arrays) {
    const std::string preamble = npy_preamble(a.dtype, keeps_fortran(a), a.shape);
    const Elements elements(a, keeps_fortran(a));
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(preamble)), elements.span};
    zip.add(a.name + ".npy", parts);
  }
  zip.finish();
}

void write_safetensors(WholeFile& out, std::span<const Array> arrays, const WriteOptions& options) {
  // By dtype, then by name, as the format's own library does.
  std::vector<const Array*> order;
  for (const Array& a : arrays) order.push_back(&a);
  std::sort(order.begin(), order.end(), [](const Array* a, const Array* b) {
    return std::pair(safetensors_rank(a->dtype), std::string_view(a->name)) <
           std::pair(safetensors_rank(b->dtype), std::string_view(b->name));
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!options.metadata.empty()) header["__metadata__"] = options.metadata;
  std::int64_t at = 0;
  for (const Array* a : order) {
    const std::int64_t end = at + *checked_bytes(a->dtype, a->shape);
    header[a->name] = {{"dtype", safetensors_word(a->dtype)}, {"shape", a->shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  const std::uint64_t length = json.size();
  out.write(&length, sizeof length);
  out.write(json.data(), json.size());
  for (const Array* a : order) {
    const Elements elements(*a, false);
    out.write(elements.span.data(), elements.span.size());
  }
}

void check_names(const std::string& where, std::span<const Array> arrays, Format format) {
  std::set<std::string_view> names;
  for (const Array& a : arrays) {
    const bool plain = format == Format::npz ? is_plain_entry_name(a.name) : is_plain_name(a.name);
    if (!plain || (format == Format::safetensors && a.name == "__metadata__"))
      refuse(where, "array name", in_quotes(a.name), "plain UTF-8, not reserved, and for .npz no path that leads upwards");
    if (!names.insert(a.name).second) refuse(where, "array name", in_quotes(a.name) + " twice", "each name once");
  }
}

void check(const std::string& where, std::span<const Array> arrays, Format format, const WriteOptions& options) {
  if (format == Format::npy && arrays.size() != 1)
    refuse(where, "arrays", fmt::to_string(arrays.size()), "1 in an .npy file; .npz and .safetensors take several");
  if (format != Format::npy) check_names(where, arrays, format);
  if (format != Format::safetensors && !options.metadata.empty())
    refuse(where, "metadata", fmt::format("{} entries", options.metadata.size()), "none unless .safetensors");
  if (format != Format::npz && options.compress) refuse(where, "compress", "true", "false unless .npz");
  for (const auto& [key, value] : options.metadata)
    if (!is_plain_name(key) || !is_utf8(value))
      refuse(where, "metadata", in_quotes(key) + " -> " + in_quotes(value), "UTF-8");
  for (const Array& a : arrays)
    if (!is_sound(a))
      refuse(where, "array", fmt::format("{} of shape {}", in_quotes(a.name), text_of(a.shape)),
             "strides that stay inside its bytes");
}

}  // namespace

void write_arrays(const std::string& path, std::span<const Array> arrays, const WriteOptions& options) {
  const std::string where = printable(path);
  const Format format = format_of(path);
  check(where, arrays, format, options);
  try {
    WholeFile out(path);
    if (format == Format::npy) write_npy(out, arrays[0]);
    if (format == Format::npz) write_npz(out, arrays, options.compress);
    if (format == Format::safetensors) write_safetensors(out, arrays, options);
    out.commit();
  } catch (const std::bad_alloc&) {
    throw FileError(where + ": out of memory");
  }
}

}  // namespace flashtile::files
