// The dictionary of an .npy header: its strict parser and its writer.
#include <fmt/format.h>

#include <algorithm>

#include "files/file_error.h"
#include "files/npy.h"

namespace flashtile::files {
namespace {

struct Descr {
  const char* text;
  DType dtype;
  bool swapped;
};

constexpr Descr kDescr[] = {
    {"<f8", DType::f64, false},     {"<f4", DType::f32, false},  {"<f2", DType::f16, false},
    {"|b1", DType::boolean, false}, {"<i4", DType::i32, false},  {"<i8", DType::i64, false},
    {"<V2", DType::bf16, false},    {"|V2", DType::bf16, false}, {"bfloat16", DType::bf16, false},
    {">f8", DType::f64, true},      {">f4", DType::f32, true},   {">f2", DType::f16, true},
    {">i4", DType::i32, true},      {">i8", DType::i64, true},
};

// Reads the dictionary from left to right. Every function leaves `at` after what it read, or throws.
class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyHeader dictionary() {
    NpyHeader h;
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0) refuse(where_, "header key", in_quotes(key), "'descr', 'fortran_order' or 'shape'");
      if (std::exchange(seen[which], true)) refuse(where_, "header key", in_quotes(key) + " twice", "each key once");
      if (which == 0) h.descr = descr();
      if (which == 1) h.fortran = boolean();
      if (which == 2) h.shape = shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) bad("nothing but white space after the dictionary");
    if (!seen[0] || !seen[1] || !seen[2])
      refuse(where_, "header", in_quotes(text_), "the keys 'descr', 'fortran_order' and 'shape'");
    return h;
  }

 private:
  [[noreturn]] void bad(std::string_view allowed) const {
    refuse(where_, fmt::format("header at byte {}", at_), at_ < text_.size() ? in_quotes(text_.substr(at_, 16)) : "its end",
           allowed);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("'{}'", c));
  }

  // No escape sequence occurs in what NumPy writes; a backslash is refused rather than interpreted.
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') bad("a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) bad("a string with its end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) bad("a string without a backslash");
    at_ = end + 1;
    return std::string(inside);
  }

  // A string, or the list of fields of a structured type, which is kept as text so that it can be named.
  std::string descr() {
    skip_space();
    if (at_ == text_.size() || text_[at_] != '[') return string();
    const std::size_t start = at_;
    int depth = 0;
    do {
      skip_space();
      if (at_ == text_.size()) bad("']'");
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        string();
        continue;
      }
      depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
      ++at_;
    } while (depth > 0);
    return std::string(text_.substr(start, at_ - start));
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    bad("True or False");
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> n;
    expect('(');
    while (!accept(')')) {
      n.push_back(number());
      if (n.size() > static_cast<std::size_t>(kMaxFileRank)) bad(fmt::format("at most {} dimensions", kMaxFileRank));
      if (accept(',')) continue;
      if (n.size() == 1) bad("',': a tuple of one number has a comma");
      expect(')');
      break;
    }
    return n;
  }

  std::int64_t number() {
    skip_space();
    const std::size_t start = at_;
    std::int64_t n = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text_[at_] - '0', &n)) bad("sizes below 2^63");
    if (at_ == start) bad("a size, 0 or more");
    if (text_[start] == '0' && at_ - start > 1) bad("a size without leading zeros");
    return n;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& where) {
  NpyHeader h = Parser(text, where).dictionary();
  for (const Descr& d : kDescr)
    if (h.descr == d.text) h.dtype = d.dtype, h.swapped = d.swapped;
  if (h.dtype && !checked_bytes(*h.dtype, h.shape)) refuse(where, "shape", text_of(h.shape), "a product below 2^63 bytes");
  return h;
}

std::string npy_type_problem(const NpyHeader& header, const std::string& where) {
  if (header.dtype) return {};
  return fmt::format(
      "{}: descr = {}; expected '<f8', '<f4', '<f2', '|b1', '<i4', '<i8', one of these with '>', or "
      "'<V2' for bf16",
      where, in_quotes(header.descr));
}

std::string npy_preamble(DType dtype, bool fortran, const std::vector<std::int64_t>& shape) {
  const Descr* d = std::find_if(std::begin(kDescr), std::end(kDescr), [&](const Descr& x) { return x.dtype == dtype; });
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", d->text,
                                   fortran ? "True" : "False", text_of(shape));
  // NumPy leaves room for the dimension that grows when a file is appended to: 21 digits are enough for 2^64.
  if (!shape.empty()) header.append(21 - fmt::to_string(fortran ? shape.back() : shape.front()).size(), ' ');
  // The elements start at a multiple of 64, so that the file can be mapped; a header ends with a newline.
  // 64 dimensions of 20 digits stay far below the 65535 bytes that version 1.0 can say.
  constexpr std::size_t kBefore = 6 + 2 + 2;
  header.append(63 - (kBefore + header.size()) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out + header;
}

}  // namespace flashtile::files
