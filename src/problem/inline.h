// Marks shared by code that is compiled once per instruction set. A helper that kernels share with ordinary code is
// always inlined: an out-of-line copy built for a newer instruction set could be picked by the linker for everybody
// (numpy#25274, botan#5260).
#pragma once

#define FT_INLINE inline __attribute__((always_inline))
/// A loop that fills the registers is a function of its own: what surrounds it would otherwise compete for them.
#define FT_NOINLINE __attribute__((noinline))
#define FT_UNROLL _Pragma("GCC unroll 16")

namespace flashtile {

/// std::fill_n, always inlined.
template <class T, class Count, class Value>
FT_INLINE void fill(T* to, Count n, Value value) {
  for (Count i = 0; i < n; ++i) to[i] = static_cast<T>(value);
}

}  // namespace flashtile
