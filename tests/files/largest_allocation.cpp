#include "files/largest_allocation.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest{0};

void* counted_or_null(std::size_t n, std::size_t alignment) noexcept {
  largest = std::max(largest.load(), n);
  void* p = nullptr;
  return ::posix_memalign(&p, std::max(alignment, sizeof(void*)), std::max<std::size_t>(n, 1)) == 0 ? p : nullptr;
}

void* counted(std::size_t n, std::size_t alignment) {
  void* p = counted_or_null(n, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(std::size_t n) { return counted(n, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return counted_or_null(n, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted_or_null(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace flashtile::files {

void forget_allocations() noexcept { largest = 0; }
std::size_t largest_allocation() noexcept { return largest; }

}  // namespace flashtile::files
