#include "run/environment.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace flashtile {
namespace {

#if defined(__x86_64__)
// MXCSR: bit 15 flush results to zero, bits 14–13 = 00 round to nearest, bits 12–7 all exceptions
// masked, bit 6 denormal operands are zero, bits 5–0 no exception seen.
constexpr std::uint64_t kWanted = 0x9fc0;

std::uint64_t control_word() noexcept {
  std::uint32_t word = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(word) : : "memory");
  return word;
}
void set_control_word(std::uint64_t value) noexcept {
  const auto word = static_cast<std::uint32_t>(value);
  __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory");
}
#elif defined(__aarch64__)
// FPCR: bit 24 flush operands and results to zero; 0 elsewhere: round to nearest (23–22), NaNs keep
// their payload (25), IEEE halves (26), no trap (15, 12–8), none of the alternative behaviours
// (2–0). Halves are only converted, which FZ does not touch.
constexpr std::uint64_t kWanted = std::uint64_t{1} << 24;

std::uint64_t control_word() noexcept {
  std::uint64_t word = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
  return word;
}
void set_control_word(std::uint64_t word) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
// Nothing to set: such a machine has no vector kernels either.
constexpr std::uint64_t kWanted = 0;
std::uint64_t control_word() noexcept { return 0; }
void set_control_word(std::uint64_t) noexcept {}
#endif

#if defined(__x86_64__) && defined(SYS_arch_prctl)
bool ask_for_amx() noexcept {
  constexpr long kArchReqXcompPerm = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, Linux 5.16; older headers lack it
  constexpr long kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}
#else
bool ask_for_amx() noexcept { return false; }
#endif

}  // namespace

__attribute__((noinline)) FloatEnvironment::FloatEnvironment() noexcept {
  found_ = control_word();
  set_control_word(kWanted);
}

__attribute__((noinline)) FloatEnvironment::~FloatEnvironment() { set_control_word(found_); }

bool request_amx_permission() noexcept {
  enum Answer : int { kNotAsked, kRefused, kGranted };
  static std::atomic<int> answer{kNotAsked};  // threads that come together may ask twice: the answer is the same
  if (answer.load(std::memory_order_relaxed) == kNotAsked)
    answer.store(ask_for_amx() ? kGranted : kRefused, std::memory_order_relaxed);
  return answer.load(std::memory_order_relaxed) == kGranted;
}

}  // namespace flashtile
