// What the tests of the file formats share: fixtures, bytes to spoil, and the two claims that are made most often.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "files/array_file.h"
#include "problem/number.h"

namespace flashtile::files {

inline constexpr DType kAllTypes[] = {DType::f64,     DType::f32, DType::f16, DType::bf16,
                                      DType::boolean, DType::i32, DType::i64};

inline std::string fixture(const std::string& name) { return FLASHTILE_TEST_DATA "/files/" + name; }

inline std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline ArrayFile open_bytes(const std::string& bytes, const std::string& name = "bytes") {
  const auto* p = reinterpret_cast<const std::byte*>(bytes.data());
  return ArrayFile::from_bytes(name, {p, p + bytes.size()});
}

/// Reads everything; what `read_arrays` does, from memory.
inline std::vector<Array> read_bytes(const std::string& bytes, const std::string& name = "bytes") {
  const ArrayFile file = open_bytes(bytes, name);
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < file.entries().size(); ++i) arrays.push_back(file.read(i));
  return arrays;
}

/// The bytes with the n-th occurrence of `from` replaced; it must be there.
inline std::string replaced(std::string bytes, const std::string& from, const std::string& to, int n = 0) {
  std::size_t at = bytes.find(from);
  for (; n > 0 && at != std::string::npos; --n) at = bytes.find(from, at + 1);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) bytes.replace(at, from.size(), to);
  return bytes;
}

template <class T>
std::string little(T x) {
  return {reinterpret_cast<const char*>(&x), sizeof x};
}

/// The bytes with a number written over them.
template <class T>
std::string patched(std::string bytes, std::size_t at, T x) {
  EXPECT_LE(at + sizeof x, bytes.size());
  std::memcpy(bytes.data() + at, &x, sizeof x);
  return bytes;
}

/// Element `flat` (counted in C order) as a number.
inline double value(const Array& a, std::int64_t flat) {
  std::int64_t at = 0;
  for (std::size_t i = a.shape.size(); i-- > 0;) at += flat % a.shape[i] * a.stride[i], flat /= a.shape[i];
  return element(a.bytes.data(), a.dtype, at);
}

/// What make_fixtures.py puts into every array.
inline void expect_counting(const Array& a, DType dtype, const std::vector<std::int64_t>& shape) {
  EXPECT_EQ(a.dtype, dtype) << a.name;
  ASSERT_EQ(a.shape, shape) << a.name;
  ASSERT_TRUE(is_sound(a)) << a.name;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    ASSERT_EQ(value(a, i), dtype == DType::boolean ? static_cast<double>(i % 2) : static_cast<double>(i - 5)) << i;
}

inline Array counting(std::string name, DType dtype, std::vector<std::int64_t> shape) {
  Array a = make_array(std::move(name), dtype, std::move(shape));
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    std::byte* to = a.bytes.data() + i * size_of(dtype);
    const auto put = [to](auto x) { std::memcpy(to, &x, sizeof x); };
    const float x = static_cast<float>(i - 5);
    if (dtype == DType::f64) put(static_cast<double>(x));
    if (dtype == DType::f32) put(x);
    if (dtype == DType::f16) put(to_f16(x));
    if (dtype == DType::bf16) put(to_bf16(x));
    if (dtype == DType::boolean) put(static_cast<std::uint8_t>(i % 2));
    if (dtype == DType::i32) put(static_cast<std::int32_t>(i - 5));
    if (dtype == DType::i64) put(i - 5);
  }
  return a;
}

/// The call throws a FileError of one printable line that contains each of the words.
template <class F>
void expect_refused(F&& call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const FileError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(is_utf8(text) && std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < 32; })) << text;
    EXPECT_LT(text.size(), 1000u) << text;
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << "\n  in: " << text;
    return;
  }
  ADD_FAILURE() << "was accepted; expected a FileError with " << (words.empty() ? "any text" : words[0]);
}

inline void expect_bytes_refused(const std::string& bytes, const std::vector<std::string>& words,
                                 const std::string& name = "bytes") {
  expect_refused([&] { read_bytes(bytes, name); }, words);
}

/// A new folder, gone at the end of the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "flashtile-files-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;  // a test has reported what went wrong
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& e : std::filesystem::directory_iterator(path_)) found.push_back(e.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::string path_;
};

}  // namespace flashtile::files
