// A file that appears whole or not at all: written under a temporary name in the same directory, flushed to the disk,
// then renamed over the target. Until commit() the target is untouched; without commit() the temporary file goes away.
// A symbolic link at the target is followed; an existing target keeps its permissions. Devices and directories are
// refused, since they cannot be replaced whole.
#pragma once

#include <cstdint>
#include <string>

namespace flashtile::files {

class WholeFile {
 public:
  explicit WholeFile(const std::string& path);  // these all throw FileError
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const void* data, std::uint64_t n);
  /// Overwrites what was written before. REQUIRES: offset + n <= size().
  void patch(std::uint64_t offset, const void* data, std::uint64_t n);
  void commit();

  std::uint64_t size() const noexcept { return size_; }

 private:
  void write_at(std::uint64_t offset, const void* data, std::uint64_t n);

  std::string where_;      // the path as errors show it
  std::string target_;     // links followed
  std::string temporary_;  // empty once it is gone
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

}  // namespace flashtile::files
