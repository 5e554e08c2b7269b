// What the three formats have in common once a file is open: a list of arrays, read one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/array.h"
#include "files/source.h"

namespace flashtile::files {

/// One array of a file, before its elements are read.
struct Entry {
  std::string name;
  std::string dtype;                // "fp32" …; the file's own word for a type that we do not read
  std::vector<std::int64_t> shape;
  std::string problem;              // why it cannot be read, as a FileError's text; empty if it can
};

/// REQUIRES for all: the container outlives what is called on it. Safe to use from several threads.
class Container {
 public:
  virtual ~Container() = default;
  virtual const char* format() const noexcept = 0;
  virtual const std::vector<Entry>& entries() const noexcept = 0;
  virtual const std::map<std::string, std::string>& metadata() const noexcept = 0;
  /// REQUIRES: entries()[i].problem is empty.
  virtual Array read(std::size_t i) const = 0;
};

std::unique_ptr<const Container> open_npy(Source source);
std::unique_ptr<const Container> open_npz(Source source);
std::unique_ptr<const Container> open_safetensors(Source source);

}  // namespace flashtile::files
