// One row, one answer: the bits of an output row do not depend on the other rows, the batch, the threads, the order of
// workers or, within the fma family, the instruction set.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "verify.h"
#include "verify_call.h"

namespace flashtile::cli {
namespace {

/// Odd sizes: nothing is a multiple of a vector, a tile or a block.
constexpr CallShape kShape = {
    .batch = 2, .queries = 37, .keys = 701, .heads = 4, .kv_heads = 2, .head_dim = 41, .value_dim = 23};

struct Variant {
  const char* name;
  void (*apply)(Options&);
};
constexpr Variant kVariants[] = {
    {"dense", [](Options&) {}},
    {"causal", [](Options& o) { o.causal = true; }},
    {"window 200,3 and softcap", [](Options& o) { o.window = {200, 3}, o.softcap = 5; }},
};

Call make_call(DType dtype) {
  Call call(kShape, dtype, dtype);
  call.fill_normal(7);
  return call;
}

/// Rows [begin, begin + count) of one batch alone, in a call of their own. `offset` must outlive the result's use.
Call rows_alone(const Call& whole, std::int64_t batch, std::int64_t begin, std::int64_t count, std::int64_t& offset) {
  CallShape s = whole.shape;
  s.batch = 1, s.queries = count;
  Call part(s, whole.q.dtype, whole.out.dtype);
  const auto copy = [](files::Array& to, const files::Array& from, std::int64_t first) {
    const std::size_t size = static_cast<std::size_t>(size_of(from.dtype));
    std::memcpy(to.bytes.data(), from.bytes.data() + static_cast<std::size_t>(first) * size, to.bytes.size());
  };
  copy(part.q, whole.q, (batch * whole.shape.queries + begin) * s.heads * s.head_dim);
  copy(part.k, whole.k, batch * s.keys * s.kv_heads * s.head_dim);
  copy(part.v, whole.v, batch * s.keys * s.kv_heads * s.value_dim);
  part.options = whole.options;
  offset = s.keys - whole.shape.queries + begin;  // where the first of these rows stands in the whole
  part.options.query_offset = view(static_cast<const std::int64_t*>(&offset), {1});
  return part;
}

/// Whether the part has the bits that these rows have in the whole.
bool rows_agree(const Call& whole, const Call& part, std::int64_t batch, std::int64_t begin) {
  const CallShape& s = whole.shape;
  const std::size_t size = static_cast<std::size_t>(size_of(whole.out.dtype));
  const std::int64_t first = (batch * s.queries + begin) * s.heads * s.value_dim;
  if (std::memcmp(part.out.bytes.data(), whole.out.bytes.data() + static_cast<std::size_t>(first) * size,
                  part.out.bytes.size()) != 0)
    return false;
  const std::size_t lse_size = static_cast<std::size_t>(size_of(whole.lse.dtype));
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const std::int64_t at = (batch * s.heads + h) * s.queries + begin;
    if (std::memcmp(part.lse.bytes.data() + static_cast<std::size_t>(h * part.shape.queries) * lse_size,
                    whole.lse.bytes.data() + static_cast<std::size_t>(at) * lse_size,
                    static_cast<std::size_t>(part.shape.queries) * lse_size) != 0)
      return false;
  }
  return true;
}

struct Properties {
  Property rows{"rows alone and in a batch have the same bits"};
  Property threads{"threads 1, 2, 3 and 4 give the same bits"};
  Property workers{"workers one after the other, in order and in reverse, give the same bits"};
  Property sets{"all instruction sets of the fma family give the same bits"};
  Property twin{"the amx instructions and their software twin give the same bits"};
};

void try_rows(Property& property, const Call& whole, const std::string& where) {
  const auto expect = [&](std::int64_t batch, std::int64_t begin, std::int64_t count) {
    std::int64_t offset = 0;
    Call part = rows_alone(whole, batch, begin, count, offset);
    require(part.run());
    property.expect(rows_agree(whole, part, batch, begin),
                    [&] { return fmt::format("{}, batch {}, rows {} … {}", where, batch, begin, begin + count - 1); });
  };
  for (std::int64_t batch = 0; batch < kShape.batch; ++batch) {
    for (const std::int64_t row : {0, 1, 15, 16, 36}) expect(batch, row, 1);
    for (const std::int64_t count : {2, 5, 8, 17}) expect(batch, kShape.queries - count, count);
    expect(batch, 0, kShape.queries);
  }
}

void try_workers(Properties& p, const Call& whole, const std::string& where) {
  Call again = make_call(whole.q.dtype);
  again.options = whole.options;
  for (int threads = 1; threads <= 4; ++threads) {
    again.options.threads = threads;
    require(again.run());
    p.threads.expect(same_bits(whole, again), [&] { return fmt::format("{}, {} threads", where, threads); });
  }
  for (const int workers : {1, 2, 3, 7})
    for (const bool reverse : {false, true}) {
      require(again.run_by_workers(workers, reverse));
      p.workers.expect(same_bits(whole, again),
                       [&] { return fmt::format("{}, {} workers{}", where, workers, reverse ? " in reverse" : ""); });
    }
}

}  // namespace

void verify_invariance(Findings& findings) {
  findings.heading("Invariance: one row, one answer");
  Properties p;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const Variant& variant : kVariants) {
      std::optional<Call> first[2];  // of each family
      for (const Engine& engine : engines()) {
        Call whole = make_call(dtype);
        variant.apply(whole.options);
        if (!whole.select(engine)) continue;
        const std::string where = fmt::format("{}, {}, {}", engine.name, name_of(dtype), variant.name);
        require(whole.run());
        try_rows(p.rows, whole, where);
        try_workers(p, whole, where);
        std::optional<Call>& before = first[static_cast<int>(engine.family)];
        Property& sets = engine.family == Family::fma ? p.sets : p.twin;
        if (before) sets.expect(same_bits(*before, whole), [&] { return where; });
        else before = std::move(whole);
      }
    }
  findings.add(p.rows);
  findings.add(p.threads);
  findings.add(p.workers);
  for (const Property& property : {p.sets, p.twin})
    if (property.cases > 0) findings.add(property);  // none: the machine has only one of them
}

}  // namespace flashtile::cli
