// .npz: zip files of NumPy's and Python's hand are read; a zip file that has two readings, or says what is not so, is
// not.
#include "files/support.h"
#include "files/whole_file.h"
#include "files/zip_reader.h"
#include "files/zip_writer.h"

namespace flashtile::files {
namespace {

const std::string kLocal = "PK\3\4", kRecord = "PK\1\2", kEnd = "PK\5\6";

void expect_the_five(const std::vector<Array>& arrays) {
  ASSERT_EQ(arrays.size(), 5u);
  EXPECT_EQ(arrays[0].name, "q");
  expect_counting(arrays[0], DType::f32, {2, 3, 4});
  expect_counting(arrays[1], DType::f64, {5, 6});
  EXPECT_EQ(arrays[1].stride, (std::vector<std::int64_t>{1, 5}));
  expect_counting(arrays[2], DType::f16, {0, 7});
  expect_counting(arrays[3], DType::i64, {});
  expect_counting(arrays[4], DType::boolean, {3, 3});
  EXPECT_EQ(arrays[4].name, "mask");
}

// A zip file with these entries.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries, bool compress = false,
                   std::uint64_t wide_from = zip::kElsewhere32) {
  const Folder folder;
  WholeFile out(folder / "z.npz");
  ZipWriter writer(out, compress, wide_from);
  for (const auto& [name, data] : entries) {
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(data))};
    writer.add(name, parts);
  }
  writer.finish();
  out.commit();
  return content(folder / "z.npz");
}

std::string one_entry(bool compress = false) { return zip_of({{"q.npy", content(fixture("fp32.npy"))}}, compress); }

std::string zeros_npy(std::size_t n) {
  const std::string shape = "(" + std::to_string(n) + ",)";
  std::string header = "{'descr': '|b1', 'fortran_order': False, 'shape': " + shape + "}";
  return std::string("\x93NUMPY\x01\x00", 8) + little(static_cast<std::uint16_t>(header.size())) + header +
         std::string(n, '\0');
}

TEST(Npz, StoredAndDeflatedFilesOfNumPyAreRead) {
  expect_the_five(read_arrays(fixture("stored.npz")));
  expect_the_five(read_arrays(fixture("deflated.npz")));
}

TEST(Npz, SizesThatFollowTheDataAreRead) {
  expect_counting(read_arrays(fixture("streamed.npz")).at(0), DType::f32, {2, 3, 4});
}

TEST(Npz, Zip64StructuresAreRead) {
  const std::string f = content(fixture("fp32.npy"));
  for (const bool compress : {false, true})
    for (const std::uint64_t wide_from : {0u, 100u, 300u}) {
      const auto arrays = read_bytes(zip_of({{"q.npy", f}, {"k.npy", f}}, compress, wide_from));
      ASSERT_EQ(arrays.size(), 2u);
      expect_counting(arrays[1], DType::f32, {2, 3, 4});
    }
}

TEST(Npz, ArraysOfOtherTypesDoNotSpoilTheFile) {
  const ArrayFile file = ArrayFile::open(fixture("mixed.npz"));
  ASSERT_EQ(file.entries().size(), 3u);
  expect_counting(file.read("q"), DType::f32, {2, 3, 4});
  expect_refused([&] { file.read("text"); }, {"mixed.npz['text.npy']", "descr = '<U2'"});
  expect_refused([&] { file.read("bytes"); }, {"descr = '|u1'"});
  expect_refused([] { read_arrays(fixture("mixed.npz")); }, {"descr = "});
}

TEST(Npz, ForeignEntriesAreListedAndRefusedByName) {
  const ArrayFile file = ArrayFile::open(fixture("foreign.npz"));
  expect_counting(file.read("q"), DType::f32, {2, 3, 4});
  expect_refused([&] { file.read("k"); }, {"compression method = 12"});
  expect_refused([&] { file.read("readme.txt"); }, {"entry name = 'readme.txt'", "NAME.npy"});
}

TEST(Npz, AMissingNameIsAnsweredWithTheNamesThatThereAre) {
  const ArrayFile file = ArrayFile::open(fixture("stored.npz"));
  expect_refused([&] { file.read("v"); }, {"stored.npz", "array = 'v'", "'q', 'k', 'empty'"});
}

TEST(Npz, AnEmptyZipFileHasNoArrays) { EXPECT_TRUE(read_bytes(zip_of({})).empty()); }

TEST(Npz, EveryTruncationIsRefused) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string whole = content(fixture(name));
    for (std::size_t n = 0; n < whole.size(); ++n) expect_bytes_refused(whole.substr(0, n), {});
  }
}

TEST(Npz, DamagedDataIsFoundByItsCrc) {
  const std::string z = one_entry();
  expect_bytes_refused(patched(z, z.find("NUMPY") + 200, 'x'), {"CRC-32", "as the file says"});
}

TEST(Npz, ADamagedDeflateStreamIsRefused) {
  const std::string z = one_entry(true);
  expect_bytes_refused(patched(z, 35, std::uint64_t{0xffffffffffffffff}), {"deflated data = damaged"});
}

TEST(Npz, LocalHeadersMustRepeatTheDirectory) {
  const std::string z = one_entry();
  expect_bytes_refused(replaced(z, "q.npy", "p.npy"), {"local name = 'p.npy'"});
  expect_bytes_refused(patched(z, 8, std::uint16_t{8}), {"local method and flags"});
  expect_bytes_refused(patched(z, 14, 0xdeadbeefu), {"local sizes and CRC-32"});
  expect_bytes_refused(patched(z, 22, 1u), {"local sizes and CRC-32"});
}

TEST(Npz, DirectoriesThatPointOutsideTheFileAreRefused) {
  const std::string z = one_entry();
  const std::size_t record = z.find(kRecord), end = z.rfind(kEnd);
  expect_bytes_refused(patched(z, record + 42, 0x7fffffffu), {"local header", "inside the file"});
  expect_bytes_refused(patched(z, record + 42, 0xffffffffu), {"zip64 extra field"});
  expect_bytes_refused(patched(z, record + 20, 0x7fffffffu), {"data", "before the central directory"});
  expect_bytes_refused(patched(z, record + 28, std::uint16_t{0xffff}), {"cut off"});
  expect_bytes_refused(patched(z, end + 16, 0x7fffffffu), {"central directory"});
  expect_bytes_refused(patched(z, end + 12, 0x7fffffffu), {"central directory"});
  expect_bytes_refused(patched(patched(z, end + 8, std::uint16_t{2}), end + 10, std::uint16_t{2}), {"entries = 2"});
  expect_bytes_refused(patched(z, end + 10, std::uint16_t{2}), {"disks"});
  expect_bytes_refused(patched(z, end + 16, 0xffffffffu), {"zip64"});
}

TEST(Npz, Zip64RecordsThatLieAreRefused) {
  const std::string z = zip_of({{"q.npy", content(fixture("fp32.npy"))}}, false, 0);
  const std::size_t end64 = z.find("PK\6\6"), locator = z.find("PK\6\7");
  expect_bytes_refused(patched(z, locator + 8, std::uint64_t{1} << 62), {"zip64 end record"});
  expect_bytes_refused(patched(z, locator + 8, ~std::uint64_t{0}), {"zip64 end record"});
  expect_bytes_refused(patched(z, end64 + 48, ~std::uint64_t{0}), {"central directory"});
  expect_bytes_refused(patched(patched(z, end64 + 24, ~std::uint64_t{0}), end64 + 32, ~std::uint64_t{0}), {"entries"});
  expect_bytes_refused(patched(z, z.find(kRecord) + 46 + 5 + 4, ~std::uint64_t{0}), {"local sizes"});
}

TEST(Npz, AnythingBeforeOrBehindTheArchiveIsRefused) {
  const std::string z = one_entry();
  expect_bytes_refused(z + "x", {"end of central directory"});
  expect_bytes_refused(z.substr(0, z.find(kRecord)) + "x" + z.substr(z.find(kRecord)), {"central directory"});
}

TEST(Npz, EncryptedEntriesAreRefused) {
  const std::string z = one_entry();
  const std::string flagged = patched(patched(z, 6, std::uint16_t{1}), z.find(kRecord) + 8, std::uint16_t{1});
  expect_bytes_refused(flagged, {"flags = 0x0001", "no encryption"});
}

TEST(Npz, DuplicateNamesAreRefused) {
  const std::string f = content(fixture("fp32.npy"));
  expect_bytes_refused(zip_of({{"q.npy", f}, {"q.npy", f}}), {"entry name = 'q.npy' twice"});
  expect_bytes_refused(zip_of({{"q.npy", f}, {"q", "text"}}), {"array name = 'q' twice"});
}

TEST(Npz, NamesThatLeadElsewhereAreRefused) {
  const std::string f = content(fixture("fp32.npy"));
  for (const char* name :
       {"../q.npy", "/etc/q.npy", "a/../../q.npy", "..\\q.npy", "a\nb.npy", "\x1b[2Jq.npy", "\xff.npy", ".."})
    expect_bytes_refused(zip_of({{name, f}}), {"entry name = "});
  EXPECT_EQ(read_bytes(zip_of({{"layer/0/q.npy", f}})).at(0).name, "layer/0/q");
}

TEST(Npz, EntriesThatShareBytesAreRefused) {
  const std::string f = content(fixture("fp32.npy"));
  std::string z = zip_of({{"q.npy", f}, {"q.npy", f}});
  const std::size_t second = z.find(kRecord, z.find(kRecord) + 1);
  z = patched(z, second + 42, 0u);  // both records point to the first entry; the second gets a new name in no place
  z = replaced(z, "q.npy", "r.npy", 3);
  expect_bytes_refused(z, {"local name"});
  // A quoted local header: the first entry's data holds a whole second entry.
  const std::string inner = zip_of({{"b.npy", f}});
  std::string outer = zip_of({{"a.npy", inner.substr(0, inner.find(kRecord))}, {"b.npy", f}});
  const std::size_t record = outer.rfind(kRecord);
  outer = patched(outer, record + 42, static_cast<std::uint32_t>(outer.find("a.npy") + 5));
  expect_bytes_refused(outer, {"overlapping"});
}

TEST(Npz, ABombIsRefusedBeforeItIsInflated) {
  // 4 MB of zeros in about 4 KB, then the headers claim less and more than that.
  const std::string z = zip_of({{"q.npy", zeros_npy(4'000'000)}}, true);
  ASSERT_LT(z.size(), 8000u);
  EXPECT_EQ(read_bytes(z).at(0).elements(), 4'000'000);
  const auto claimed = [&](std::uint32_t size) { return patched(patched(z, 22, size), z.find(kRecord) + 24, size); };
  expect_bytes_refused(claimed(1000), {"data = ", "4000000 bytes for bool"});
  expect_bytes_refused(claimed(4'000'000), {"data = ", "4000000 bytes for bool"});
  expect_bytes_refused(claimed(2'000'000'000), {"size = 2000000000 bytes deflated to", "at most 1032 times"});
}

TEST(Npz, MoreDataThanTheHeaderImpliesIsRefusedAndSoIsLess) {
  std::string f = content(fixture("fp32.npy"));
  for (const bool compress : {false, true}) {
    expect_bytes_refused(zip_of({{"q.npy", f + "x"}}, compress), {"data = 97 bytes", "96 bytes"});
    expect_bytes_refused(zip_of({{"q.npy", f.substr(0, f.size() - 1)}}, compress), {"data = 95 bytes", "96 bytes"});
    expect_bytes_refused(zip_of({{"q.npy", ""}}, compress), {".npy magic"});
  }
}

TEST(Npz, ADeflateStreamWithSomethingBehindItIsRefused) {
  // Deflated as a whole, then one byte is added to the packed size: the byte is the first of the central directory's
  // place, so that one is moved.
  std::string z = one_entry(true);
  const std::size_t record = z.find(kRecord), end = z.rfind(kEnd);
  const std::uint32_t packed = [&] {
    std::uint32_t n;
    std::memcpy(&n, z.data() + 18, 4);
    return n;
  }();
  z = patched(patched(z, 18, packed + 1), record + 20, packed + 1);
  z = patched(z, end + 16, static_cast<std::uint32_t>(record + 1));
  z.insert(record, "x");
  expect_bytes_refused(z, {"deflated data = 1 bytes after its end"});
}

}  // namespace
}  // namespace flashtile::files
