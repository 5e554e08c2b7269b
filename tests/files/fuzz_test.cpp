// Valid files, spoiled in ten thousands of ways by a generator with a fixed seed: only a FileError or sound arrays come
// out, and no single allocation is larger than the file justifies. Run under the sanitizers it also shows that nothing
// is read outside the bytes.
#include "files/largest_allocation.h"
#include "files/support.h"

namespace flashtile::files {
namespace {

class Generator {  // splitmix64
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t state_;
};

void overwrite(std::string& bytes, std::size_t at, std::string_view with) {
  for (std::size_t i = 0; i < with.size() && at + i < bytes.size(); ++i) bytes[at + i] = with[i];
}

void spoil_once(std::string& bytes, Generator& random) {
  static constexpr std::uint64_t kNumbers[] = {0,
                                               1,
                                               0x7f,
                                               0xff,
                                               0x7fff,
                                               0xffff,
                                               0x7fffffff,
                                               0xffffffff,
                                               0x100000000,
                                               0x4000000000000000,
                                               ~0ull >> 1,
                                               ~0ull,
                                               0x8000000000000000};
  static constexpr const char* kWords[] = {
      "9223372036854775807", "[[[[", "}}", "'", "\"", "-1", "1e9", "PK\5\6", "<V2", "(", "0,"};
  const std::size_t at = random.below(bytes.size());
  switch (random.below(7)) {
    case 0: return overwrite(bytes, at, std::string(1, static_cast<char>(random.next())));
    case 1:
      return overwrite(bytes, at, std::string(1, static_cast<char>(bytes.empty() ? 0 : bytes[at] ^ 1 << random.below(8))));
    case 2: bytes.resize(at); return;
    case 3: bytes.erase(at, 1 + random.below(8)); return;
    case 4: bytes.insert(at, bytes.substr(random.below(bytes.size()), 1 + random.below(40))); return;
    case 5:
      return overwrite(bytes, at,
                       little(kNumbers[random.below(std::size(kNumbers))]).substr(0, std::size_t{1} << random.below(4)));
    case 6: return overwrite(bytes, at, kWords[random.below(std::size(kWords))]);
  }
}

// Deflate gives at most 1032 bytes for one; bookkeeping (names, zlib's tables, the text of an error) stays below the
// rest.
std::size_t justified(std::size_t file_size, bool deflated) { return (deflated ? 1032 : 8) * file_size + 100'000; }

struct Outcome {
  int accepted = 0, refused = 0;
};

void read_spoiled(const std::string& bytes, const std::string& name, Outcome& outcome) {
  forget_allocations();
  try {
    for (const Array& a : read_bytes(bytes, name)) ASSERT_TRUE(is_sound(a));
    ++outcome.accepted;
  } catch (const FileError& error) {
    ++outcome.refused;
    ASSERT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
  }
  ASSERT_LE(largest_allocation(), justified(bytes.size(), name.ends_with(".npz")));
}

class Fuzz : public testing::TestWithParam<const char*> {};

TEST_P(Fuzz, SpoiledFilesGiveSoundArraysOrAnError) {
  const std::string name = GetParam(), whole = content(fixture(name));
  Generator random(0x5eed);
  Outcome outcome;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (std::size_t n = 1 + random.below(3); n > 0; --n) spoil_once(bytes, random);
    ASSERT_NO_FATAL_FAILURE(read_spoiled(bytes, name, outcome)) << "mutation " << i;
  }
  EXPECT_GT(outcome.refused, 200);  // the generator does harm
}

INSTANTIATE_TEST_SUITE_P(AllFormats, Fuzz,
                         testing::Values("fp32.npy", "fp64_big_endian.npy", "fp32_version_2.npy", "fp32_fortran.npy",
                                         "structured.npy", "stored.npz", "deflated.npz", "streamed.npz", "foreign.npz",
                                         "every_type.safetensors", "metadata.safetensors", "int8_extra.safetensors"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace flashtile::files
