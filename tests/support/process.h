// What a test wants to know about, or do with, its own process: threads, memory, children.
#pragma once

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace flashtile::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// Threads of this process; −1 where /proc does not say.
inline int thread_count() {
  DIR* directory = opendir("/proc/self/task");
  if (directory == nullptr) return -1;
  int n = 0;
  while (const dirent* entry = readdir(directory)) n += entry->d_name[0] != '.';
  closedir(directory);
  return n;
}

/// Resident bytes; −1 where /proc does not say.
inline long long resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return -1;
  long long size = 0, resident = -1;
  if (std::fscanf(file, "%lld %lld", &size, &resident) != 2) resident = -1;
  std::fclose(file);
  return resident < 0 ? -1 : resident * sysconf(_SC_PAGESIZE);
}

/// Names of the files mapped into this process, one a line.
inline std::string mapped_files() {
  std::string text;
  std::FILE* file = std::fopen("/proc/self/maps", "r");
  if (file == nullptr) return text;
  char line[4096];
  while (std::fgets(line, sizeof line, file) != nullptr) text += line;
  std::fclose(file);
  return text;
}

/// Runs body() in a forked child: true when it returned true within `seconds` (an alarm ends a child that hangs).
template <class Body>
bool true_in_child(Body body, unsigned seconds = 60) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace flashtile::testing
