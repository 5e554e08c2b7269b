// Arrays with another element type, and arrays of normal random numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/array.h"

namespace flashtile::cli {

/// x in the type `to`, rounded once, to nearest even, from the exact value.
void store(double x, DType to, void* data, std::int64_t index);

/// The same numbers with elements of type `to`, dense in C order. Any numeric type or boolean; `to` is a floating type.
files::Array converted(const files::Array& from, DType to);

/// Independent N(0, 1) numbers: the same for the same seed on every machine.
files::Array normal_array(const std::string& name, DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed);

}  // namespace flashtile::cli
