#include "run/machine.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "problem/buffer.h"
#include "run/cgroup.h"
#include "run/text_file.h"

namespace flashtile {
namespace {

// ---- affinity and names -------------------------------------------------------------------------

int bits_in(const std::uint64_t* words, int bytes) noexcept {
  int count = 0;
  for (int i = 0; i < bytes / 8; ++i) count += __builtin_popcountll(words[i]);
  return count;
}

/// Bytes written, or −1 when the kernel's mask is longer than `bytes`. Not glibc's function: that
/// hides the length.
int kernel_affinity(std::uint64_t* words, int bytes) noexcept {
  std::memset(words, 0, static_cast<std::size_t>(bytes));
  const long written = syscall(SYS_sched_getaffinity, 0, bytes, words);
  return written < 0 ? -1 : static_cast<int>((written + 7) / 8 * 8);  // whole words: the rest is 0
}

/// CPUs that the calling thread may use, however many the machine has; at least 1.
int affinity_count() noexcept {
  Affinity affinity;
  read_affinity(affinity);
  int count = affinity.count();
  Buffer<std::uint64_t> words;
  for (int n = 2 * Affinity::kWords; count == 0 && errno == EINVAL && n <= (1 << 15) && words.allocate(n); n *= 2) {
    const int bytes = kernel_affinity(words.data(), n * 8);
    if (bytes > 0) count = bits_in(words.data(), bytes);
  }
  if (count == 0) count = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return count < 1 ? 1 : count;
}

struct ArmPart {
  unsigned implementer, part;
  const char* name;
};
// Linux gives Arm cores by number (MIDR_EL1), x86 ones by name.
constexpr ArmPart kArmParts[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd07, "Arm Cortex-A57"},  {0x41, 0xd08, "Arm Cortex-A72"},
    {0x41, 0xd0b, "Arm Cortex-A76"},  {0x41, 0xd0c, "Arm Neoverse N1"}, {0x41, 0xd40, "Arm Neoverse V1"},
    {0x41, 0xd49, "Arm Neoverse N2"}, {0x41, 0xd4f, "Arm Neoverse V2"}, {0x41, 0xd84, "Arm Neoverse V3"},
    {0x41, 0xd8e, "Arm Neoverse N3"}, {0xc0, 0xac3, "Ampere-1"},        {0xc0, 0xac4, "Ampere-1A"},
};

void arm_name(unsigned implementer, unsigned part, char* name, std::size_t size) noexcept {
  for (const ArmPart& known : kArmParts)
    if (known.implementer == implementer && known.part == part) {
      std::snprintf(name, size, "%s", known.name);
      return;
    }
  std::snprintf(name, size, "Arm implementer 0x%02x part 0x%03x", implementer, part);
}

// ---- this machine, once -------------------------------------------------------------------------
// Not a function-local static: a child forked while another thread computes it would wait for that
// thread for ever.

enum Progress : int { kUnknown, kBeingFound, kKnown };
std::atomic<int> progress{kUnknown};
Machine machine;

void forget_half_found() noexcept {
  int half = kBeingFound;
  progress.compare_exchange_strong(half, kUnknown);
}
// When there is no memory for the handler, only a fork during the very first call is at risk.
[[maybe_unused]] const int handler_registered = pthread_atfork(nullptr, nullptr, forget_half_found);

[[maybe_unused]] std::int64_t sysconf_size(int name) noexcept {
  const long size = sysconf(name);
  return size > 0 ? size : 0;
}

Machine find_out() noexcept {
  CacheSizes caches = sysfs_caches("");
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  if (caches.l1 == 0) caches.l1 = sysconf_size(_SC_LEVEL1_DCACHE_SIZE);
  if (caches.l2 == 0) caches.l2 = sysconf_size(_SC_LEVEL2_CACHE_SIZE);
  if (caches.l3 == 0) caches.l3 = sysconf_size(_SC_LEVEL3_CACHE_SIZE);
#endif
  Machine found = assemble(caches, affinity_count(), cgroup_quota(""));
  cpu_name("", found.cpu, sizeof(found.cpu));
  return found;
}

int thread_count(int affinity, double quota) noexcept {
  if (quota > 0 && quota < affinity) affinity = static_cast<int>(quota);
  return affinity < 1 ? 1 : affinity;
}

}  // namespace

int Affinity::count() const noexcept { return bits_in(mask, bytes); }

bool Affinity::operator==(const Affinity& other) const noexcept {
  return bytes == other.bytes && std::memcmp(mask, other.mask, static_cast<std::size_t>(bytes)) == 0;
}

void read_affinity(Affinity& affinity) noexcept {
  const int bytes = kernel_affinity(affinity.mask, static_cast<int>(sizeof(affinity.mask)));
  affinity.bytes = bytes < 0 ? 0 : bytes;
}

bool adopt_affinity(const Affinity& affinity) noexcept {
  return affinity.bytes > 0 && syscall(SYS_sched_setaffinity, 0, affinity.bytes, affinity.mask) == 0;
}

CacheSizes sysfs_caches(const char* root) noexcept {
  CacheSizes caches;
  for (int index = 0; index < 16; ++index) {
    char directory[96];
    std::snprintf(directory, sizeof(directory), "/sys/devices/system/cpu/cpu0/cache/index%d", index);
    const std::int64_t level = number_in(root, directory, "level");
    const std::int64_t size = number_in(root, directory, "size");
    char path[112];
    std::snprintf(path, sizeof(path), "%s/type", directory);
    Lines lines(root, path);
    const char* type = lines.next();
    if (size <= 0 || type == nullptr || std::strcmp(type, "Instruction") == 0) continue;
    if (level == 1) caches.l1 = size;
    if (level == 2) caches.l2 = size;
    if (level == 3) caches.l3 = size;
  }
  return caches;
}

void cpu_name(const char* root, char* name, std::size_t size) noexcept {
  std::snprintf(name, size, "unknown");
  unsigned implementer = 0, part = 0;
  Lines lines(root, "/proc/cpuinfo");
  while (char* line = lines.next()) {
    char* value = std::strchr(line, ':');
    if (value == nullptr) continue;
    for (++value; *value == ' ' || *value == '\t';) ++value;
    if (std::strncmp(line, "model name", 10) == 0 && *value != '\0') {
      std::snprintf(name, size, "%s", value);
      return;
    }
    if (std::strncmp(line, "CPU implementer", 15) == 0) implementer = static_cast<unsigned>(std::strtoul(value, nullptr, 0));
    if (std::strncmp(line, "CPU part", 8) == 0) part = static_cast<unsigned>(std::strtoul(value, nullptr, 0));
    if (implementer != 0 && part != 0) return arm_name(implementer, part, name, size);
  }
}

Machine assemble(const CacheSizes& caches, int affinity, double quota) noexcept {
  // Below these no real cache is: a size in the wrong unit or a virtual machine's invention.
  constexpr std::int64_t kLeastL1 = 4 << 10, kLeastL2 = 32 << 10, kLeastL3 = 256 << 10;
  Machine found;
  if (caches.l1 >= kLeastL1) found.l1 = caches.l1;
  if (caches.l2 >= kLeastL2) found.l2 = caches.l2;
  if (caches.l3 >= kLeastL3) found.l3 = caches.l3;
  found.affinity = affinity < 1 ? 1 : affinity;
  found.cgroup_quota = quota > 0 ? quota : 0;
  found.threads = thread_count(found.affinity, found.cgroup_quota);
  return found;
}

const Machine& this_machine() noexcept {
  for (;;) {
    int now = progress.load(std::memory_order_acquire);
    if (now == kKnown) return machine;
    if (now == kUnknown && progress.compare_exchange_strong(now, kBeingFound)) {
      machine = find_out();
      progress.store(kKnown, std::memory_order_release);
      return machine;
    }
    sched_yield();
  }
}

int available_threads() noexcept { return thread_count(affinity_count(), this_machine().cgroup_quota); }

int available_threads(const Affinity& affinity) noexcept {
  return affinity.bytes == 0 ? available_threads() : thread_count(affinity.count(), this_machine().cgroup_quota);
}

}  // namespace flashtile
