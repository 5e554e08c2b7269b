// How the file formats report what they refuse: one exception, one line that names the file, the field, what it was
// and what is allowed: "qkv.npz[q]: descr = '<u4'; expected one of '<f8' …".
//
// Text that comes out of a file is shown only through in_quotes(): a hostile name can neither break the line, nor fill
// the screen, nor send escape sequences to a terminal.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace flashtile::files {

class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// 'text', printable and at most about 100 characters; everything else than ASCII and valid UTF-8 as \xNN.
std::string in_quotes(std::string_view text);

/// The same without the quotes and without a limit: for paths.
std::string printable(std::string_view text);

/// True for valid UTF-8: no surrogates, nothing overlong.
bool is_utf8(std::string_view text);

/// True for valid UTF-8 of 1 to 4096 bytes without control characters.
/// Every name that read_arrays returns and write_arrays accepts is plain.
bool is_plain_name(std::string_view name);

/// Throws FileError("where: field = was; expected allowed").
[[noreturn]] void refuse(std::string_view where, std::string_view field, std::string_view was, std::string_view allowed);

/// Throws FileError("where: what: " and the system's words for the error number).
[[noreturn]] void refuse_system(std::string_view where, std::string_view what, int error_number);

}  // namespace flashtile::files
