// Small deterministic random numbers: the same on every machine and standard library (std:: distributions are not).
// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#pragma once

#include <cmath>
#include <cstdint>

namespace flashtile::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  /// In [low, high).
  double uniform(double low = 0, double high = 1) {
    return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
  }

  /// Mean 0, deviation 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * 3.14159265358979323846 * uniform());
  }

  /// In [low, high], both included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool coin(double probability = 0.5) { return uniform() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace flashtile::testing
