#include "convert.h"

#include <cmath>
#include <numbers>

#include "problem/dropout.h"
#include "problem/number.h"

namespace flashtile::cli {
namespace {

/// fp32 nearest to x, except that an inexact result gets an odd last bit: rounding it once more, to a type with at
/// least two bits less, gives what rounding x at once would have given. Boldo, Melquiond: "Emulation of a FMA and
/// correctly rounded sums", IEEE Trans. Computers 57(4), 2008.
float to_odd(double x) {
  float y = static_cast<float>(x);
  if (std::isnan(x) || std::isinf(y) || static_cast<double>(y) == x) return y;
  if (std::fabs(static_cast<double>(y)) > std::fabs(x)) y = std::nextafterf(y, 0.0f);  // towards zero
  return float_of(bits_of(y) | 1u);
}

}  // namespace

void store(double x, DType to, void* data, std::int64_t index) {
  switch (to) {
    case DType::f64: static_cast<double*>(data)[index] = x; return;
    case DType::f32: static_cast<float*>(data)[index] = static_cast<float>(x); return;
    case DType::f16: static_cast<f16*>(data)[index] = to_f16(to_odd(x)); return;
    case DType::bf16: static_cast<bf16*>(data)[index] = to_bf16(to_odd(x)); return;
    case DType::boolean: static_cast<std::uint8_t*>(data)[index] = x != 0; return;
    case DType::i32: static_cast<std::int32_t*>(data)[index] = static_cast<std::int32_t>(x); return;
    case DType::i64: static_cast<std::int64_t*>(data)[index] = static_cast<std::int64_t>(x); return;
  }
}

files::Array converted(const files::Array& from, DType to) {
  const files::Bytes dense = files::elements_in_c_order(from);
  files::Array result = files::unset_array(from.name, to, from.shape, from.name);
  const std::int64_t n = from.elements();
  for (std::int64_t i = 0; i < n; ++i) store(element(dense.data(), from.dtype, i), to, result.bytes.data(), i);
  return result;
}

files::Array normal_array(const std::string& name, DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed) {
  files::Array result = files::unset_array(name, dtype, std::move(shape), name);
  const std::int64_t n = result.elements();
  for (std::int64_t i = 0; i < n; i += 4) {  // Box and Muller, two pairs from each counter
    const auto low = static_cast<std::uint32_t>(i), high = static_cast<std::uint32_t>(i >> 32);
    const Philox random = philox(seed, {{low, high, 0, 0}});
    for (int pair = 0; pair < 2; ++pair) {
      const double radius = std::sqrt(-2 * std::log((random.word[2 * pair] + 0.5) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * random.word[2 * pair + 1] * 0x1p-32;
      const std::int64_t at = i + 2 * pair;
      if (at < n) store(radius * std::cos(angle), dtype, result.bytes.data(), at);
      if (at + 1 < n) store(radius * std::sin(angle), dtype, result.bytes.data(), at + 1);
    }
  }
  return result;
}

}  // namespace flashtile::cli
