#include "files/file_error.h"

#include <fmt/format.h>

#include <cstdint>
#include <system_error>

namespace flashtile::files {
namespace {

constexpr std::size_t kShownBytes = 96;
constexpr std::size_t kLongestName = 4096;

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: not valid UTF-8
};

// The code point at the front of text; REQUIRES: text is not empty.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = value < (bytes == 4 ? 0x10000u : bytes == 3 ? 0x800u : 0x80u);
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (overlong || surrogate || value > 0x10ffff) return {};
  return {value, bytes};
}

// Controls of ASCII and Latin-1, line and paragraph separators, and the marks that turn the direction of writing.
bool is_control(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (out.size() + 4 > limit) return out + "...";
    if (c.bytes == 0 || is_control(c.value)) {
      const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
      for (std::size_t i = 0; i < bytes; ++i) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
      text.remove_prefix(bytes);
    } else {
      out += text.substr(0, c.bytes);
      text.remove_prefix(c.bytes);
    }
  }
  return out;
}

}  // namespace

std::string in_quotes(std::string_view text) { return "'" + shown(text, kShownBytes) + "'"; }

std::string printable(std::string_view text) { return shown(text, std::string::npos); }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.bytes == 0) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestName) return false;
  while (!name.empty()) {
    const CodePoint c = first_code_point(name);
    if (c.bytes == 0 || is_control(c.value)) return false;
    name.remove_prefix(c.bytes);
  }
  return true;
}

void refuse(std::string_view where, std::string_view field, std::string_view was, std::string_view allowed) {
  throw FileError(fmt::format("{}: {} = {}; expected {}", where, field, was, allowed));
}

void refuse_system(std::string_view where, std::string_view what, int error_number) {
  throw FileError(fmt::format("{}: {}: {}", where, what, std::generic_category().message(error_number)));
}

}  // namespace flashtile::files
