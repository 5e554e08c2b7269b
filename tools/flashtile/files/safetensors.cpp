// Reading .safetensors: the header's JSON by events, never as a tree, since a tree would forget duplicate names and
// grow with the file's wishes.
#include "files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "files/container.h"
#include "files/file_error.h"

namespace flashtile::files {
namespace {

using Json = nlohmann::json;

struct Word {
  const char* text;
  DType dtype;
};
// In the order in which the format's own library lays tensors out: wide elements first, so that all are aligned.
constexpr Word kWords[] = {{"I64", DType::i64},   {"F64", DType::f64}, {"F32", DType::f32},     {"I32", DType::i32},
                           {"BF16", DType::bf16}, {"F16", DType::f16}, {"BOOL", DType::boolean}};

constexpr std::string_view kMetadata = "__metadata__";

// Follows the events of the parser. depth_: 0 outside, 1 among the tensors, 2 in a tensor or the metadata, 3 in a list.
class Listener final : public Json::json_sax_t {
 public:
  explicit Listener(const std::string& where) : where_(where) {}
  SafetensorsHeader header;

  bool start_object(std::size_t) override {
    if (depth_ > 1) unexpected("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish_tensor();
    in_metadata_ = false;
    fields_.clear();
    return true;
  }
  bool key(Json::string_t& k) override {
    if (depth_ == 1) {
      if (!names_.insert(k).second) refuse(where_, "tensor name", in_quotes(k) + " twice", "each name once");
      in_metadata_ = k == kMetadata;
      if (in_metadata_) return true;
      if (!is_plain_name(k)) refuse(where_, "tensor name", in_quotes(k), "1 to 4096 bytes without control characters");
      header.tensors.emplace_back().name = k;
      return true;
    }
    field_ = k;
    if (!fields_.insert(k).second) refuse(here(), "key", in_quotes(k) + " twice", "each key once");
    if (!in_metadata_ && k != "dtype" && k != "shape" && k != "data_offsets")
      refuse(here(), "key", in_quotes(k), "dtype, shape or data_offsets");
    return true;
  }
  bool string(Json::string_t& value) override {
    if (depth_ == 2 && in_metadata_) {
      header.metadata.emplace(field_, std::move(value));
    } else if (depth_ == 2 && field_ == "dtype") {
      tensor().dtype_word = std::move(value);
      for (const Word& w : kWords)
        if (tensor().dtype_word == w.text) tensor().dtype = w.dtype;
    } else {
      unexpected("a string");
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || field_ == "dtype") unexpected("a list");
    ++depth_;
    numbers_.clear();
    return true;
  }
  bool number_unsigned(Json::number_unsigned_t n) override {
    if (depth_ != 3) unexpected("a number");
    if (n > static_cast<std::uint64_t>(INT64_MAX)) refuse(here(), field_, fmt::to_string(n), "numbers below 2^63");
    if (numbers_.size() == static_cast<std::size_t>(kMaxFileRank))
      refuse(here(), field_, "a longer list", fmt::format("at most {} numbers", kMaxFileRank));
    numbers_.push_back(static_cast<std::int64_t>(n));
    return true;
  }
  bool end_array() override {
    --depth_;
    if (field_ == "shape") {
      tensor().shape = numbers_;
    } else {
      if (numbers_.size() != 2 || numbers_[0] > numbers_[1])
        refuse(here(), "data_offsets", text_of(numbers_), "[begin, end] with begin <= end");
      tensor().begin = static_cast<std::uint64_t>(numbers_[0]), tensor().end = static_cast<std::uint64_t>(numbers_[1]);
    }
    return true;
  }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(Json::number_integer_t n) override { unexpected(fmt::to_string(n)); }
  bool number_float(Json::number_float_t, const Json::string_t& text) override { unexpected(in_quotes(text)); }
  bool binary(Json::binary_t&) override { unexpected("binary data"); }
  bool parse_error(std::size_t at, const std::string& token, const Json::exception&) override {
    refuse(where_, fmt::format("header at byte {}", at), in_quotes(token), "JSON in UTF-8");
  }

 private:
  SafetensorsEntry& tensor() { return header.tensors.back(); }
  std::string here() const {
    const bool inside = depth_ > 0 && !in_metadata_ && !header.tensors.empty();
    if (depth_ > 0 && in_metadata_) return where_ + "[__metadata__]";
    return inside ? fmt::format("{}[{}]", where_, in_quotes(header.tensors.back().name)) : where_;
  }
  [[noreturn]] void unexpected(std::string_view what) const {
    static constexpr const char* kAllowed[] = {"an object", "an object", "a string dtype, lists of whole numbers",
                                               "whole numbers from 0"};
    refuse(here(), depth_ < 2 ? "header" : in_quotes(field_), what,
           depth_ == 2 && in_metadata_ ? "a string" : kAllowed[depth_]);
  }
  void finish_tensor() {
    for (const char* needed : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(needed)) refuse(here(), needed, "missing", "dtype, shape and data_offsets");
    const SafetensorsEntry& t = tensor();
    if (!t.dtype) return;
    const auto bytes = checked_bytes(*t.dtype, t.shape);
    if (!bytes) refuse(here(), "shape", text_of(t.shape), "a product below 2^63 bytes");
    if (static_cast<std::uint64_t>(*bytes) != t.end - t.begin)
      refuse(here(), "data_offsets", fmt::format("{} bytes", t.end - t.begin),
             fmt::format("{} bytes for {} of shape {}", *bytes, t.dtype_word, text_of(t.shape)));
  }

  const std::string& where_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string field_;
  std::set<std::string, std::less<>> names_, fields_;
  std::vector<std::int64_t> numbers_;
};

void check_ranges(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_size, const std::string& where) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(tensors[a].begin, tensors[a].end) < std::pair(tensors[b].begin, tensors[b].end);
  });
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    const SafetensorsEntry& t = tensors[i];
    const std::string here = fmt::format("{}[{}]", where, in_quotes(t.name));
    if (t.begin != at)
      refuse(here, "data_offsets", fmt::format("[{}, {}]", t.begin, t.end),
             fmt::format("a range that begins at {}, where the one before ends", at));
    if (t.end > data_size)
      refuse(here, "data_offsets", fmt::format("[{}, {}]", t.begin, t.end),
             fmt::format("a range inside the {} bytes of data", data_size));
    at = t.end;
  }
  if (at != data_size)
    refuse(where, "data", fmt::format("{} bytes", data_size), fmt::format("the {} bytes of its tensors", at));
}

class SafetensorsFile final : public Container {
 public:
  explicit SafetensorsFile(Source source) : source_(std::move(source)) {
    std::uint64_t length = 0;
    source_.read(0, &length, sizeof length, "header length");
    const std::uint64_t most = std::min(kLongestSafetensorsHeader, source_.size() - sizeof length);
    if (length < 2 || length > most)
      refuse(source_.where(), "header length", fmt::to_string(length), fmt::format("2 to {}", most));
    std::string json(length, '\0');
    source_.read(sizeof length, json.data(), length, "header");
    if (json.front() != '{') refuse(source_.where(), "header", in_quotes(json.substr(0, 16)), "a JSON object");
    data_ = sizeof length + length;
    header_ = parse_safetensors_header(json, source_.size() - data_, source_.where());
    for (const SafetensorsEntry& t : header_.tensors) {
      Entry& e = entries_.emplace_back(Entry{t.name, t.dtype ? name_of(*t.dtype) : t.dtype_word, t.shape, {}});
      if (!t.dtype)
        e.problem =
            fmt::format("{}: dtype = {}; expected F64, F32, F16, BF16, BOOL, I32 or I64", where(t), in_quotes(t.dtype_word));
    }
  }
  const char* format() const noexcept override { return ".safetensors"; }
  const std::vector<Entry>& entries() const noexcept override { return entries_; }
  const std::map<std::string, std::string>& metadata() const noexcept override { return header_.metadata; }
  Array read(std::size_t i) const override {
    const SafetensorsEntry& t = header_.tensors[i];
    Array a = unset_array(t.name, *t.dtype, t.shape, where(t));
    source_.read(data_ + t.begin, a.bytes.data(), a.bytes.size(), "data");
    return a;
  }

 private:
  std::string where(const SafetensorsEntry& t) const { return fmt::format("{}[{}]", source_.where(), in_quotes(t.name)); }

  Source source_;
  std::uint64_t data_ = 0;  // offset of the data
  SafetensorsHeader header_;
  std::vector<Entry> entries_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_size, const std::string& where) {
  Listener listener(where);
  Json::sax_parse(json.begin(), json.end(), &listener);
  check_ranges(listener.header.tensors, data_size, where);
  return std::move(listener.header);
}

int safetensors_rank(DType t) noexcept {
  return static_cast<int>(std::find_if(std::begin(kWords), std::end(kWords), [t](const Word& w) { return w.dtype == t; }) -
                          std::begin(kWords));
}

const char* safetensors_word(DType t) noexcept { return kWords[safetensors_rank(t)].text; }

std::unique_ptr<const Container> open_safetensors(Source source) {
  return std::make_unique<SafetensorsFile>(std::move(source));
}

}  // namespace flashtile::files
