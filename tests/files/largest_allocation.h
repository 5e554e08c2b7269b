// Every allocation with new of the program that links this is watched.
#pragma once

#include <cstddef>

namespace flashtile::files {

void forget_allocations() noexcept;
/// Bytes of the largest one since then.
std::size_t largest_allocation() noexcept;

}  // namespace flashtile::files
