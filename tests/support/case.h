// One attention call with everything it reads and writes: arrays in guarded memory, options, outputs poisoned with NaN.
//
//   Case c({.queries = 6, .keys = 10, .q_heads = 2});
//   c.fill_normal(1);
//   c.options.causal = true;
//   ASSERT_TRUE(c.run().ok());
#pragma once

#include <string>
#include <vector>

#include "flashtile/flashtile.h"
#include "support/array.h"
#include "support/fp_mode.h"

namespace flashtile::testing {

struct Shape {
  Index batch = 1, queries = 1, keys = 1, q_heads = 1, kv_heads = 1, head_dim = 8, value_dim = 8;
};

struct DTypes {
  DType q = DType::f32, k = DType::f32, v = DType::f32, out = DType::f32;

  DTypes() = default;
  DTypes(DType all) : q(all), k(all), v(all), out(all) {}
  DTypes(DType q_, DType k_, DType v_, DType out_) : q(q_), k(k_), v(v_), out(out_) {}
};

/// How q, k, v and out are stored; they are always viewed as (B, S, H, D), varlen as (total, H, D).
enum class Layout {
  bshd,    // contiguous
  bhsd,    // heads before the sequence, viewed transposed
  padded,  // odd gaps after every head, row and batch
};

enum class Outputs { out, lse, all };

/// An array (B, S, H, D), or (S, H, D) when batch < 0.
inline Array operand(DType dtype, Index batch, Index rows, Index heads, Index dim, Layout layout, Placement placement) {
  Index head = dim, row = heads * dim, all = rows * row;
  if (layout == Layout::bhsd) row = dim, head = rows * dim, all = heads * head;
  if (layout == Layout::padded) head = dim + 3, row = heads * head + 5, all = rows * row + 7;
  if (batch < 0) return Array(dtype, {rows, heads, dim}, {row, head, 1}, placement);
  return Array(dtype, {batch, rows, heads, dim}, {all, row, head, 1}, placement);
}

struct Case {
  Shape shape;
  DTypes dtypes;
  Layout layout = Layout::bshd;
  Placement placement;
  Outputs outputs = Outputs::all;
  bool varlen = false;

  Array q, k, v, out;
  Array lse, largest_weight, entropy, logit_mean, logit_deviation, key_weights;
  Array cu_q, cu_k, mask, sinks, slopes, row_scale, key_begin, key_end;  // present ones are passed by run()
  Array query_lengths, key_lengths, query_offset, first_key_position;
  Options options;  // everything else

  explicit Case(Shape shape_, DTypes dtypes_ = {}, Layout layout_ = Layout::bshd, Placement placement_ = {})
      : shape(shape_), dtypes(dtypes_), layout(layout_), placement(placement_) {
    allocate();
  }
  /// Packed sequences; shape.queries and shape.keys count packed rows, shape.batch follows from the boundaries.
  Case(Shape shape_, const std::vector<Index>& q_boundaries, const std::vector<Index>& k_boundaries, DTypes dtypes_ = {},
       Layout layout_ = Layout::bshd, Placement placement_ = {})
      : shape(shape_), dtypes(dtypes_), layout(layout_), placement(placement_), varlen(true) {
    shape.batch = static_cast<Index>(q_boundaries.size()) - 1;
    cu_q = Array::ints(q_boundaries), cu_k = Array::ints(k_boundaries);
    allocate();
  }

  void fill_normal(std::uint64_t seed) {
    q.fill_normal(seed * 3 + 1), k.fill_normal(seed * 3 + 2), v.fill_normal(seed * 3 + 3);
  }
  /// Every query sees its keys with equal weight, and out row i, dimension j is the weight of key j. value_dim = keys.
  void fill_to_show_weights() {
    q.fill_value(0), k.fill_normal(77), v.fill_value(0);
    const Index batches = varlen ? 1 : shape.batch;
    for (Index b = 0; b < batches; ++b)
      for (Index j = 0; j < shape.keys; ++j)
        for (Index h = 0; h < shape.kv_heads; ++h) varlen ? v.set(1, j, h, j) : v.set(1, b, j, h, j);
  }
  /// The same inputs and options, with arrays of its own.
  void copy_inputs(const Case& other) { q.copy_from(other.q), k.copy_from(other.k), v.copy_from(other.v); }

  std::vector<Array*> written() {
    if (outputs == Outputs::out) return {&out};
    if (outputs == Outputs::lse) return {&out, &lse};
    return {&out, &lse, &largest_weight, &entropy, &logit_mean, &logit_deviation, &key_weights};
  }

  /// Options with every array of the case in place.
  Options wired() const {
    Options o = options;
    const auto pass = [](ConstTensor& to, const Array& from) {
      if (from.present()) to = from.view();
    };
    pass(o.cu_seqlens_q, cu_q), pass(o.cu_seqlens_k, cu_k), pass(o.mask, mask), pass(o.sinks, sinks);
    pass(o.alibi_slopes, slopes), pass(o.row_scale, row_scale), pass(o.key_begin, key_begin), pass(o.key_end, key_end);
    pass(o.query_lengths, query_lengths), pass(o.key_lengths, key_lengths), pass(o.query_offset, query_offset);
    pass(o.first_key_position, first_key_position);
    if (outputs != Outputs::out) o.lse = lse.view();
    if (outputs == Outputs::all) {
      o.statistics = {largest_weight.view(), entropy.view(), logit_mean.view(), logit_deviation.view()};
      o.key_weights = key_weights.view();
    }
    return o;
  }

  Status run() {
    for (Array* a : {&out, &lse, &largest_weight, &entropy, &logit_mean, &logit_deviation, &key_weights}) a->poison();
    return try_attention(q.view(), k.view(), v.view(), out.view(), wired());
  }
  Plan planned() const {
    Plan plan;
    const Status status = try_plan(q.view(), k.view(), v.view(), out.view(), wired(), plan);
    EXPECT_TRUE(status.ok()) << status.text;
    return plan;
  }

 private:
  void allocate() {
    const Index b = varlen ? -1 : shape.batch;
    q = operand(dtypes.q, b, shape.queries, shape.q_heads, shape.head_dim, layout, placement);
    k = operand(dtypes.k, b, shape.keys, shape.kv_heads, shape.head_dim, layout, placement);
    v = operand(dtypes.v, b, shape.keys, shape.kv_heads, shape.value_dim, layout, placement);
    out = operand(dtypes.out, b, shape.queries, shape.q_heads, shape.value_dim, layout, placement);
    const DType wide = dtypes.q == DType::f64 ? DType::f64 : DType::f32;
    std::vector<Index> rows{shape.q_heads, shape.queries}, keys{shape.q_heads, shape.keys};
    if (!varlen) rows.insert(rows.begin(), shape.batch), keys.insert(keys.begin(), shape.batch);
    for (Array* a : {&lse, &largest_weight, &entropy, &logit_mean, &logit_deviation}) *a = Array(wide, rows, placement);
    key_weights = Array(wide, keys, placement);
  }
};

// ---- what to loop over
// ------------------------------------------------------------------------------------------------

inline const char* name_of_isa(Isa isa) {
  IsaReport reports[16];
  const int n = isa_reports(reports, 16);
  for (int i = 0; i < n && i < 16; ++i)
    if (reports[i].isa == isa) return reports[i].name;
  return "automatic";
}

/// Every instruction set that this binary has and this machine runs, the software twin of amx included.
inline std::vector<Isa> available_isas() {
  IsaReport reports[16];
  const int n = isa_reports(reports, 16);
  std::vector<Isa> isas;
  for (int i = 0; i < n && i < 16; ++i)
    if (reports[i].built && reports[i].available) isas.push_back(reports[i].isa);
  return isas;
}

/// False where an emulator converts fp16 as no processor does (fp_mode.h): nothing can be said of that dtype there.
inline bool converts(Isa isa, const DTypes& dtypes) {
  const bool half = dtypes.q == DType::f16 || dtypes.k == DType::f16 || dtypes.v == DType::f16 || dtypes.out == DType::f16;
  return !half || isa == Isa::scalar || f16c_keeps_denormals();
}

/// One cell of the usual grid.
struct Setting {
  Isa isa = Isa::automatic;
  DType dtype = DType::f32;

  std::string text() const { return std::string("isa ") + name_of_isa(isa) + ", dtype " + name_of(dtype); }
};

inline std::vector<Setting> settings(std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f16, DType::f64}) {
  std::vector<Setting> all;
  for (Isa isa : available_isas())
    for (DType dtype : dtypes)
      if (converts(isa, dtype)) all.push_back({isa, dtype});
  return all;
}

}  // namespace flashtile::testing

/// for (every instruction set and dtype), with a trace in every failure. Use: FT_FOR_EACH_SETTING(s) { … }
#define FT_FOR_EACH_SETTING(s)                                                    \
  for (const ::flashtile::testing::Setting& s : ::flashtile::testing::settings()) \
    if (const ::testing::ScopedTrace trace_of_setting(__FILE__, __LINE__, s.text()); true)
