#include "layout.h"

#include <algorithm>

#include "failure.h"

namespace flashtile::cli {
namespace {

constexpr std::string_view kAxes = "bshd";

Tensor strided(files::Array& array, std::string_view layout) {
  Tensor t;
  t.data = array.bytes.data();
  t.dtype = array.dtype;
  t.rank = 4;
  for (int i = 0; i < 4; ++i) {
    const std::size_t at = layout.find(kAxes[static_cast<std::size_t>(i)]);
    t.shape[i] = at == std::string_view::npos ? 1 : array.shape[at];
    t.stride[i] = at == std::string_view::npos ? 0 : array.stride[at];
  }
  return t;
}

}  // namespace

std::string layout_for(std::string_view word, std::size_t rank, std::string_view what) {
  if (word.empty()) {
    if (rank < 2 || rank > 4) throw wrong(fmt::format("{}.rank", what), fmt::to_string(rank), "4 (bshd), 3 (shd) or 2 (sd)");
    return rank == 4 ? "bshd" : rank == 3 ? "shd" : "sd";
  }
  std::string sorted(word);
  std::sort(sorted.begin(), sorted.end());
  const bool known = sorted == "bdhs" || sorted == "dhs" || sorted == "bds" || sorted == "ds";
  if (!known)
    throw wrong("--layout", word,
                "each of b, s, h, d at most once, in the order of the array, with s and d: bshd, bhsd, shd");
  if (word.size() != rank) throw wrong("--layout", word, fmt::format("{} letters: {} has {} dimensions", rank, what, rank));
  return std::string(word);
}

Tensor as_bshd(files::Array& array, std::string_view layout) {
  const std::size_t d = layout.find('d');
  if (array.stride[d] != 1 && array.shape[d] > 1) {
    // Dense, in the order of the array's dimensions but with d last.
    std::vector<std::int64_t> stride(array.shape.size());
    std::int64_t step = std::max<std::int64_t>(array.shape[d], 1);
    for (std::size_t i = array.shape.size(); i-- > 0;)
      if (i != d) stride[i] = step, step *= std::max<std::int64_t>(array.shape[i], 1);
    stride[d] = 1;
    const std::size_t size = static_cast<std::size_t>(size_of(array.dtype));
    const files::Bytes from = files::elements_in_c_order(array);
    const std::vector<std::int64_t> dense = files::c_strides(array.shape);
    files::Bytes to(from.size());
    for (std::int64_t i = 0; i < array.elements(); ++i) {
      std::int64_t at = 0;
      for (std::size_t axis = 0; axis < array.shape.size(); ++axis) at += i / dense[axis] % array.shape[axis] * stride[axis];
      std::copy_n(from.data() + static_cast<std::size_t>(i) * size, size, to.data() + static_cast<std::size_t>(at) * size);
    }
    array.bytes = std::move(to);
    array.stride = stride;
  }
  Tensor t = strided(array, layout);
  t.stride[3] = 1;  // a single d has no stride that matters
  return t;
}

Tensor as_packed(files::Array& array, std::string_view layout, std::string_view what) {
  const Tensor bshd = as_bshd(array, layout);
  if (bshd.shape[0] != 1)
    throw wrong(fmt::format("{}.batch", what), fmt::to_string(bshd.shape[0]), "1: all sequences are packed in it");
  Tensor t = bshd;
  t.rank = 3;
  for (int i = 0; i < 3; ++i) t.shape[i] = bshd.shape[i + 1], t.stride[i] = bshd.stride[i + 1];
  return t;
}

std::vector<std::int64_t> shape_in(std::string_view layout, const std::int64_t (&bshd)[4]) {
  std::vector<std::int64_t> shape;
  for (const char axis : layout) shape.push_back(bshd[kAxes.find(axis)]);
  return shape;
}

}  // namespace flashtile::cli
