// .npy and .npz as containers: the header parser and the zip directory put together.
#include <fmt/format.h>

#include <filesystem>

#include "files/container.h"
#include "files/file_error.h"
#include "files/npy.h"
#include "files/zip_format.h"
#include "files/zip_reader.h"

namespace flashtile::files {
namespace {

void describe(ByteStream& in, Entry& e) {
  const NpyHeader h = read_npy_header(in);
  e.dtype = h.dtype ? name_of(*h.dtype) : h.descr;
  e.shape = h.shape;
  e.problem = npy_type_problem(h, in.where());
}

class NpyFile final : public Container {
 public:
  explicit NpyFile(Source source) : source_(std::move(source)), entries_(1) {
    entries_[0].name = std::filesystem::path(source_.path()).stem().string();
    if (!is_plain_name(entries_[0].name)) entries_[0].name = "array";
    describe(*open(), entries_[0]);
  }
  const char* format() const noexcept override { return ".npy"; }
  const std::vector<Entry>& entries() const noexcept override { return entries_; }
  const std::map<std::string, std::string>& metadata() const noexcept override { return metadata_; }
  Array read(std::size_t) const override { return read_npy(*open(), entries_[0].name); }

 private:
  std::unique_ptr<ByteStream> open() const {
    PackedRange all;
    all.packed = all.size = source_.size();
    return open_stream(source_, source_.where(), all);
  }

  Source source_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

class NpzFile final : public Container {
 public:
  explicit NpzFile(Source source) : source_(std::move(source)), directory_(read_zip_directory(source_)) {
    for (const ZipEntry& z : directory_) entries_.push_back(entry(z));
    check_unique();
  }
  const char* format() const noexcept override { return ".npz"; }
  const std::vector<Entry>& entries() const noexcept override { return entries_; }
  const std::map<std::string, std::string>& metadata() const noexcept override { return metadata_; }
  Array read(std::size_t i) const override { return read_npy(*open(directory_[i]), entries_[i].name); }

 private:
  static constexpr std::string_view kSuffix = ".npy";

  std::string where(const ZipEntry& z) const { return fmt::format("{}[{}]", source_.where(), in_quotes(z.name)); }

  std::unique_ptr<ByteStream> open(const ZipEntry& z) const { return open_stream(source_, where(z), z.range); }

  // An entry that cannot be read is listed with its reason, so that the arrays beside it remain usable.
  Entry entry(const ZipEntry& z) const {
    Entry e;
    e.name = z.name;
    if (!z.name.ends_with(kSuffix) || z.name.size() == kSuffix.size()) {
      e.problem = fmt::format("{}: entry name = {}; expected NAME.npy", source_.where(), in_quotes(z.name));
      return e;
    }
    e.name.resize(z.name.size() - kSuffix.size());
    if (z.method != zip::kStored && z.method != zip::kDeflated) {
      e.problem = fmt::format("{}: compression method = {}; expected 0 (stored) or 8 (deflate)", where(z), z.method);
      return e;
    }
    try {
      describe(*open(z), e);
    } catch (const FileError& error) {
      e.problem = error.what();
    }
    return e;
  }

  // "q.npy" and an entry "q" that is not an array would carry the same name.
  void check_unique() const {
    std::map<std::string_view, int> count;
    for (const Entry& e : entries_)
      if (++count[e.name] > 1) refuse(source_.where(), "array name", in_quotes(e.name) + " twice", "each name once");
  }

  Source source_;
  std::vector<ZipEntry> directory_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

std::unique_ptr<const Container> open_npy(Source source) { return std::make_unique<NpyFile>(std::move(source)); }
std::unique_ptr<const Container> open_npz(Source source) { return std::make_unique<NpzFile>(std::move(source)); }

}  // namespace flashtile::files
