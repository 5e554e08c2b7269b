// Writing: what is written is read back, byte for byte as the formats' own libraries write it where the format leaves
// no choice, and a failure leaves the old file as it was.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "files/support.h"
#include "files/whole_file.h"

namespace flashtile::files {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {{},        {0},       {1},          {7},
                                                        {2, 3, 4}, {3, 0, 2}, {1, 5, 1, 2}, {2, 1, 2, 1, 3}};

std::vector<Array> every_type_and_shape() {
  std::vector<Array> arrays;
  for (const DType t : kAllTypes)
    for (const auto& shape : kShapes)
      arrays.push_back(counting(std::string(name_of(t)) + "/" + std::to_string(arrays.size()), t, shape));
  return arrays;
}

Array fortran(Array a) {  // the same bytes, the other way round
  a.stride = fortran_strides(a.shape);
  return a;
}

std::span<const Array> one(const Array& a) { return {&a, 1}; }

void expect_same(const Array& a, const Array& b) {
  EXPECT_EQ(a.dtype, b.dtype);
  ASSERT_EQ(a.shape, b.shape);
  for (std::int64_t i = 0; i < a.elements(); ++i) ASSERT_EQ(value(a, i), value(b, i)) << a.name << " " << i;
}

TEST(Write, EveryTypeAndShapeComesBackFromNpz) {
  const Folder folder;
  const std::vector<Array> arrays = every_type_and_shape();
  for (const bool compress : {false, true}) {
    write_arrays(folder / "a.npz", arrays, {.compress = compress});
    const std::vector<Array> back = read_arrays(folder / "a.npz");
    ASSERT_EQ(back.size(), arrays.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ(back[i].name, arrays[i].name);
      expect_same(back[i], arrays[i]);
    }
  }
}

TEST(Write, EveryTypeAndShapeComesBackFromSafetensors) {
  const Folder folder;
  const std::vector<Array> arrays = every_type_and_shape();
  write_arrays(folder / "a.safetensors", arrays, {.metadata = {{"a", "b\n\xc3\xa9"}, {"c", ""}}});
  const ArrayFile back = ArrayFile::open(folder / "a.safetensors");
  EXPECT_EQ(back.metadata(), (std::map<std::string, std::string>{{"a", "b\n\xc3\xa9"}, {"c", ""}}));
  ASSERT_EQ(back.entries().size(), arrays.size());
  for (const Array& a : arrays) expect_same(back.read(a.name), a);
}

TEST(Write, EveryTypeAndShapeComesBackFromNpy) {
  const Folder folder;
  for (const Array& a : every_type_and_shape()) {
    write_arrays(folder / "a.npy", one(a));
    const std::vector<Array> back = read_arrays(folder / "a.npy");
    EXPECT_EQ(back.at(0).name, "a");
    expect_same(back.at(0), a);
  }
}

TEST(Write, NpyFilesAreByteForByteNumPys) {
  const Folder folder;
  for (const DType t : kAllTypes) {
    write_arrays(folder / "a.npy", one(counting("a", t, {2, 3, 4})));
    EXPECT_EQ(content(folder / "a.npy"), content(fixture(std::string(name_of(t)) + ".npy")));
  }
  for (const char* name : {"fp32_fortran.npy", "fp32_scalar.npy", "fp32_empty.npy"}) {
    write_arrays(folder / "a.npy", read_arrays(fixture(name)));
    EXPECT_EQ(content(folder / "a.npy"), content(fixture(name))) << name;
  }
}

TEST(Write, SafetensorsFilesAreByteForByteTheFormatsLibrarys) {
  const Folder folder;
  for (const char* name : {"every_type.safetensors", "metadata.safetensors"}) {
    write_arrays(folder / "a.safetensors", read_arrays(fixture(name)),
                 {.metadata = ArrayFile::open(fixture(name)).metadata()});
    EXPECT_EQ(content(folder / "a.safetensors"), content(fixture(name))) << name;
  }
}

TEST(Write, StridesOfAnyKindAreWrittenByValue) {
  const Folder folder;
  Array padded = counting("padded", DType::i32, {4, 5});
  padded.shape = {2, 3}, padded.stride = {10, 1};  // every second row, its first three elements
  Array repeated = counting("repeated", DType::f16, {3});
  repeated.shape = {2, 3}, repeated.stride = {0, 1};
  std::vector<Array> arrays;
  arrays.push_back(std::move(padded)), arrays.push_back(std::move(repeated));
  arrays.push_back(fortran(counting("fortran", DType::f64, {2, 3, 4})));
  for (const char* name : {"a.npz", "a.safetensors"}) {
    write_arrays(folder / name, arrays);
    const ArrayFile back = ArrayFile::open(folder / name);
    for (const Array& a : arrays) expect_same(back.read(a.name), a);
    EXPECT_EQ(is_c_order(back.read("fortran")), std::string(name) == "a.safetensors");
  }
}

TEST(Write, BigArraysPassEveryBuffer) {
  const Folder folder;
  std::vector<Array> arrays;
  arrays.push_back(make_array("a", DType::i32, {1'000'003}));
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < arrays[0].elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t x = i % 3 == 0 ? state : 0;  // neither incompressible nor trivial
    std::memcpy(arrays[0].bytes.data() + 4 * i, &x, 4);
  }
  write_arrays(folder / "a.npz", arrays, {.compress = true});
  EXPECT_LT(std::filesystem::file_size(folder / "a.npz"), 3'500'000u);
  const Array back = std::move(read_arrays(folder / "a.npz").at(0));
  EXPECT_EQ(std::memcmp(back.bytes.data(), arrays[0].bytes.data(), back.bytes.size()), 0);
}

TEST(Write, TheSameArraysGiveTheSameBytes) {
  const Folder folder;
  write_arrays(folder / "a.npz", every_type_and_shape(), {.compress = true});
  write_arrays(folder / "b.npz", every_type_and_shape(), {.compress = true});
  EXPECT_EQ(content(folder / "a.npz"), content(folder / "b.npz"));
}

TEST(Write, WhatCannotBeWrittenIsRefusedAndTheOldFileStays) {
  const Folder folder;
  std::vector<Array> two;
  two.push_back(counting("a", DType::f32, {3})), two.push_back(counting("a", DType::f32, {3}));
  Array outside = counting("a", DType::f32, {3});
  outside.stride = {2};
  for (const char* name : {"a.npy", "a.npz", "a.safetensors"}) {
    std::ofstream(folder / name) << "old";
    expect_refused([&] { write_arrays(folder / name, two); }, {name});
    expect_refused([&] { write_arrays(folder / name, one(outside)); }, {"strides that stay inside its bytes"});
    EXPECT_EQ(content(folder / name), "old");
  }
  expect_refused([&] { write_arrays(folder / "a.npy", {}); }, {"arrays = 0", "1 in an .npy file"});
  expect_refused([&] { write_arrays(folder / "a.txt", one(two[0])); }, {"extension = '.txt'", ".npy, .npz"});
  expect_refused([&] { write_arrays(folder / "a.npz", one(two[0]), {.metadata = {{"a", "b"}}}); }, {"metadata"});
  expect_refused([&] { write_arrays(folder / "a.npy", one(two[0]), {.compress = true}); }, {"compress"});
  expect_refused([&] { write_arrays(folder / "a.npz", one(counting("../a", DType::f32, {3}))); }, {"array name = '../a'"});
  expect_refused([&] { write_arrays(folder / "a.safetensors", one(counting("__metadata__", DType::f32, {3}))); },
                 {"array name"});
  expect_refused([&] { write_arrays(folder / "a.safetensors", one(two[0]), {.metadata = {{"a", "\xff"}}}); }, {"UTF-8"});
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.npy", "a.npz", "a.safetensors"}));
}

TEST(Write, ADiskThatFillsUpLeavesTheOldFileAndNothingElse) {
  const Folder folder;
  const std::vector<std::string> names = {"a.npy", "a.npz", "a.safetensors"};
  for (const std::string& name : names) std::ofstream(folder / name) << "old";
  const Array big = counting("a", DType::f32, {10'000});
  rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 10'000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const std::string& name : names)
    expect_refused([&] { write_arrays(folder / name, one(big)); }, {name, "cannot be written"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  for (const std::string& name : names) EXPECT_EQ(content(folder / name), "old");
  EXPECT_EQ(folder.names(), names);
}

TEST(Write, ThePathsThatCannotBeReplacedWholeAreRefused) {
  const Folder folder;
  const Array a = counting("a", DType::f32, {3});
  expect_refused([&] { write_arrays(folder / "missing/a.npy", one(a)); }, {"missing/a.npy", "cannot be written"});
  std::filesystem::create_directory(folder / "d.npy");
  expect_refused([&] { write_arrays(folder / "d.npy", one(a)); }, {"output = a directory"});
  ASSERT_EQ(::mkfifo((folder / "p.npy").c_str(), 0600), 0);
  expect_refused([&] { write_arrays(folder / "p.npy", one(a)); }, {"output = a device, pipe or socket"});
}

TEST(Write, AnExistingFileKeepsItsPermissionsAndALinkStaysALink) {
  const Folder folder;
  const Array a = counting("a", DType::f32, {3});
  std::ofstream(folder / "a.npy") << "old";
  std::filesystem::permissions(folder / "a.npy", std::filesystem::perms(0640));
  std::filesystem::create_symlink(folder / "a.npy", folder / "link.npy");
  write_arrays(folder / "link.npy", one(a));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.npy"));
  EXPECT_EQ(std::filesystem::status(folder / "a.npy").permissions(), std::filesystem::perms(0640));
  expect_counting(read_arrays(folder / "a.npy").at(0), DType::f32, {3});
}

TEST(Write, AFileThatIsNotCommittedNeverAppears) {
  const Folder folder;
  {
    WholeFile out(folder / "a");
    out.write("x", 1);
    EXPECT_EQ(folder.names().size(), 1u);
    EXPECT_NE(folder.names()[0], "a");
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Read, WhatIsNoRegularFileIsRefused) {
  const Folder folder;
  expect_refused([&] { read_arrays(folder / "missing.npy"); }, {"missing.npy", "cannot be opened"});
  expect_refused([&] { read_arrays(folder / "."); }, {"kind = a directory"});
  ASSERT_EQ(::mkfifo((folder / "p.npy").c_str(), 0600), 0);
  expect_refused([&] { read_arrays(folder / "p.npy"); }, {"kind = a device, pipe or socket"});
}

TEST(Read, MoreThanFourDimensionsHaveNoView) {
  const Array a = counting("a", DType::f32, {1, 1, 1, 1, 1});
  expect_refused([&] { (void)a.view(); }, {"'a'", "rank = 5", "at most 4"});
  Array four = counting("b", DType::f32, {2, 1, 3, 4});
  EXPECT_EQ(four.view().data, four.bytes.data());
  EXPECT_EQ(four.view().stride[0], 12);
}

TEST(Read, ShapesThatCannotBeAreRefusedWhenAnArrayIsMade) {
  expect_refused([] { make_array("a", DType::f32, {-1}); }, {"'a': shape = (-1,)"});
  expect_refused([] { make_array("a", DType::f64, {std::int64_t{1} << 60, 2}); }, {"2^63"});
}

}  // namespace
}  // namespace flashtile::files
