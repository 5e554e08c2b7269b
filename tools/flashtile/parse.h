// Words of the command line as values. Each function names the argument in its error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flashtile/flashtile.h"

namespace flashtile::cli {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& words, std::string_view separator);

double parse_number(std::string_view argument, std::string_view text, std::string_view allowed = "a finite number");
std::int64_t parse_integer(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most);
DType parse_dtype(std::string_view argument, std::string_view text);            // fp64, fp32, fp16, bf16
Window parse_window(std::string_view argument, std::string_view text);          // "L,R", −1 is unlimited
Alignment parse_alignment(std::string_view argument, std::string_view text);    // bottom-right, top-left
Isa parse_isa_option(std::string_view argument, std::string_view text);         // "auto" or the name of a set
Arithmetic parse_arithmetic(std::string_view argument, std::string_view text);  // automatic, fma, amx

/// "1x2048x8x128", B×S×H×D; or packed sequences, the sum of their lengths in the place of B×S: "17+300+3*2048x8x128",
/// where 3*2048 are three of 2048. One length alone is one sequence.
struct TypedShape {
  std::vector<std::int64_t> sizes;    // (B, S, H, D); packed: (total, H, D)
  std::vector<std::int64_t> lengths;  // packed: of each sequence

  bool packed() const { return sizes.size() == 3; }
};
TypedShape parse_shape(std::string_view argument, std::string_view text);

/// "(1, 256, 12, 32)" and "1x256x12x32"
std::string shape_text(const std::vector<std::int64_t>& shape);
std::string shape_text(const ConstTensor& tensor);
std::string shape_word(const ConstTensor& tensor);

}  // namespace flashtile::cli
