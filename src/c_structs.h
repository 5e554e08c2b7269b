// The structs of flashtile_c.h read into those of flashtile.h, and checked where C leaves unchecked: NULL,
// enumerations, sizes. Every refusal names the member. Included by c_api.cpp only; no rule of attention lives here.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "flashtile/flashtile.h"
#include "flashtile/flashtile_c.h"

namespace flashtile::c {

// A struct_size beyond this is an uninitialised one; reading that far would leave the caller's struct.
constexpr std::size_t kLargestStruct = 4096;

static_assert(sizeof(Status::text) >= 200);
static_assert(sizeof(void*) != 8 || offsetof(flashtile_options, score_modifier) + sizeof(flashtile_score_modifier) ==
                                        sizeof(flashtile_options),
              "trailing padding would become part of a later version's fields");
static_assert(FLASHTILE_I64 == static_cast<int>(DType::i64) && FLASHTILE_TOP_LEFT == static_cast<int>(Alignment::top_left) &&
              FLASHTILE_AMX_FAMILY == static_cast<int>(Arithmetic::amx) &&
              FLASHTILE_MIXED == static_cast<int>(Coverage::mixed) &&
              FLASHTILE_AMX_EMULATED == static_cast<int>(Isa::amx_emulated) &&
              FLASHTILE_OUT_OF_MEMORY == static_cast<int>(Code::out_of_memory));

inline Status refused(const char* name, const char* member, long long was, const char* allowed) {
  Status status;
  status.code = Code::invalid_argument;
  std::snprintf(status.text, sizeof status.text, "%s%s = %lld; expected %s", name, member, was, allowed);
  return status;
}

inline Status refused_null(const char* name, const char* allowed) {
  Status status;
  status.code = Code::invalid_argument;
  std::snprintf(status.text, sizeof status.text, "%s = NULL; expected %s", name, allowed);
  return status;
}

// ---- size-prefixed structs
// -------------------------------------------------------------------------------------------

inline Status check_size(const char* name, std::size_t size, const char* allowed) {
  if (size >= sizeof(std::size_t) && size <= kLargestStruct) return {};
  return refused(name, ".struct_size", static_cast<long long>(size), allowed);
}

/// Reads a caller's struct of any version into one of ours: a missing tail is zeros, an unknown tail must be.
template <class Struct>
Status take(const char* name, const Struct& from, Struct& to, const char* allowed) {
  const std::size_t size = from.struct_size;
  if (const Status status = check_size(name, size, allowed); !status.ok()) return status;
  std::memset(&to, 0, sizeof to);
  std::memcpy(&to, &from, size < sizeof to ? size : sizeof to);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&from);
  for (std::size_t i = sizeof to; i < size; ++i)
    if (bytes[i] != 0)
      return refused(name, ".struct_size", static_cast<long long>(size),
                     "no option of a newer version than this library's: a field beyond its size is not 0");
  to.struct_size = sizeof to;
  return {};
}

/// Fills a caller's struct of any version from one of ours: what the caller does not know is dropped, what we do not
/// know becomes 0.
template <class Struct>
void give(const Struct& from, Struct* to, std::size_t size) {
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &from, size < sizeof from ? size : sizeof from);
  to->struct_size = size;
}

// ---- tensors and options
// ---------------------------------------------------------------------------------------------

inline Status read_tensor(const char* name, const flashtile_tensor* from, Tensor& to) {
  if (from == nullptr) return refused_null(name, "a flashtile_tensor");
  if (from->dtype < FLASHTILE_F32 || from->dtype > FLASHTILE_I64)
    return refused(name, ".dtype", from->dtype, "FLASHTILE_F32 (0) to FLASHTILE_I64 (6)");
  if (from->rank < 1 || from->rank > kMaxRank) return refused(name, ".rank", from->rank, "1 to 4");
  to.data = from->data;
  to.dtype = static_cast<DType>(from->dtype);
  to.rank = from->rank;
  for (int i = 0; i < kMaxRank; ++i) to.shape[i] = from->shape[i], to.stride[i] = from->stride[i];
  return {};
}

struct OptionalInput {
  const char* name;
  const flashtile_tensor* flashtile_options::* from;
  ConstTensor Options::* to;
};
constexpr OptionalInput kInputs[] = {
    {"mask", &flashtile_options::mask, &Options::mask},
    {"alibi_slopes", &flashtile_options::alibi_slopes, &Options::alibi_slopes},
    {"sinks", &flashtile_options::sinks, &Options::sinks},
    {"row_scale", &flashtile_options::row_scale, &Options::row_scale},
    {"key_begin", &flashtile_options::key_begin, &Options::key_begin},
    {"key_end", &flashtile_options::key_end, &Options::key_end},
    {"cu_seqlens_q", &flashtile_options::cu_seqlens_q, &Options::cu_seqlens_q},
    {"cu_seqlens_k", &flashtile_options::cu_seqlens_k, &Options::cu_seqlens_k},
    {"query_lengths", &flashtile_options::query_lengths, &Options::query_lengths},
    {"key_lengths", &flashtile_options::key_lengths, &Options::key_lengths},
    {"query_offset", &flashtile_options::query_offset, &Options::query_offset},
    {"first_key_position", &flashtile_options::first_key_position, &Options::first_key_position},
};

inline Status read_tensors(const flashtile_options& from, Options& to) {
  for (const OptionalInput& input : kInputs) {
    if (from.*input.from == nullptr) continue;
    Tensor tensor;
    if (const Status status = read_tensor(input.name, from.*input.from, tensor); !status.ok()) return status;
    to.*input.to = tensor;
  }
  const struct {
    const char* name;
    const flashtile_tensor* from;
    Tensor* to;
  } outputs[] = {{"lse", from.lse, &to.lse},
                 {"largest_weight", from.largest_weight, &to.statistics.largest_weight},
                 {"entropy", from.entropy, &to.statistics.entropy},
                 {"logit_mean", from.logit_mean, &to.statistics.logit_mean},
                 {"logit_deviation", from.logit_deviation, &to.statistics.logit_deviation},
                 {"key_weights", from.key_weights, &to.key_weights}};
  for (const auto& output : outputs)
    if (output.from != nullptr)
      if (const Status status = read_tensor(output.name, output.from, *output.to); !status.ok()) return status;
  return {};
}

// ---- score modifiers: C++ calls us, we call C
// ------------------------------------------------------------------------

inline void apply_c(void* context, const ScoreTile& tile) {
  const auto& modifier = *static_cast<const flashtile_score_modifier*>(context);
  const flashtile_score_tile c_tile = {tile.scores,         static_cast<std::int32_t>(tile.dtype),
                                       tile.query_stride,   tile.key_stride,
                                       tile.queries,        tile.keys,
                                       tile.batch,          tile.head,
                                       tile.query,          tile.key,
                                       tile.query_position, tile.key_position};
  modifier.apply(modifier.context, &c_tile);
}

inline Coverage coverage_c(void* context, std::int64_t batch, std::int64_t head, std::int64_t query_begin,
                           std::int64_t query_end, std::int64_t key_begin, std::int64_t key_end) {
  const auto& modifier = *static_cast<const flashtile_score_modifier*>(context);
  switch (modifier.coverage(modifier.context, batch, head, query_begin, query_end, key_begin, key_end)) {
    case FLASHTILE_EMPTY: return Coverage::empty;
    case FLASHTILE_FULL: return Coverage::full;
    default: return Coverage::mixed;
  }
}

/// `modifier` must outlive every use of the options.
inline Status read_options(const flashtile_options* given, Options& to, flashtile_score_modifier& modifier) {
  if (given == nullptr) return {};
  flashtile_options from;
  if (const Status status = take("options", *given, from, "sizeof(flashtile_options), as FLASHTILE_OPTIONS_INIT sets it");
      !status.ok())
    return status;
  if (from.alignment < FLASHTILE_BOTTOM_RIGHT || from.alignment > FLASHTILE_TOP_LEFT)
    return refused("alignment", "", from.alignment, "FLASHTILE_BOTTOM_RIGHT (0) or FLASHTILE_TOP_LEFT (1)");
  if (from.arithmetic < FLASHTILE_ARITHMETIC_AUTOMATIC || from.arithmetic > FLASHTILE_AMX_FAMILY)
    return refused("arithmetic", "", from.arithmetic, "FLASHTILE_ARITHMETIC_AUTOMATIC (0) to FLASHTILE_AMX_FAMILY (2)");
  if (from.isa < FLASHTILE_ISA_AUTOMATIC || from.isa > FLASHTILE_AMX_EMULATED)
    return refused("isa", "", from.isa, "FLASHTILE_ISA_AUTOMATIC (0) to FLASHTILE_AMX_EMULATED (6)");
  to.causal = from.causal != 0;
  to.alignment = static_cast<Alignment>(from.alignment);
  if (from.has_window != 0) to.window = {from.window_left, from.window_right};
  if (from.has_scale != 0) to.scale = from.scale;
  to.softcap = from.softcap;
  to.dropout = {from.dropout_probability, from.dropout_seed, from.dropout_offset};
  to.arithmetic = static_cast<Arithmetic>(from.arithmetic);
  to.isa = static_cast<Isa>(from.isa);
  to.threads = from.threads;
  modifier = from.score_modifier;
  to.score_modifier.apply = modifier.apply == nullptr ? nullptr : apply_c;
  to.score_modifier.coverage = modifier.coverage == nullptr ? nullptr : coverage_c;
  to.score_modifier.context = &modifier;
  return read_tensors(from, to);
}

/// The arguments that every call on tensors shares.
struct Call {
  Tensor q, k, v, out;
  Options options;
};

inline Status read_call(const flashtile_tensor* q, const flashtile_tensor* k, const flashtile_tensor* v,
                        const flashtile_tensor* out, const flashtile_options* options, Call& call,
                        flashtile_score_modifier& modifier) {
  Status status = read_tensor("q", q, call.q);
  if (status.ok()) status = read_tensor("k", k, call.k);
  if (status.ok()) status = read_tensor("v", v, call.v);
  if (status.ok()) status = read_tensor("out", out, call.out);
  if (status.ok()) status = read_options(options, call.options, modifier);
  return status;
}

}  // namespace flashtile::c
