// Which weights dropout keeps: Philox4x32-10, a counter-based generator, so that the answer for weight (b, h, i, j) is
// a function of the seed and the coordinates and of nothing else: no tiling, no thread, no order can change it.
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

#include "flashtile/options.h"
#include "problem/inline.h"

namespace flashtile {

struct Philox {
  std::uint32_t word[4];
};

/// Ten rounds on counter `c` under a 64-bit key.
FT_INLINE Philox philox(std::uint64_t key, Philox c) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<std::uint32_t>(b >> 32) ^ c.word[1] ^ k0, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ c.word[3] ^ k1, static_cast<std::uint32_t>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// The four words that decide keys j = 4·quad … 4·quad + 3 of row (b, h, i).
/// Counter words: quad, i, h, b, each modulo 2^32; key: seed + offset · ⌊2^64 / golden ratio⌋.
FT_INLINE Philox dropout_words(const Dropout& d, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t quad) {
  return philox(d.seed + d.offset * 0x9E3779B97F4A7C15ull, {{static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(i),
                                                             static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(b)}});
}

/// A weight is kept iff its word is at least this: the dropped share is p to within 2^−32.
FT_INLINE std::uint32_t dropout_threshold(const Dropout& d) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(d.probability * 0x1p32));
}

FT_INLINE bool keeps(const Dropout& d, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  return dropout_words(d, b, h, i, j >> 2).word[j & 3] >= dropout_threshold(d);
}

}  // namespace flashtile
