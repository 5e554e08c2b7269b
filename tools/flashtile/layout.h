// The order of an array's dimensions: a word with one letter a dimension. b batch, s sequence, h head, d head dim.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/array.h"
#include "flashtile/tensor.h"

namespace flashtile::cli {

/// bshd, shd or sd by the number of dimensions, or `word` itself, checked: s and d, b and h if there are more, in any
/// order. `what` names the array in errors.
std::string layout_for(std::string_view word, std::size_t rank, std::string_view what);

/// The array seen as (B, S, H, D), missing dimensions as 1. Copies it first where d is not contiguous in memory.
Tensor as_bshd(files::Array& array, std::string_view layout);

/// The same without a batch, (total, H, D): `what` names the array where it has more than one.
Tensor as_packed(files::Array& array, std::string_view layout, std::string_view what);

/// The shape that (B, S, H, D) has in a layout.
std::vector<std::int64_t> shape_in(std::string_view layout, const std::int64_t (&bshd)[4]);

}  // namespace flashtile::cli
