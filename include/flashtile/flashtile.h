// flashtile: exact attention for CPUs.   out = softmax(scale · q kᵀ + bias) v, tile by tile, in O(S) memory.
//
//   flashtile::attention(q, k, v, out, {.causal = true, .lse = lse});
//
// One call is enough for most uses. Engines with a thread pool of their own make a Plan once per step and let each of
// their workers call run(). Everything is noexcept except the functions that say so, which exist only where exceptions
// are enabled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flashtile/error.h"
#include "flashtile/options.h"
#include "flashtile/tensor.h"

#if defined(__cpp_exceptions)
#include <string>
#endif

#define FLASHTILE_VERSION_MAJOR 0
#define FLASHTILE_VERSION_MINOR 1
#define FLASHTILE_VERSION_PATCH 0

#if defined(_WIN32)
#define FLASHTILE_API
#else
#define FLASHTILE_API __attribute__((visibility("default")))
#endif

namespace flashtile {

/// out = softmax(scale · q kᵀ) v, exactly, without storing the score matrix.
///
/// q (B, Sq, Hq, D), k (B, Sk, Hkv, D), v (B, Sk, Hkv, Dv), out (B, Sq, Hq, Dv); varlen: (total, H, D) with
/// options.cu_seqlens_q and _k. Query head h reads key-value head h / (Hq / Hkv). D and Dv are any sizes ≥ 1.
/// dtypes: all fp64; or q, k, v each fp32, fp16 or bf16 and out fp32 or q's dtype. Strides are free but for the
/// innermost, which is 1. out and the other outputs overlap neither each other nor an input.
/// Safe to call from several threads, from a forked child and from inside a worker. The bits of a row depend neither on
/// the thread count nor on the other rows. Returns invalid_argument, unsupported or out_of_memory before writing
/// anything. Method: online softmax (Milakov & Gimelshein, arXiv 1805.02867) by tiles (Dao, FlashAttention-2, arXiv
/// 2307.08691, algorithm 1) with a power-of-two stabiliser; docs/numerics.md has every operation.
FLASHTILE_API Status try_attention(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                                   const Options& options = {}) noexcept;

/// The arrays of one run of a plan: the plan knows shapes and strides, a run brings pointers. Null where the plan has
/// no such tensor. Made by tensors_of() or by hand, one per layer.
struct Tensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  const void *mask = nullptr, *alibi_slopes = nullptr, *sinks = nullptr, *row_scale = nullptr;
  const void *key_begin = nullptr, *key_end = nullptr;
  void *lse = nullptr, *largest_weight = nullptr, *entropy = nullptr, *logit_mean = nullptr, *logit_deviation = nullptr;
  void* key_weights = nullptr;
};
FLASHTILE_API Tensors tensors_of(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                                 const Options& options) noexcept;

/// What a plan decided, as numbers. explain() says the same in words.
struct PlanFacts {
  const char* isa = "";           // "avx512"
  const char* arithmetic = "";    // "fma" or "amx"
  int threads = 0;                // what the easy call would use
  int tile_queries = 0;           // rows of a query tile
  int block_keys = 0;             // keys folded at once; boundaries at multiples of it
  int chunk_keys = 0;             // keys folded from a fresh state; boundaries at multiples of it
  std::int64_t tasks = 0;
  std::int64_t visible_pairs = 0;  // (query, key) pairs that interval rules leave visible, over all heads
  double flops = 0;                // 2 · visible_pairs · (D + Dv)
  double bytes_min = 0;            // each input read once, each output written once
  std::size_t workspace_bytes = 0;  // for one worker
};

/// A checked problem and how it will be computed. Immutable; may be shared by threads and used for any number of runs
/// with other arrays of the same shapes and strides. Movable, not copyable.
class FLASHTILE_API Plan {
 public:
  Plan() noexcept = default;
  Plan(Plan&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  Plan& operator=(Plan&& other) noexcept;
  ~Plan();

  bool valid() const noexcept { return data_ != nullptr; }
  PlanFacts facts() const noexcept;  // REQUIRES: valid()

  struct Data;  // opaque
  const Data* data() const noexcept { return data_; }

 private:
  friend FLASHTILE_API Status try_plan(const ConstTensor&, const ConstTensor&, const ConstTensor&, const Tensor&,
                                       const Options&, Plan&) noexcept;
  const Data* data_ = nullptr;
};

/// Checks the arguments and plans; arguments as for attention, but data pointers of q, k, v, out, masks and outputs may
/// be null. Lengths, offsets and cu_seqlens are read now and kept; everything else is read by run().
FLASHTILE_API Status try_plan(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                              const Options& options, Plan& plan) noexcept;

/// Bytes of scratch that n_workers workers need together. Any alignment will do. 0 for an invalid plan.
FLASHTILE_API std::size_t workspace_bytes(const Plan& plan, int n_workers) noexcept;

/// Does share `worker` of `n_workers` of the work. Every share must be run once, by any threads, in any order, at once
/// or one after another: no share waits for another. Allocates nothing, throws nothing, looks nothing up. All shares of
/// one run get the same tensors and the same workspace of at least workspace_bytes(plan, n_workers) bytes.
FLASHTILE_API Status run(const Plan& plan, const Tensors& tensors, void* workspace, std::size_t workspace_size, int worker,
                         int n_workers) noexcept;

/// Writes, in words, what the plan would run and why. Returns the length without the final NUL; writes at most `size`
/// bytes, NUL-terminated when size > 0 (like snprintf).
FLASHTILE_API std::size_t explain(const Plan& plan, char* buffer, std::size_t size) noexcept;

/// The plan's problem in the one grammar of flashtile's commands and documents (docs/semantics.md, "Problems in one
/// line"): "--dtype bf16 --q 1x2048x8x128 --k 1x2048x2x128 --v 1x2048x2x128 --causal". Same contract as explain().
FLASHTILE_API std::size_t problem_line(const Plan& plan, char* buffer, std::size_t size) noexcept;

/// "0.1.0", and the commit it was built from ("unknown" outside a checkout).
FLASHTILE_API const char* version() noexcept;
FLASHTILE_API const char* commit() noexcept;

/// One instruction set as this library and this machine see it.
struct IsaReport {
  Isa isa = Isa::automatic;
  const char* name = "";
  bool built = false, available = false, chosen = false;
  char reason[120] = {};  // why it is not available or not chosen; empty for a chosen one: the best, and beside amx
                          // (bf16 query, key and value alone) the best of the others
};
/// Fills at most `size` reports, best first; returns how many there are.
FLASHTILE_API int isa_reports(IsaReport* reports, int size) noexcept;

/// What the plan knows of the machine. Caches in bytes, of one core (l3: shared).
struct MachineReport {
  char cpu[64] = {};
  int threads = 1;           // min(affinity mask, cgroup quota): the default of the easy call
  int affinity = 1;          // CPUs in the affinity mask
  double cgroup_quota = 0;   // CPUs; 0 when there is no limit
  std::int64_t l1 = 0, l2 = 0, l3 = 0;
};
FLASHTILE_API MachineReport machine_report() noexcept;

/// Isa by name ("avx2"), automatic for "auto" or null. Returns false, leaving isa as it was, for an unknown name.
FLASHTILE_API bool parse_isa(const char* name, Isa& isa) noexcept;

#if defined(__cpp_exceptions)
/// try_attention, but throws Error.
inline void attention(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                      const Options& options = {}) {
  const Status status = try_attention(q, k, v, out, options);
  if (!status.ok()) throw Error(status);
}

/// try_plan, but throws Error.
inline Plan plan(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                 const Options& options = {}) {
  Plan made;
  const Status status = try_plan(q, k, v, out, options, made);
  if (!status.ok()) throw Error(status);
  return made;
}

inline std::string explain(const Plan& plan) {
  std::string text(explain(plan, nullptr, 0), '\0');
  explain(plan, text.data(), text.size() + 1);
  return text;
}
inline std::string problem_line(const Plan& plan) {
  std::string text(problem_line(plan, nullptr, 0), '\0');
  problem_line(plan, text.data(), text.size() + 1);
  return text;
}
#endif

}  // namespace flashtile
