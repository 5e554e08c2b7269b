// Packed sequences of different lengths: each row has the bits that it has in a call of its own sequence alone.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "verify.h"
#include "verify_call.h"

namespace flashtile::cli {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 41, kValueDim = 23;

struct Lengths {
  std::int64_t queries, keys;
};
/// Shorter and longer than a vector, a tile, a block and a chunk; without queries, without keys.
constexpr Lengths kSequences[] = {{17, 17}, {0, 5}, {130, 700}, {1, 1}, {48, 512}, {3, 0}, {61, 129}};

/// Rows [first, first + rows) of an array whose rows are dense.
std::byte* rows_of(files::Array& a, std::int64_t first, std::int64_t row) {
  return a.bytes.data() + first * row * size_of(a.dtype);
}

/// The sequences one after the other in arrays of one call, which is viewed as packed.
struct Packed {
  Call call;
  std::vector<std::int32_t> cu_q{0}, cu_k{0};

  static CallShape shape() {
    CallShape s = {.batch = 1,
                   .queries = 0,
                   .keys = 0,
                   .heads = kHeads,
                   .kv_heads = kKvHeads,
                   .head_dim = kHeadDim,
                   .value_dim = kValueDim};
    for (const Lengths& n : kSequences) s.queries += n.queries, s.keys += n.keys;
    return s;
  }

  explicit Packed(DType dtype) : call(shape(), dtype, dtype) {
    call.fill_normal(11);
    for (const Lengths& n : kSequences) {
      cu_q.push_back(cu_q.back() + static_cast<std::int32_t>(n.queries));
      cu_k.push_back(cu_k.back() + static_cast<std::int32_t>(n.keys));
    }
  }

  Status run() {
    const auto packed = [](const Tensor& t) {  // (1, S, …) as (S, …)
      Tensor p = t;
      p.rank = t.rank - 1;
      for (int i = 0; i < p.rank; ++i) p.shape[i] = t.shape[i + 1], p.stride[i] = t.stride[i + 1];
      return p;
    };
    Options o = call.options;
    o.lse = packed(call.lse.view());
    o.cu_seqlens_q = view(std::as_const(cu_q).data(), {std::ssize(cu_q)});
    o.cu_seqlens_k = view(std::as_const(cu_k).data(), {std::ssize(cu_k)});
    call.poison();
    return try_attention(packed(call.q.view()), packed(call.k.view()), packed(call.v.view()), packed(call.out.view()), o);
  }
};

/// One sequence in a dense call.
Call alone(Packed& whole, std::size_t sequence) {
  const Lengths n = kSequences[sequence];
  CallShape s = whole.call.shape;
  s.queries = n.queries, s.keys = n.keys;
  Call part(s, whole.call.q.dtype, whole.call.out.dtype);
  const auto copy = [](files::Array& to, files::Array& from, std::int64_t first, std::int64_t row) {
    std::memcpy(to.bytes.data(), rows_of(from, first, row), to.bytes.size());
  };
  copy(part.q, whole.call.q, whole.cu_q[sequence], kHeads * kHeadDim);
  copy(part.k, whole.call.k, whole.cu_k[sequence], kKvHeads * kHeadDim);
  copy(part.v, whole.call.v, whole.cu_k[sequence], kKvHeads * kValueDim);
  part.options = whole.call.options;
  return part;
}

bool agree(Packed& whole, Call& part, std::size_t sequence) {
  const std::int64_t first = whole.cu_q[sequence], rows = part.shape.queries;
  const std::byte* const out = rows_of(whole.call.out, first, kHeads * kValueDim);
  if (std::memcmp(part.out.bytes.data(), out, part.out.bytes.size()) != 0) return false;
  const auto row_bytes = static_cast<std::size_t>(rows * size_of(part.lse.dtype));
  for (std::int64_t h = 0; h < kHeads; ++h)
    if (std::memcmp(rows_of(part.lse, h * rows, 1), rows_of(whole.call.lse, h * whole.call.shape.queries + first, 1),
                    row_bytes) != 0)
      return false;
  return true;
}

}  // namespace

void verify_packed(Findings& findings) {
  Property property{"packed sequences of different lengths have the bits of calls of their own"};
  for (const Engine& engine : engines())
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
      for (const bool causal : {false, true}) {
        Packed whole(dtype);
        whole.call.options.causal = causal;
        if (!whole.call.select(engine)) continue;
        for (const int threads : {1, 3}) {
          whole.call.options.threads = threads;
          require(whole.run());
          for (std::size_t s = 0; s < std::size(kSequences); ++s) {
            Call part = alone(whole, s);
            require(part.run());
            property.expect(agree(whole, part, s), [&] {
              return fmt::format("{}, {}, {}, {} threads, sequence {}", engine.name, name_of(dtype),
                                 causal ? "causal" : "dense", threads, s);
            });
          }
        }
      }
  findings.add(property);
}

}  // namespace flashtile::cli
