// The throwing interface, as a user's first program has it.
#include <flashtile/flashtile.h>

#include <cstdio>

#include "known.h"

int main() {
  float out[4], lse[2];
  const auto q = flashtile::view(kQueries, {1, 2, 1, 2}), k = flashtile::view(kKeys, {1, 2, 1, 2}),
             v = flashtile::view(kValues, {1, 2, 1, 2});
  flashtile::attention(q, k, v, flashtile::view(out, {1, 2, 1, 2}),
                       {.causal = true, .scale = kScale, .lse = flashtile::view(lse, {1, 1, 2})});
  print_answer(out, lse);
  try {
    flashtile::attention(q, k, v, flashtile::view(out, {1, 2, 1, 3}));
  } catch (const flashtile::Error& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
