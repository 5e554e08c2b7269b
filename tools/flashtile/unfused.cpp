#include "unfused.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>

#include "convert.h"
#include "failure.h"
#include "problem/number.h"
#include "roofs/roofs.h"
#include "run/threads.h"
#include "units.h"

namespace flashtile::cli {
namespace {

constexpr double kMostScoreBytes = 1 << 30;
constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kRowPadding = 16;  // keys: what Loops::softmax asks for

// cblas.h, as every BLAS has it.
enum : int { kRowMajor = 101, kPlain = 111, kTransposed = 112 };
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                       int lda, const float* b, int ldb, float beta, float* c, int ldc);

struct Blas {
  Sgemm sgemm = nullptr;
  std::string description, missing;
};

Blas load_blas() {
  Blas blas;
  // One thread: the baseline divides the work itself, and idle threads of OpenBLAS would spin beside our kernels.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    blas.missing = "libopenblas.so.0 is not installed (Debian: libopenblas0-pthread)";
    return blas;
  }
  blas.sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  if (blas.sgemm == nullptr) blas.missing = "libopenblas.so.0 has no cblas_sgemm";
  if (const auto config = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_config")))
    blas.description = config();
  while (!blas.description.empty() && blas.description.back() == ' ') blas.description.pop_back();
  return blas;
}

const Blas& blas() {
  static const Blas loaded = load_blas();
  return loaded;
}

std::int64_t padded(std::int64_t keys) { return (keys + kRowPadding - 1) / kRowPadding * kRowPadding; }

/// Parts of a head's rows, of which one thread takes one at once: 1, unless there are fewer heads than threads.
std::int64_t blocks_of_head(const Inputs& inputs, int threads) {
  const std::int64_t heads = std::max<std::int64_t>(1, std::ssize(inputs.sequences()) * inputs.extents().heads);
  return std::clamp<std::int64_t>((threads + heads - 1) / heads, 1, std::max<std::int64_t>(1, inputs.longest().queries));
}

std::int64_t rows_of_block(std::int64_t rows, std::int64_t blocks) { return (rows + blocks - 1) / blocks; }

/// Elements of S that a thread stores.
std::int64_t scores_of_thread(const Inputs& inputs, int threads) {
  const Span longest = inputs.longest();
  return rows_of_block(longest.queries, blocks_of_head(inputs, threads)) * padded(longest.keys);
}

}  // namespace

std::string unfused_missing() { return blas().missing; }
std::string unfused_description() { return blas().description; }

std::string Unfused::refusal(const Inputs& inputs, const Options& options, int threads) {
  if (options.softcap > 0 || options.alibi_slopes.data != nullptr) return "softcap and ALiBi have no unfused baseline here";
  if (inputs.q.dtype == DType::f64) return "the unfused baseline is fp32";
  const ConstTensor& mask = options.mask;
  if (mask.rank == 4 && (mask.shape[0] != 1 || mask.shape[1] != 1))
    return "a mask for each head has no unfused baseline here";
  const double bytes = 4.0 * static_cast<double>(scores_of_thread(inputs, threads)) * threads;
  if (bytes > kMostScoreBytes) return fmt::format("S would take {}", bytes_text(bytes));
  return {};
}

Unfused::Unfused(const Inputs& inputs, const Options& options, Isa isa, int threads)
    : q_(converted(inputs.arrays[0], DType::f32)),
      k_(converted(inputs.arrays[1], DType::f32)),
      v_(converted(inputs.arrays[2], DType::f32)),
      extents_(inputs.extents()),
      sequences_(inputs.sequences()),
      options_(options),
      threads_(threads),
      blocks_(blocks_of_head(inputs, threads)) {
  const Tensor out = inputs.unallocated_out(DType::f32);
  out_ = files::make_array("out", DType::f32, std::vector<std::int64_t>(out.shape, out.shape + out.rank));
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(extents_.head_dim)));
  scale_ = static_cast<float>(scale * std::numbers::log2e);
  softmax_ = roofs::loops_of(isa).softmax;
  if (softmax_ == nullptr) softmax_ = roofs::loops_of(isa == Isa::amx ? Isa::avx512 : Isa::scalar).softmax;
  const auto elements = static_cast<std::size_t>(scores_of_thread(inputs, threads));
  scores_.assign(static_cast<std::size_t>(threads), std::vector<float>(elements));
  if (options.mask.present()) keep_mask(options.mask, inputs.longest().queries);
}

void Unfused::keep_mask(const ConstTensor& mask, std::int64_t queries) {
  const int row = mask.rank - 2, key = mask.rank - 1;
  mask_keys_ = mask.shape[key];
  mask_.reserve(static_cast<std::size_t>(queries * mask_keys_));
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < mask_keys_; ++j) {
      const double x =
          element(mask.data, mask.dtype, (mask.shape[row] == 1 ? 0 : i) * mask.stride[row] + j * mask.stride[key]);
      mask_.push_back(mask.dtype != DType::boolean ? static_cast<float>(x * std::numbers::log2e) : x == 0 ? kHidden : 0);
    }
}

void Unfused::run() {
  run_shares(
      threads_, std::ssize(sequences_) * extents_.heads * blocks_,
      [](void* self, int worker, std::int64_t share) noexcept { static_cast<Unfused*>(self)->run_rows(worker, share); },
      this);
}

void Unfused::run_rows(int worker, std::int64_t share) {
  const std::int64_t heads = extents_.heads, dim = extents_.head_dim;
  const std::int64_t kv_heads = extents_.kv_heads, value_dim = extents_.value_dim;
  const Span& sequence = sequences_[static_cast<std::size_t>(share / blocks_ / heads)];
  const std::int64_t queries = sequence.queries, keys = sequence.keys, row_stride = padded(keys);
  const std::int64_t height = rows_of_block(queries, blocks_);
  const std::int64_t begin = share % blocks_ * height, rows = std::min(height, queries - begin);
  const std::int64_t head = share / blocks_ % heads, kv_head = head / (heads / kv_heads);
  if (rows <= 0 || keys == 0) return;  // O is 0 from the beginning
  const auto at = [](const files::Array& x, std::int64_t row, std::int64_t h) {
    const std::size_t rank = x.shape.size();
    return reinterpret_cast<const float*>(x.bytes.data()) + (row * x.shape[rank - 2] + h) * x.shape[rank - 1];
  };
  const auto n = [](std::int64_t x) { return static_cast<int>(x); };
  float* const scores = scores_[static_cast<std::size_t>(worker)].data();
  if (!mask_.empty())  // the product is added to it
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(&mask_[(begin + i) * mask_keys_], keys, scores + i * row_stride);
  blas().sgemm(kRowMajor, kPlain, kTransposed, n(rows), n(keys), n(dim), scale_, at(q_, sequence.first_query + begin, head),
               n(heads * dim), at(k_, sequence.first_key, kv_head), n(kv_heads * dim), mask_.empty() ? 0 : 1, scores,
               n(row_stride));

  const std::int64_t shift = options_.alignment == Alignment::bottom_right ? keys - queries : 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t position = begin + i + shift;
    std::int64_t first = 0, last = keys;  // the visible ones
    if (options_.causal) last = position + 1;
    if (options_.window.left >= 0) first = position - options_.window.left;
    if (options_.window.right >= 0) last = std::min(last, position + options_.window.right + 1);
    first = std::clamp<std::int64_t>(first, 0, keys), last = std::clamp(last, first, keys);
    float* const row = scores + i * row_stride;
    std::fill(row, row + first, kHidden);
    std::fill(row + last, row + row_stride, kHidden);
    softmax_(row, row_stride);
  }

  float* const out =
      reinterpret_cast<float*>(out_.bytes.data()) + ((sequence.first_query + begin) * heads + head) * value_dim;
  blas().sgemm(kRowMajor, kPlain, kPlain, n(rows), n(value_dim), n(keys), 1, scores, n(row_stride),
               at(v_, sequence.first_key, kv_head), n(kv_heads * value_dim), 0, out, n(heads * value_dim));
}

}  // namespace flashtile::cli
