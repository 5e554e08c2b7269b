// Small text files of /proc and /sys, read without an allocation of ours and without failing: what
// cannot be read has no lines. `root` stands before every path: "" for the system, a made-up tree
// in the tests.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace flashtile {

// A mount point and a control group's name, each up to 4096.
inline constexpr std::size_t kPath = 8192;

/// A text file line by line; none when it cannot be read. A line too long is cut: those asked for
/// are short.
class Lines {
 public:
  Lines(const char* root, const char* path) noexcept {
    char whole[kPath];
    const int length = std::snprintf(whole, sizeof(whole), "%s%s", root, path);
    if (length > 0 && static_cast<std::size_t>(length) < sizeof(whole)) file_ = std::fopen(whole, "re");
  }
  ~Lines() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  /// The next line without its end, or null.
  char* next() noexcept {
    if (file_ == nullptr || std::fgets(text_, sizeof(text_), file_) == nullptr) return nullptr;
    std::size_t length = std::strlen(text_);
    if (length > 0 && text_[length - 1] == '\n') {
      text_[length - 1] = '\0';
    } else {
      for (int c = std::fgetc(file_); c != EOF && c != '\n';) c = std::fgetc(file_);
    }
    return text_;
  }

 private:
  std::FILE* file_ = nullptr;
  char text_[4352];
};

/// The first line of the file `directory/name`, as a number; −1 when there is none.
inline std::int64_t number_in(const char* root, const char* directory, const char* name) noexcept {
  char path[kPath];
  if (std::snprintf(path, sizeof(path), "%s/%s", directory, name) >= static_cast<int>(sizeof(path))) return -1;
  Lines lines(root, path);
  const char* text = lines.next();
  if (text == nullptr || std::isdigit(static_cast<unsigned char>(*text)) == 0) return -1;
  char* end = nullptr;
  std::int64_t value = std::strtoll(text, &end, 10);
  const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  return value > (INT64_MAX >> shift) ? -1 : value << shift;
}

}  // namespace flashtile
