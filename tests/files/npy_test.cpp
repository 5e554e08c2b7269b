// .npy: files of NumPy's own hand are read; whatever a header may lie about is refused by name.
#include "files/npy.h"

#include "files/file_error.h"
#include "files/support.h"

namespace flashtile::files {
namespace {

const std::vector<std::int64_t> kShape = {2, 3, 4};

Array only(const std::string& name) {
  std::vector<Array> arrays = read_arrays(fixture(name));
  EXPECT_EQ(arrays.size(), 1u);
  return std::move(arrays.at(0));
}

// A version 1.0 file: this dictionary, these elements.
std::string npy(const std::string& dictionary, std::size_t data_bytes) {
  const std::string header = dictionary + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + little(static_cast<std::uint16_t>(header.size())) + header +
         std::string(data_bytes, '\1');
}

std::string dictionary(const std::string& shape, const std::string& descr = "'<f4'") {
  return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }";
}

TEST(Npy, EveryTypeIsReadAsNumPyWroteIt) {
  for (const DType t : kAllTypes) {
    const Array a = only(std::string(name_of(t)) + ".npy");
    EXPECT_EQ(a.name, name_of(t));
    expect_counting(a, t, kShape);
  }
}

TEST(Npy, BigEndianElementsAreSwapped) {
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::i32, DType::i64})
    expect_counting(only(std::string(name_of(t)) + "_big_endian.npy"), t, kShape);
}

TEST(Npy, FortranOrderBecomesStrides) {
  const Array a = only("fp32_fortran.npy");
  expect_counting(a, DType::f32, kShape);
  EXPECT_EQ(a.stride, (std::vector<std::int64_t>{1, 2, 6}));
}

TEST(Npy, VersionsTwoAndThreeAreRead) {
  expect_counting(only("fp32_version_2.npy"), DType::f32, kShape);
  expect_counting(only("fp32_version_3.npy"), DType::f32, kShape);
}

TEST(Npy, ASingleNumberHasNoDimensionAndIsSeenAsOneElement) {
  const Array a = only("fp32_scalar.npy");
  expect_counting(a, DType::f32, {});
  EXPECT_EQ(a.elements(), 1);
  const ConstTensor t = a.view();
  EXPECT_EQ(t.rank, 1);
  EXPECT_EQ(t.shape[0], 1);
}

TEST(Npy, AnEmptyArrayKeepsItsShape) { expect_counting(only("fp32_empty.npy"), DType::f32, {3, 0, 2}); }

TEST(Npy, TwoBytesWithoutMeaningAreBf16) {
  for (const char* descr : {"'<V2'", "'|V2'", "'bfloat16'"})
    EXPECT_EQ(read_bytes(npy(dictionary("(3,)", descr), 6)).at(0).dtype, DType::bf16) << descr;
}

TEST(Npy, ElementsStartAtACacheLine) {
  const Array a = only("fp32.npy");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.bytes.data()) % 64, 0u);
}

TEST(Npy, OtherTypesAreListedAndRefusedByName) {
  const ArrayFile file = ArrayFile::open(fixture("uint8.npy"));
  EXPECT_EQ(file.entries()[0].dtype, "|u1");
  EXPECT_EQ(file.entries()[0].shape, std::vector<std::int64_t>{3});
  expect_refused([&] { file.read("uint8"); }, {"uint8.npy", "descr = '|u1'", "'<f8'"});
  expect_refused([] { read_arrays(fixture("structured.npy")); }, {"descr = '[('a', '<f4')"});
  expect_bytes_refused(npy(dictionary("(3,)", "'=f4'"), 12), {"descr = '=f4'"});
  expect_bytes_refused(npy(dictionary("(1,)", "'|O'"), 8), {"descr = '|O'"});
}

TEST(Npy, KeysMayStandInAnyOrderAndInDoubleQuotes) {
  const auto arrays = read_bytes(npy(R"({"shape":(2,3),"fortran_order":True,"descr":"<f4"})", 24));
  EXPECT_EQ(arrays.at(0).stride, (std::vector<std::int64_t>{1, 2}));
}

TEST(Npy, EveryTruncationIsRefused) {
  const std::string whole = content(fixture("fp32.npy"));
  for (std::size_t n = 0; n < whole.size(); ++n) expect_bytes_refused(whole.substr(0, n), {"bytes"}, "bytes");
}

TEST(Npy, BytesAfterTheElementsAreRefused) {
  expect_bytes_refused(content(fixture("fp32.npy")) + "x", {"data = 97 bytes", "96 bytes for fp32 of shape (2, 3, 4)"});
}

TEST(Npy, UnknownVersionsAreRefused) {
  for (const char* v : {"\x04", "\x00"})
    expect_bytes_refused(content(fixture("fp32.npy")).replace(6, 1, v, 1), {"version", "1.0, 2.0 or 3.0"});
  expect_bytes_refused(content(fixture("fp32.npy")).replace(7, 1, "\x01", 1), {"version = 1.1"});
}

TEST(Npy, AHeaderLongerThanTheFileIsRefusedBeforeItIsRead) {
  const std::string v2 = content(fixture("fp32_version_2.npy"));
  expect_bytes_refused(patched(v2, 8, 0xffffffffu), {"header length = 4294967295", "at most 212"});
  expect_bytes_refused(patched(v2, 8, std::uint32_t{1000}), {"header length = 1000"});
}

TEST(Npy, ShapesThatOverflowAreRefused) {
  for (const char* shape : {"(9223372036854775807,)", "(4611686018427387904, 2)", "(4294967296, 4294967296)",
                            "(0, 9223372036854775807)", "(2305843009213693952,)"})
    expect_bytes_refused(npy(dictionary(shape), 16), {"shape = ", "2^63"});
  expect_bytes_refused(npy(dictionary("(9223372036854775808,)"), 16), {"sizes below 2^63"});
  expect_bytes_refused(npy(dictionary("(99999999999999999999999999,)"), 16), {"sizes below 2^63"});
}

TEST(Npy, AHugeShapeIsRefusedByTheSizeOfTheFile) {
  expect_bytes_refused(npy(dictionary("(1000000000000, 3)"), 16), {"data = 16 bytes", "12000000000000 bytes"});
}

TEST(Npy, MoreThan64DimensionsAreRefused) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1, ";
  expect_bytes_refused(npy(dictionary(shape + ")"), 4), {"at most 64 dimensions"});
}

TEST(Npy, ADictionaryThatPythonWouldHaveToEvaluateIsRefused) {
  for (const char* bad : {"",
                          "{",
                          "}",
                          "{}",
                          "{'descr'}",
                          "{'descr': }",
                          "{'descr': '<f4', 'fortran_order': False}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
                          "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (03,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (nan,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (1+2,)}",
                          "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + 1",
                          "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (3,)}",
                          "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
                          "{'descr': [[[[['<f4', 'fortran_order': False, 'shape': (3,)}",
                          "{'descr' '<f4', 'fortran_order': False, 'shape': (3,)}",
                          "__import__('os')"})
    expect_bytes_refused(npy(bad, 12), {"header"});
}

TEST(Npy, AHostileTypeNeitherBreaksTheLineNorReachesTheTerminal) {
  expect_bytes_refused(npy(dictionary("(3,)", "'\x1b[2J\r\n\x80\xe2\x80\xae" + std::string(5000, 'A') + "'"), 12),
                       {"descr = '\\x1b[2J\\x0d\\x0a\\x80\\xe2\\x80\\xae", "..."});
}

}  // namespace
}  // namespace flashtile::files
