#include "files/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "files/file_error.h"

namespace flashtile::files {
namespace {

constexpr std::uint64_t kLongestWrite = 1u << 30;

std::string directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

WholeFile::WholeFile(const std::string& path) : where_(printable(path)), target_(path) {
  struct stat old = {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode))
    refuse(where_, "output", S_ISDIR(old.st_mode) ? "a directory" : "a device, pipe or socket",
           "a regular file or a new name");
  std::error_code error;
  if (exists) target_ = std::filesystem::canonical(path, error).string();
  if (error) refuse_system(where_, "cannot be resolved", error.value());
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; fd_ < 0; ++attempt) {
    temporary_ = fmt::format("{}/.flashtile-{}-{}.tmp", directory_of(target_), ::getpid(), counter++);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0 && (errno != EEXIST || attempt == 100)) refuse_system(where_, "cannot be written", errno);
  }
  if (exists && ::fchmod(fd_, old.st_mode & 0777) != 0) {
    const int number = errno;
    ::close(fd_), ::unlink(temporary_.c_str());
    refuse_system(where_, "permissions cannot be kept", number);
  }
}

WholeFile::~WholeFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void WholeFile::write_at(std::uint64_t offset, const void* data, std::uint64_t n) {
  const auto* from = static_cast<const char*>(data);
  while (n > 0) {
    const ssize_t put = ::pwrite(fd_, from, std::min(n, kLongestWrite), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) refuse_system(where_, "cannot be written", put < 0 ? errno : ENOSPC);
    from += put, offset += static_cast<std::uint64_t>(put), n -= static_cast<std::uint64_t>(put);
  }
}

void WholeFile::write(const void* data, std::uint64_t n) {
  write_at(size_, data, n);
  size_ += n;
}

void WholeFile::patch(std::uint64_t offset, const void* data, std::uint64_t n) { write_at(offset, data, n); }

void WholeFile::commit() {
  if (::fsync(fd_) != 0) refuse_system(where_, "cannot be flushed to the disk", errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) refuse_system(where_, "cannot be closed", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse_system(where_, "cannot be renamed to", errno);
  temporary_.clear();
  // The name is on the disk once its directory is. The file is whole either way, and not every file system lets a
  // directory be flushed, so this alone is allowed to fail.
  const int directory = ::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) ::fsync(directory), ::close(directory);
}

}  // namespace flashtile::files
