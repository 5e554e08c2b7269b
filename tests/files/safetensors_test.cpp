// .safetensors: files of the format's own library are read; whatever a header may lie about is refused by name.
#include "files/safetensors.h"

#include "files/support.h"

namespace flashtile::files {
namespace {

std::string safetensors(const std::string& json, std::size_t data_bytes) {
  return little(std::uint64_t{json.size()}) + json + std::string(data_bytes, '\1');
}

void expect_header_refused(const std::string& json, std::size_t data_bytes, const std::vector<std::string>& words) {
  expect_bytes_refused(safetensors(json, data_bytes), words, "x.safetensors");
}

const std::string kQ = R"("q":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";

TEST(Safetensors, EveryTypeIsRead) {
  const ArrayFile file = ArrayFile::open(fixture("every_type.safetensors"));
  EXPECT_EQ(file.entries().size(), std::size(kAllTypes));
  for (const DType t : kAllTypes) expect_counting(file.read(name_of(t)), t, {2, 3, 4});
}

TEST(Safetensors, MetadataIsKept) {
  const ArrayFile file = ArrayFile::open(fixture("metadata.safetensors"));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"model", "a \"quoted\" name\nand a second line"}}));
  expect_counting(file.read("q"), DType::f32, {2, 3, 4});
  expect_counting(file.read("empty"), DType::f16, {0, 7});
  expect_counting(file.read("scalar"), DType::i64, {});
}

TEST(Safetensors, TensorsOfOtherTypesAreListedAndRefusedWhenAskedFor) {
  const ArrayFile file = ArrayFile::open(fixture("int8_extra.safetensors"));
  expect_counting(file.read("q"), DType::f32, {2, 3, 4});
  expect_refused([&] { file.read("weight"); }, {"int8_extra.safetensors['weight']: dtype = 'I8'", "BF16"});
}

TEST(Safetensors, ContentDecidesWhenTheNameDoesNot) {
  EXPECT_EQ(read_bytes(safetensors("{" + kQ + "}", 24), "weights.bin").at(0).shape, (std::vector<std::int64_t>{2, 3}));
  expect_bytes_refused(content(fixture("fp32.npy")), {"header length"}, "x.safetensors");
  expect_bytes_refused("GIF89a and more", {"format = unknown", ".npy, .npz or .safetensors"});
  expect_bytes_refused("", {"format = an empty file"});
}

TEST(Safetensors, SpacesMayPadTheHeader) { EXPECT_EQ(read_bytes(safetensors("{" + kQ + "}    ", 24)).size(), 1u); }

TEST(Safetensors, NoTensorsAtAllIsAFile) { EXPECT_TRUE(read_bytes(safetensors("{}", 0), "x.safetensors").empty()); }

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = content(fixture("metadata.safetensors"));
  for (std::size_t n = 0; n < whole.size(); ++n) expect_bytes_refused(whole.substr(0, n), {}, "x.safetensors");
}

TEST(Safetensors, HeaderLengthsThatLieAreRefusedBeforeTheHeaderIsRead) {
  const std::string whole = safetensors("{" + kQ + "}", 24);
  for (const std::uint64_t n :
       {std::uint64_t{0}, std::uint64_t{1}, whole.size() - 7, std::uint64_t{1} << 40, ~std::uint64_t{0}})
    expect_bytes_refused(patched(whole, 0, n), {"header length = " + std::to_string(n)}, "x.safetensors");
}

TEST(Safetensors, RangesOutsideTheDataAreRefused) {
  const auto q = [](const std::string& offsets) {
    return R"({"q":{"dtype":"F32","shape":[2,3],"data_offsets":)" + offsets + "}}";
  };
  expect_header_refused(q("[0,24]"), 23, {"x.safetensors['q']: data_offsets = [0, 24]", "inside the 23 bytes"});
  expect_header_refused(q("[24,0]"), 24, {"begin <= end"});
  expect_header_refused(q("[0,23]"), 24, {"data_offsets = 23 bytes", "24 bytes for F32 of shape (2, 3)"});
  expect_header_refused(q("[9223372036854775784,9223372036854775807]"), 24, {"data_offsets"});
  expect_header_refused(q("[18446744073709551592,18446744073709551615]"), 24, {"below 2^63"});
  expect_header_refused(q("[0]"), 24, {"[begin, end]"});
  expect_header_refused(q("[0,24,24]"), 24, {"[begin, end]"});
  expect_header_refused(q("[-24,0]"), 24, {"-24", "whole numbers from 0"});
}

TEST(Safetensors, HolesAndOverlapsAreRefused) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":)" + a + R"(},"b":{"dtype":"I8","shape":[4],"data_offsets":)" +
           b + "}}";
  };
  EXPECT_EQ(open_bytes(safetensors(two("[4,8]", "[0,4]"), 8)).entries().size(), 2u);
  expect_header_refused(two("[0,4]", "[0,4]"), 8, {"begins at 4"});
  expect_header_refused(two("[0,4]", "[3,7]"), 8, {"begins at 4"});
  expect_header_refused(two("[0,4]", "[5,9]"), 9, {"begins at 4"});
  expect_header_refused(two("[1,5]", "[5,9]"), 9, {"begins at 0"});
  expect_header_refused(two("[0,4]", "[4,8]"), 9, {"data = 9 bytes", "the 8 bytes of its tensors"});
}

TEST(Safetensors, ShapesThatOverflowAreRefused) {
  const auto shaped = [](const std::string& shape) {
    return R"({"q":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,0]}})";
  };
  expect_header_refused(shaped("[4294967296,4294967296]"), 0, {"shape = ", "2^63"});
  expect_header_refused(shaped("[0,9223372036854775807]"), 0, {"shape = ", "2^63"});
  expect_header_refused(shaped("[18446744073709551616]"), 0, {"whole numbers from 0"});
  expect_header_refused(shaped("[1.5]"), 0, {"1.5"});
  expect_header_refused(shaped("[1e3]"), 0, {"1e3"});
  expect_header_refused(shaped("[" + std::string(200, '1').replace(1, 1, ",") + "]"), 0, {"q"});
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect_header_refused(shaped(many + "]"), 4, {"at most 64 numbers"});
}

TEST(Safetensors, DuplicateNamesAndKeysAreRefused) {
  expect_header_refused("{" + kQ + "," + kQ + "}", 24, {"tensor name = 'q' twice"});
  expect_header_refused(R"({"q":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0,
                        {"key = 'dtype' twice"});
  expect_header_refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, {"[__metadata__]: key = 'a' twice"});
  expect_header_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, {"twice"});
}

TEST(Safetensors, MissingAndUnknownKeysAreRefused) {
  expect_header_refused(R"({"q":{}})", 0, {"dtype = missing"});
  expect_header_refused(R"({"q":{"dtype":"F32","shape":[0]}})", 0, {"data_offsets = missing"});
  expect_header_refused(R"({"q":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":1}})", 0, {"key = 'x'"});
}

TEST(Safetensors, DeepJsonIsRefusedAtOnce) {
  const std::string lists(1'000'000, '['), prefix = R"({"q":{"dtype":"F32","shape":)";
  expect_header_refused(prefix + lists, 0, {"'shape' = a list", "whole numbers"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"dtype":)";
  expect_header_refused(R"({"q":)" + objects, 0, {"'dtype' = an object", "a string dtype"});
}

TEST(Safetensors, JsonOfAnotherFormIsRefused) {
  for (const char* json : {"[]",
                           "null",
                           "1",
                           "\"q\"",
                           "{",
                           "{}{}",
                           "{} x",
                           "{\"q\":1}",
                           "{\"q\":null}",
                           "{\"q\":[]}",
                           "{\"q\":\"F32\"}",
                           "{\"q\":true}",
                           "{\"__metadata__\":1}",
                           "{\"__metadata__\":{\"a\":1}}",
                           "{\"__metadata__\":{\"a\":{}}}",
                           "{\"__metadata__\":{\"a\":[]}}",
                           "{\"q\":{\"dtype\":1}}",
                           "{\"q\":{\"dtype\":[]}}",
                           "{\"q\":{\"shape\":\"F32\"}}",
                           "{\"q\":{\"shape\":[[1]]}}",
                           "{\"q\":{\"shape\":[NaN]}}",
                           "{\"q\":{\"shape\":[null]}}",
                           "{\"q\":{\"shape\":[1e999]}}",
                           "{NaN:{}}",
                           "{'q':{}}",
                           "{\"q\":{},}",
                           "{\"\xff\":{}}",
                           "// {}",
                           "{\"q\":{\"shape\":{\"a\":1}}}"})
    expect_header_refused(json, 0, {});
}

TEST(Safetensors, NamesThatCouldReachTheTerminalAreRefused) {
  for (const char* name : {R"(\u001b[2J)", R"(a\nb)", R"(\u0000)", "", R"(\u202e)"})
    expect_header_refused(std::string("{\"") + name + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0,
                          {"tensor name = "});
  EXPECT_EQ(open_bytes(safetensors(R"({"NaN":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0)).entries()[0].name,
            "NaN");
}

}  // namespace
}  // namespace flashtile::files
