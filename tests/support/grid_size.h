// How much the grids of the tests cover: everything, or about a tenth of it on emulated processors and under sanitizers.
#pragma once

#include <cstdlib>
#include <cstring>

namespace flashtile::testing {

/// FLASHTILE_TEST_GRID=small
inline bool small_grid() {
  const char* size = std::getenv("FLASHTILE_TEST_GRID");
  return size != nullptr && std::strcmp(size, "small") == 0;
}

}  // namespace flashtile::testing
