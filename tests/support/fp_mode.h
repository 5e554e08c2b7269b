// The calling thread's floating-point mode (MXCSR, FPCR), read and written without intrinsics.
#pragma once

#include <cstdint>

namespace flashtile::testing {

#if defined(__x86_64__)
inline constexpr std::uint64_t kFlushToZero = 0x8040;  // FTZ and DAZ
inline constexpr std::uint64_t kRoundUp = 0x4000;
inline constexpr std::uint64_t kModeBits = 0xffc0;  // without the exception flags
inline std::uint64_t fp_mode() {
  std::uint32_t mode = 0;
  asm volatile("stmxcsr %0" : "=m"(mode));
  return mode;
}
inline void set_fp_mode(std::uint64_t mode) {
  const std::uint32_t narrow = static_cast<std::uint32_t>(mode);
  asm volatile("ldmxcsr %0" : : "m"(narrow));
}
#elif defined(__aarch64__)
inline constexpr std::uint64_t kFlushToZero = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kRoundUp = std::uint64_t{1} << 22;
inline constexpr std::uint64_t kModeBits = kFlushToZero | std::uint64_t{3} << 22;
inline std::uint64_t fp_mode() {
  std::uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_fp_mode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
inline constexpr std::uint64_t kFlushToZero = 0, kRoundUp = 0, kModeBits = 0;
inline std::uint64_t fp_mode() { return 0; }
inline void set_fp_mode(std::uint64_t) {}
#endif

/// Sets bits of the mode for a scope.
class FpMode {
 public:
  explicit FpMode(std::uint64_t bits) : before_(fp_mode()) { set_fp_mode(before_ | bits); }
  FpMode(const FpMode&) = delete;
  FpMode& operator=(const FpMode&) = delete;
  ~FpMode() { set_fp_mode(before_); }

 private:
  std::uint64_t before_;
};

/// Processors keep denormal halves whatever the mode is; QEMU's F16C (7.2) flushes them.
inline bool f16c_keeps_denormals() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) return true;  // never used
  const FpMode mode(kFlushToZero);
  std::uint32_t wide = 0;
  asm volatile("vmovd %1, %%xmm0; vcvtph2ps %%xmm0, %%xmm0; vmovd %%xmm0, %0" : "=r"(wide) : "r"(1u) : "xmm0");
  return wide != 0;
#else
  return true;
#endif
}

}  // namespace flashtile::testing
