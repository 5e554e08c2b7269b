#include "problem/operands.h"

#include <cstdio>

#include "problem/check.h"

namespace flashtile {
namespace {

bool is_float(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16; }

/// "(1, 128, 8, 64)" for messages.
struct ShapeText {
  char text[112];

  explicit ShapeText(const ConstTensor& t) {
    int n = std::snprintf(text, sizeof text, "(");
    for (int i = 0; i < t.rank && i < kMaxRank; ++i)
      n += std::snprintf(text + n, sizeof text - n, i == 0 ? "%lld" : ", %lld", static_cast<long long>(t.shape[i]));
    std::snprintf(text + n, sizeof text - n, ")");
  }
};

/// Extents are not negative and every offset fits in 62 bits of bytes, so that sums of products are safe everywhere.
Status check_extent(const char* name, const ConstTensor& t) noexcept {
  Index reach = 0;
  for (int i = 0; i < t.rank; ++i) {
    FT_CHECK(t.shape[i] >= 0, "%s.shape[%d] = %lld; expected 0 or more", name, i, static_cast<long long>(t.shape[i]));
    if (t.shape[i] < 2) continue;
    Index step = 0;
    const bool overflows = __builtin_mul_overflow(t.stride[i], t.shape[i] - 1, &step) ||
                           __builtin_add_overflow(reach, step < 0 ? -step : step, &reach) || reach > (Index{1} << 58);
    FT_CHECK(!overflows && t.shape[i] <= (Index{1} << 48),
             "%s.shape[%d] = %lld with stride %lld; expected offsets below 2^58 elements", name, i,
             static_cast<long long>(t.shape[i]), static_cast<long long>(t.stride[i]));
  }
  return {};
}

/// (B, S, H, D) or (total, H, D) → axes; the innermost stride must be 1.
Status check_operand(const char* name, const ConstTensor& t, bool varlen, Axes& axes) noexcept {
  const int rank = varlen ? 3 : 4;
  FT_CHECK(t.rank == rank, "%s has rank %d; expected %s", name, t.rank,
           varlen ? "3, (total, heads, head_dim), with cu_seqlens" : "4, (batch, sequence, heads, head_dim)");
  FT_CHECK(is_float(t.dtype), "%s.dtype = %s; expected fp64, fp32, fp16 or bf16", name, name_of(t.dtype));
  FT_TRY(check_extent(name, t));
  FT_CHECK(t.stride[rank - 1] == 1 || t.shape[rank - 1] <= 1,
           "%s.stride[%d] = %lld; expected 1 (head_dim contiguous; copy the array, or view it as it is stored)", name,
           rank - 1, static_cast<long long>(t.stride[rank - 1]));
  axes = {true, t.dtype, varlen ? 0 : t.stride[0], t.stride[rank - 3], t.stride[rank - 2]};
  return {};
}

Status check_dtypes(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out) noexcept {
  const bool any64 = q.dtype == DType::f64 || k.dtype == DType::f64 || v.dtype == DType::f64;
  const bool all64 = q.dtype == DType::f64 && k.dtype == DType::f64 && v.dtype == DType::f64;
  FT_CHECK(!any64 || all64, "dtypes q %s, k %s, v %s; expected fp64 for all three or for none", name_of(q.dtype),
           name_of(k.dtype), name_of(v.dtype));
  FT_CHECK(out.dtype == q.dtype || (!all64 && out.dtype == DType::f32),
           "out.dtype = %s with dtypes q %s, k %s, v %s; expected %s", name_of(out.dtype), name_of(q.dtype),
           name_of(k.dtype), name_of(v.dtype), all64 ? "fp64" : (q.dtype == DType::f32 ? "fp32" : "fp32 or the dtype of q"));
  return {};
}

Status read_integers(const char* name, const ConstTensor& t, Index n, bool wide, Buffer<Index>& values) noexcept {
  if (!t.present()) return {};
  Index stride = 0;
  if (wide) FT_TRY(check_tensor(name, t, {DType::i32, DType::i64}, {{n == 1 ? "B" : "entries", n}}, &stride));
  else FT_TRY(check_tensor(name, t, {DType::i32}, {{n == 1 ? "B" : "entries", n}}, &stride));
  FT_CHECK(t.data != nullptr || n == 0, "%s.data = null; expected %lld integers", name, static_cast<long long>(n));
  if (!values.allocate(n)) return refuse(Code::out_of_memory, "no memory for a copy of %s", name);
  for (Index i = 0; i < n; ++i)
    values[i] = t.dtype == DType::i32 ? static_cast<const std::int32_t*>(t.data)[i * stride]
                                      : static_cast<const std::int64_t*>(t.data)[i * stride];
  return {};
}

Status check_cumulative(const char* name, const Buffer<Index>& cu, Index total) noexcept {
  FT_CHECK(cu[0] == 0, "%s[0] = %lld; expected 0", name, static_cast<long long>(cu[0]));
  for (Index i = 1; i < cu.size(); ++i)
    FT_CHECK(cu[i] >= cu[i - 1], "%s[%lld] = %lld; expected at least %s[%lld] = %lld", name, static_cast<long long>(i),
             static_cast<long long>(cu[i]), name, static_cast<long long>(i - 1), static_cast<long long>(cu[i - 1]));
  const Index last = cu[cu.size() - 1];
  FT_CHECK(last <= total, "%s[%lld] = %lld; expected at most %lld, the rows of the packed array", name,
           static_cast<long long>(cu.size() - 1), static_cast<long long>(last), static_cast<long long>(total));
  return {};
}

Status check_lengths(const char* name, Index b, Index length, Index capacity) noexcept {
  FT_CHECK(length >= 0 && length <= capacity, "%s[%lld] = %lld; expected 0 to %lld", name, static_cast<long long>(b),
           static_cast<long long>(length), static_cast<long long>(capacity));
  return {};
}

Status check_position(const char* name, Index b, Index position) noexcept {
  FT_CHECK(position >= -kFar && position <= kFar, "%s[%lld] = %lld; expected −2^40 to 2^40", name, static_cast<long long>(b),
           static_cast<long long>(position));
  return {};
}

}  // namespace

Status check_tensor(const char* name, const ConstTensor& t, std::initializer_list<DType> dtypes,
                    std::initializer_list<Extent> extents, Index* strides) noexcept {
  bool known = false;
  for (DType d : dtypes) known = known || t.dtype == d;
  char allowed[64] = "";
  for (int n = 0; DType d : dtypes) n += std::snprintf(allowed + n, sizeof allowed - n, n == 0 ? "%s" : ", %s", name_of(d));
  FT_CHECK(known, "%s.dtype = %s; expected %s", name, name_of(t.dtype), allowed);
  FT_CHECK(t.rank == static_cast<int>(extents.size()), "%s has rank %d; expected %d", name, t.rank,
           static_cast<int>(extents.size()));
  FT_TRY(check_extent(name, t));
  for (int i = 0; const Extent& e : extents) {
    const bool fits = t.shape[i] == e.size || (e.broadcasts && t.shape[i] == 1) || (e.may_exceed && t.shape[i] > e.size);
    FT_CHECK(fits, "%s.shape = %s; expected %s = %lld%s at dimension %d", name, ShapeText(t).text, e.name,
             static_cast<long long>(e.size), e.broadcasts ? " or 1" : "", i);
    strides[i] = t.shape[i] == 1 ? 0 : t.stride[i];
    ++i;
  }
  return {};
}

Status check_writable(const char* name, const Tensor& t) noexcept {
  for (int i = 0; i < t.rank; ++i)
    if (t.shape[i] == 0) return {};  // no element, nothing to write twice
  for (int i = 0; i < t.rank; ++i)
    FT_CHECK(t.stride[i] != 0 || t.shape[i] <= 1,
             "%s.stride[%d] = 0 over %lld elements; expected an output whose "
             "elements are distinct",
             name, i, static_cast<long long>(t.shape[i]));
  return {};
}

Status check_operands(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                      Problem& p) noexcept {
  FT_TRY(check_operand("q", q, p.varlen, p.q));
  FT_TRY(check_operand("k", k, p.varlen, p.k));
  FT_TRY(check_operand("v", v, p.varlen, p.v));
  FT_TRY(check_operand("out", out, p.varlen, p.out));
  FT_TRY(check_writable("out", out));
  FT_TRY(check_dtypes(q, k, v, out));

  const int s = p.varlen ? 0 : 1, h = s + 1, d = s + 2;
  const auto same = [](const char* a, Index x, const char* b, Index y) -> Status {
    FT_CHECK(x == y, "%s = %lld; expected %s = %lld", a, static_cast<long long>(x), b, static_cast<long long>(y));
    return {};
  };
  if (!p.varlen) {
    FT_TRY(same("k.batch", k.shape[0], "q.batch", q.shape[0]));
    FT_TRY(same("v.batch", v.shape[0], "q.batch", q.shape[0]));
    FT_TRY(same("out.batch", out.shape[0], "q.batch", q.shape[0]));
  }
  FT_TRY(same("v.sequence", v.shape[s], "k.sequence", k.shape[s]));
  FT_TRY(same("out.sequence", out.shape[s], "q.sequence", q.shape[s]));
  FT_TRY(same("v.heads", v.shape[h], "k.heads", k.shape[h]));
  FT_TRY(same("out.heads", out.shape[h], "q.heads", q.shape[h]));
  FT_TRY(same("k.head_dim", k.shape[d], "q.head_dim", q.shape[d]));
  FT_TRY(same("out.head_dim", out.shape[d], "v.head_dim", v.shape[d]));
  FT_CHECK(q.shape[d] >= 1, "q.head_dim = 0; expected 1 or more");
  FT_CHECK(v.shape[d] >= 1, "v.head_dim = 0; expected 1 or more");
  // 2^31 · 2^8 bytes is far beyond any head; it keeps panel sizes inside 64 bits.
  FT_CHECK(q.shape[d] <= (1 << 24) && v.shape[d] <= (1 << 24), "head_dim = %lld; expected at most 2^24",
           static_cast<long long>(q.shape[d] > v.shape[d] ? q.shape[d] : v.shape[d]));
  FT_CHECK(k.shape[h] > 0 || q.shape[h] == 0, "k.heads = 0; expected a divisor of q.heads = %lld",
           static_cast<long long>(q.shape[h]));
  FT_CHECK(k.shape[h] == 0 || q.shape[h] % k.shape[h] == 0, "k.heads = %lld; expected a divisor of q.heads = %lld",
           static_cast<long long>(k.shape[h]), static_cast<long long>(q.shape[h]));
  p.batch = p.varlen ? 0 : q.shape[0];
  p.q_rows = q.shape[s], p.k_rows = k.shape[s];
  p.q_heads = q.shape[h], p.kv_heads = k.shape[h];
  p.head_dim = q.shape[d], p.value_dim = v.shape[d];
  return {};
}

Status make_sequences(const Options& o, Problem& p) noexcept {
  Buffer<Index> cu_q, cu_k, query_lengths, key_lengths, query_offset, first_position;
  if (p.varlen) {
    FT_CHECK(o.cu_seqlens_q.present() && o.cu_seqlens_k.present(),
             "cu_seqlens_%s is absent; expected both cu_seqlens_q and cu_seqlens_k or neither",
             o.cu_seqlens_q.present() ? "k" : "q");
    FT_CHECK(o.cu_seqlens_q.shape[0] >= 1, "cu_seqlens_q has 0 entries; expected batch + 1, at least 1");
    const Index entries = o.cu_seqlens_q.shape[0];
    FT_TRY(read_integers("cu_seqlens_q", o.cu_seqlens_q, entries, false, cu_q));
    FT_TRY(read_integers("cu_seqlens_k", o.cu_seqlens_k, entries, false, cu_k));
    FT_TRY(check_cumulative("cu_seqlens_q", cu_q, p.q_rows));
    FT_TRY(check_cumulative("cu_seqlens_k", cu_k, p.k_rows));
    p.batch = entries - 1;
  }
  FT_TRY(read_integers("query_lengths", o.query_lengths, p.batch, false, query_lengths));
  FT_TRY(read_integers("key_lengths", o.key_lengths, p.batch, false, key_lengths));
  FT_TRY(read_integers("query_offset", o.query_offset, p.batch, true, query_offset));
  FT_TRY(read_integers("first_key_position", o.first_key_position, p.batch, true, first_position));

  // Each sequence may leave rows behind it that belong to none, and the packed arrays may have a tail.
  if (!p.sequences.allocate(2 * p.batch + 1))
    return refuse(Code::out_of_memory, "no memory for %lld sequences", static_cast<long long>(p.batch));
  Index paddings = 0;
  const auto pad = [&](Index b, Index first_query, Index queries, Index first_key, Index keys) {
    if (queries == 0 && keys == 0) return;
    Sequence s;
    s.batch = b, s.first_query = first_query, s.queries = queries, s.first_key = first_key, s.keys = keys;
    s.padding = true;
    p.sequences[p.batch + paddings++] = s;
  };
  for (Index b = 0; b < p.batch; ++b) {
    Sequence s;
    s.batch = b;
    s.first_query = p.varlen ? cu_q[b] : 0, s.first_key = p.varlen ? cu_k[b] : 0;
    const Index rows = p.varlen ? cu_q[b + 1] - cu_q[b] : p.q_rows;
    const Index slots = p.varlen ? cu_k[b + 1] - cu_k[b] : p.k_rows;
    s.queries = query_lengths.size() > 0 ? query_lengths[b] : rows;
    s.keys = key_lengths.size() > 0 ? key_lengths[b] : slots;
    FT_TRY(check_lengths("query_lengths", b, s.queries, rows));
    FT_TRY(check_lengths("key_lengths", b, s.keys, slots));
    s.key_position = first_position.size() > 0 ? first_position[b] : 0;
    s.query_position = o.alignment == Alignment::top_left ? s.key_position : s.key_position + s.keys - s.queries;
    if (query_offset.size() > 0) s.query_position = query_offset[b];
    FT_TRY(check_position("first_key_position", b, s.key_position));
    FT_TRY(check_position("query_offset", b, s.query_position));
    p.sequences[b] = s;
    pad(b, s.first_query + s.queries, rows - s.queries, s.first_key + s.keys, slots - s.keys);
  }
  if (p.varlen) pad(0, cu_q[p.batch], p.q_rows - cu_q[p.batch], cu_k[p.batch], p.k_rows - cu_k[p.batch]);
  p.sequence_count = p.batch + paddings;
  return {};
}

}  // namespace flashtile
