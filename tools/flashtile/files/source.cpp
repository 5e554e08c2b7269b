#include "files/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "files/file_error.h"

namespace flashtile::files {
namespace {

constexpr std::uint64_t kLongestRead = 1u << 30;  // Linux transfers at most 2^31 − 4096 bytes a call

}  // namespace

Source::Source(std::string path) : path_(std::move(path)), where_(printable(path_)) {}

Source::Source(Source&& other) noexcept
    : path_(std::move(other.path_)),
      where_(std::move(other.where_)),
      size_(other.size_),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(std::move(other.bytes_)) {}

Source::~Source() {
  if (fd_ >= 0) ::close(fd_);
}

Source Source::open(const std::string& path) {
  Source s(path);
  s.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not make us wait
  if (s.fd_ < 0) refuse_system(s.where_, "cannot be opened", errno);
  struct stat status = {};
  if (::fstat(s.fd_, &status) != 0) refuse_system(s.where_, "cannot be examined", errno);
  if (!S_ISREG(status.st_mode))
    refuse(s.where_, "kind", S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket", "a regular file");
  s.size_ = static_cast<std::uint64_t>(status.st_size);
  return s;
}

Source Source::memory(std::string name, std::vector<std::byte> bytes) {
  Source s(std::move(name));
  s.size_ = bytes.size();
  s.bytes_ = std::move(bytes);
  return s;
}

void Source::read(std::uint64_t offset, void* to, std::uint64_t n, const char* field) const {
  if (offset > size_ || n > size_ - offset)
    refuse(where_, field, fmt::format("{} bytes at offset {}", n, offset),
           fmt::format("a range inside the file of {} bytes", size_));
  if (n == 0) return;
  if (fd_ < 0) {
    std::memcpy(to, bytes_.data() + offset, n);
    return;
  }
  auto* out = static_cast<std::byte*>(to);
  while (n > 0) {
    const ssize_t got = ::pread(fd_, out, std::min(n, kLongestRead), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_system(where_, "cannot be read", errno);
    if (got == 0) refuse(where_, field, "cut off while it was read", "a file that does not change");
    out += got, offset += static_cast<std::uint64_t>(got), n -= static_cast<std::uint64_t>(got);
  }
}

}  // namespace flashtile::files
