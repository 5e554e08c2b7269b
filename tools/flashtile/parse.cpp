#include "parse.h"

#include <array>
#include <charconv>
#include <cmath>

#include "failure.h"

namespace flashtile::cli {
namespace {

/// Names of the instruction sets that the library knows, for an error.
std::string isa_names() {
  std::array<IsaReport, 16> reports;
  const int count = isa_reports(reports.data(), static_cast<int>(reports.size()));
  std::vector<std::string> names = {"auto"};
  for (int i = 0; i < count && i < static_cast<int>(reports.size()); ++i) names.emplace_back(reports[i].name);
  return join(names, ", ");
}

std::string bracketed(const std::int64_t* shape, std::size_t rank) {
  std::string text = "(";
  for (std::size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (rank == 1 ? ",)" : ")");
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (;;) {
    const std::size_t at = text.find(separator);
    words.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return words;
    text.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : std::string(separator)) + words[i];
  return text;
}

double parse_number(std::string_view argument, std::string_view text, std::string_view allowed) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty() || !std::isfinite(value)) throw wrong(argument, text, allowed);
  return value;
}

std::int64_t parse_integer(std::string_view argument, std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty() || value < least || value > most)
    throw wrong(argument, text, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

DType parse_dtype(std::string_view argument, std::string_view text) {
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16})
    if (text == name_of(t)) return t;
  throw wrong(argument, text, "fp64, fp32, fp16 or bf16");
}

Window parse_window(std::string_view argument, std::string_view text) {
  constexpr std::string_view kAllowed = "L,R: two whole numbers of neighbours, at least 0, or -1 for no limit";
  const std::vector<std::string> words = split(text, ',');
  std::int64_t sides[2] = {};
  if (words.size() != 2) throw wrong(argument, text, kAllowed);
  for (int i = 0; i < 2; ++i) {
    const char* const end = words[i].data() + words[i].size();
    const auto [stop, error] = std::from_chars(words[i].data(), end, sides[i]);
    if (error != std::errc() || stop != end || words[i].empty() || sides[i] < -1) throw wrong(argument, text, kAllowed);
  }
  return {sides[0], sides[1]};
}

Alignment parse_alignment(std::string_view argument, std::string_view text) {
  if (text == "bottom-right") return Alignment::bottom_right;
  if (text == "top-left") return Alignment::top_left;
  throw wrong(argument, text, "bottom-right or top-left");
}

Isa parse_isa_option(std::string_view argument, std::string_view text) {
  Isa isa = Isa::automatic;
  if (!parse_isa(std::string(text).c_str(), isa)) throw wrong(argument, text, "one of " + isa_names());
  return isa;
}

Arithmetic parse_arithmetic(std::string_view argument, std::string_view text) {
  if (text == "automatic" || text == "auto") return Arithmetic::automatic;
  if (text == "fma") return Arithmetic::fma;
  if (text == "amx") return Arithmetic::amx;
  throw wrong(argument, text, "automatic, fma or amx");
}

TypedShape parse_shape(std::string_view argument, std::string_view text) {
  constexpr std::string_view kAllowed =
      "BxSxHxD, four sizes as in 1x2048x8x128, or packed sequences of these lengths: 17+300+3*2048x8x128";
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  constexpr std::int64_t kMostRows = INT32_MAX, kMostSequences = 1 << 20;  // cu_seqlens are int32
  const auto number = [&](std::string_view word) {
    std::int64_t size = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, size);
    if (error != std::errc() || stop != end || word.empty() || size < 0 || size > kMost)
      throw wrong(argument, text, kAllowed);
    return size;
  };
  const std::vector<std::string> words = split(text, 'x');
  TypedShape shape;
  if (words.size() == 3) {
    std::int64_t rows = 0;
    for (const std::string& run : split(words[0], '+')) {
      const std::size_t star = run.find('*');
      const std::int64_t count = star == std::string::npos ? 1 : number(run.substr(0, star));
      const std::int64_t length = number(star == std::string::npos ? run : run.substr(star + 1));
      if (count > kMostSequences - std::ssize(shape.lengths))
        throw wrong(argument, text, fmt::format("at most {} sequences", kMostSequences));
      if (length > kMostRows || count * length > kMostRows - rows)
        throw wrong(argument, text, fmt::format("at most {} packed rows", kMostRows));
      shape.lengths.insert(shape.lengths.end(), static_cast<std::size_t>(count), length);
      rows += count * length;
    }
    shape.sizes = {rows, number(words[1]), number(words[2])};
  } else if (words.size() == 4) {
    for (const std::string& word : words) shape.sizes.push_back(number(word));
  } else throw wrong(argument, text, kAllowed);
  double elements = 1;
  for (const std::int64_t size : shape.sizes) elements *= static_cast<double>(size);
  if (elements > static_cast<double>(kMost)) throw wrong(argument, text, "at most 2^40 elements");
  return shape;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return bracketed(shape.data(), shape.size()); }

std::string shape_text(const ConstTensor& tensor) { return bracketed(tensor.shape, static_cast<std::size_t>(tensor.rank)); }

std::string shape_word(const ConstTensor& tensor) {
  std::string text;
  for (int i = 0; i < tensor.rank; ++i) text += (i == 0 ? "" : "x") + std::to_string(tensor.shape[i]);
  return text;
}

}  // namespace flashtile::cli
