// Marks shared by code that is compiled once per instruction set. A helper that kernels share with ordinary code is
// always inlined: an out-of-line copy built for a newer instruction set could be picked by the linker for everybody
// (numpy#25274, botan#5260).
#pragma once

#define FT_INLINE inline __attribute__((always_inline))
#define FT_UNROLL _Pragma("GCC unroll 16")
