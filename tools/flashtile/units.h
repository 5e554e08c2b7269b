// Numbers as people read them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace flashtile::cli {

/// "512 B", "1.5 KiB", "3.0 MiB"
inline std::string bytes_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

/// "850 ns", "12.3 µs", "4.56 ms", "7.89 s"
inline std::string seconds_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

/// "12,345,678"
inline std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  const std::size_t first = n < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

}  // namespace flashtile::cli
