#include "files/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "files/file_error.h"

namespace flashtile::files {
namespace {

bool has_strides(const Array& a, const std::vector<std::int64_t>& dense) {
  for (std::size_t i = 0; i < a.shape.size(); ++i)
    if (a.shape[i] != 1 && a.stride[i] != dense[i]) return false;
  return true;
}

template <class AnyTensor, class AnyArray>
AnyTensor view_of(AnyArray& a) {
  if (a.shape.size() > static_cast<std::size_t>(kMaxRank))
    refuse(in_quotes(a.name), "rank", fmt::to_string(a.shape.size()), fmt::format("at most {}", kMaxRank));
  AnyTensor t;
  t.data = a.bytes.data();
  t.dtype = a.dtype;
  t.rank = static_cast<int>(std::max<std::size_t>(a.shape.size(), 1));
  t.shape[0] = 1, t.stride[0] = 1;
  std::copy(a.shape.begin(), a.shape.end(), t.shape);
  std::copy(a.stride.begin(), a.stride.end(), t.stride);
  return t;
}

}  // namespace

std::int64_t Array::elements() const noexcept { return checked_bytes(dtype, shape).value_or(0) / size_of(dtype); }

Tensor Array::view() { return view_of<Tensor>(*this); }
ConstTensor Array::view() const { return view_of<ConstTensor>(*this); }

Array unset_array(std::string name, DType dtype, std::vector<std::int64_t> shape, const std::string& where) {
  const auto bytes = checked_bytes(dtype, shape);
  if (!bytes) refuse(where, "shape", text_of(shape), "no negative size and a product below 2^63 bytes");
  Array a;
  a.name = std::move(name), a.dtype = dtype, a.shape = std::move(shape);
  a.stride = c_strides(a.shape);
  try {
    a.bytes = Bytes(static_cast<std::size_t>(*bytes));
  } catch (const std::bad_alloc&) {
    refuse(where, "shape", text_of(a.shape), fmt::format("what fits in memory, not {} bytes", *bytes));
  }
  return a;
}

Array make_array(std::string name, DType dtype, std::vector<std::int64_t> shape) {
  const std::string where = in_quotes(name);
  Array a = unset_array(std::move(name), dtype, std::move(shape), where);
  std::memset(a.bytes.data(), 0, a.bytes.size());
  return a;
}

std::optional<std::int64_t> checked_bytes(DType dtype, std::span<const std::int64_t> shape) noexcept {
  std::int64_t bytes = size_of(dtype);
  bool empty = false;
  for (const std::int64_t n : shape) {
    if (n < 0) return std::nullopt;
    if (n == 0) empty = true;
    else if (__builtin_mul_overflow(bytes, n, &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

std::vector<std::int64_t> c_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> stride(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) stride[i] = step, step *= std::max<std::int64_t>(shape[i], 1);
  return stride;
}

std::vector<std::int64_t> fortran_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> stride(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) stride[i] = step, step *= std::max<std::int64_t>(shape[i], 1);
  return stride;
}

bool is_c_order(const Array& a) { return a.elements() == 0 || has_strides(a, c_strides(a.shape)); }
bool is_fortran_order(const Array& a) { return a.elements() == 0 || has_strides(a, fortran_strides(a.shape)); }

bool is_sound(const Array& a) {
  const auto dense_bytes = checked_bytes(a.dtype, a.shape);
  if (!dense_bytes || a.stride.size() != a.shape.size() || a.shape.size() > static_cast<std::size_t>(kMaxFileRank))
    return false;
  if (*dense_bytes == 0) return true;
  std::int64_t last = 0;  // the element furthest from the start
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    std::int64_t reach = 0;
    if (a.stride[i] < 0 || __builtin_mul_overflow(a.shape[i] - 1, a.stride[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return static_cast<std::uint64_t>(last) < a.bytes.size() / static_cast<std::size_t>(size_of(a.dtype));
}

Bytes elements_in_c_order(const Array& a) {
  const std::size_t size = static_cast<std::size_t>(size_of(a.dtype));
  Bytes out(static_cast<std::size_t>(a.elements()) * size);
  if (is_c_order(a)) {
    if (out.size() > 0) std::memcpy(out.data(), a.bytes.data(), out.size());
    return out;
  }
  std::vector<std::int64_t> index(a.shape.size(), 0);
  std::int64_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += size) {
    std::memcpy(out.data() + to, a.bytes.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t i = a.shape.size(); i-- > 0;) {  // the next index, as an odometer counts
      from += a.stride[i];
      if (++index[i] < a.shape[i]) break;
      from -= a.stride[i] * a.shape[i];
      index[i] = 0;
    }
  }
  return out;
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = fmt::format("({}", fmt::join(shape, ", "));
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace flashtile::files
