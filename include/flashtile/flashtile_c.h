// flashtile in C99: exact attention for CPUs.   out = softmax(scale · q kᵀ + bias) v, in O(S) memory.
//
//   flashtile_options options = FLASHTILE_OPTIONS_INIT;
//   options.causal = 1;
//   if (flashtile_attention(&q, &k, &v, &out, &options) != FLASHTILE_OK) puts(flashtile_last_error());
//
// Same power as flashtile.h, whose comments and docs/semantics.md have the rules behind each word used here.
// What always holds: every field that is 0 or NULL is neutral. Structs that may grow begin with struct_size; a smaller
// one, from an older header, is read as if it ended in zeros; a larger one, from a newer header, is refused only if it
// asks for something that this library does not know. Nothing throws, prints or aborts; a NULL argument that must not
// be NULL is refused by name. Enumerations travel as int32_t.
// Threads: every function may be called from several threads at once; a plan is immutable and may be shared.
#ifndef FLASHTILE_FLASHTILE_C_H_
#define FLASHTILE_FLASHTILE_C_H_

#include <stddef.h>
#include <stdint.h>

#define FLASHTILE_VERSION_MAJOR 0
#define FLASHTILE_VERSION_MINOR 1
#define FLASHTILE_VERSION_PATCH 0

#ifndef FLASHTILE_API
#if defined(_WIN32)
#define FLASHTILE_API
#else
#define FLASHTILE_API __attribute__((visibility("default")))
#endif
#endif

#ifdef __cplusplus
#define FLASHTILE_NOEXCEPT noexcept
extern "C" {
#else
#define FLASHTILE_NOEXCEPT
#endif

// ---- outcome of a call
// -----------------------------------------------------------------------------------------------

typedef int32_t flashtile_status;
enum {
  FLASHTILE_OK = 0,
  FLASHTILE_INVALID_ARGUMENT = 1,  // the caller can mend it; nothing was written
  FLASHTILE_UNSUPPORTED = 2,       // well-formed, but not on this machine or in this version; nothing was written
  FLASHTILE_OUT_OF_MEMORY = 3      // nothing was written
};

/// One line about the last call of this thread that failed: the argument, what it was, what is allowed. "" when none
/// has. Valid until the next failing call of the same thread. A call that succeeds leaves it as it is.
FLASHTILE_API const char* flashtile_last_error(void) FLASHTILE_NOEXCEPT;

// ---- tensors
// ---------------------------------------------------------------------------------------------------------

enum {
  FLASHTILE_F32 = 0,
  FLASHTILE_F64 = 1,
  FLASHTILE_F16 = 2,
  FLASHTILE_BF16 = 3,
  FLASHTILE_BOOL = 4,  // one byte, 0 or not 0
  FLASHTILE_I32 = 5,
  FLASHTILE_I64 = 6
};

/// A view of the caller's array. Strides count elements; the innermost of q, k, v and out is 1, the others are free:
/// they may be negative, and 0 (broadcast) where the option says so. Inputs are only read, whatever the type of data
/// says.
typedef struct flashtile_tensor {
  void* data;
  int32_t dtype;  // FLASHTILE_F32 …
  int32_t rank;   // 1 to 4
  int64_t shape[4];
  int64_t stride[4];
} flashtile_tensor;

/// A dense view, last dimension fastest. A rank outside 1 to 4 or a NULL shape gives rank 0, which every call refuses.
FLASHTILE_API flashtile_tensor flashtile_dense(const void* data, int32_t dtype, int32_t rank,
                                               const int64_t* shape) FLASHTILE_NOEXCEPT;

// ---- options
// ---------------------------------------------------------------------------------------------------------

enum { FLASHTILE_BOTTOM_RIGHT = 0, FLASHTILE_TOP_LEFT = 1 };                               // alignment
enum { FLASHTILE_ARITHMETIC_AUTOMATIC = 0, FLASHTILE_FMA = 1, FLASHTILE_AMX_FAMILY = 2 };  // arithmetic
enum {                                                                                     // isa
  FLASHTILE_ISA_AUTOMATIC = 0,
  FLASHTILE_SCALAR = 1,
  FLASHTILE_NEON = 2,
  FLASHTILE_AVX2 = 3,
  FLASHTILE_AVX512 = 4,
  FLASHTILE_AMX = 5,
  FLASHTILE_AMX_EMULATED = 6
};
enum { FLASHTILE_EMPTY = 0, FLASHTILE_FULL = 1, FLASHTILE_MIXED = 2 };  // coverage

/// One tile of scores, lent to a score modifier. Element (i, j) lies at scores[i · query_stride + j · key_stride] and
/// is the scaled and softcapped score, in natural units, of query index query + i and key index key + j of sequence
/// batch, query head head. −inf hides a key. Its bits may depend on its coordinates and its value only.
typedef struct flashtile_score_tile {
  void* scores;  // float, or double when dtype is FLASHTILE_F64 (fp64 inputs)
  int32_t dtype;
  int64_t query_stride, key_stride;  // in elements
  int64_t queries, keys;
  int64_t batch, head;
  int64_t query, key;                    // indices of element (0, 0) within the sequence
  int64_t query_position, key_position;  // the same as positions
} flashtile_score_tile;

/// FlexAttention's score_mod and mask_mod at tile cost (Dong et al., arXiv 2412.05496). The callbacks may be called
/// from several threads at once and more than once for the same tile, and must return normally (no longjmp, no
/// exception).
typedef struct flashtile_score_modifier {
  void (*apply)(void* context, const flashtile_score_tile* tile);
  /// Optional. FLASHTILE_EMPTY: no key of the block is visible. FLASHTILE_FULL: all are and no score is changed.
  /// FLASHTILE_MIXED is always a right answer, and what any other number is taken for.
  int32_t (*coverage)(void* context, int64_t batch, int64_t head, int64_t query_begin, int64_t query_end, int64_t key_begin,
                      int64_t key_end);
  void* context;  // must live as long as the call, or as long as the plan is run
} flashtile_score_modifier;

/// What can be asked besides q, k, v and out. Order on a logit:
///   s = scale · row_scale · (q·k)  →  softcap  →  score modifier  →  + ALiBi + mask  →  visibility.
/// B batch, Hq / Hkv query / key-value heads, Sq / Sk lengths. Shapes are those of a dense call; in a varlen call what
/// has one entry per (batch, query) has one per packed token. NULL tensors are absent. Tensors are read during the call
/// only.
typedef struct flashtile_options {
  size_t struct_size;  // sizeof(flashtile_options); FLASHTILE_OPTIONS_INIT sets it

  int32_t causal;        // not 0: the same as window_right = 0
  int32_t alignment;     // where query 0 stands without query_offset: FLASHTILE_BOTTOM_RIGHT or FLASHTILE_TOP_LEFT
  int32_t has_window;    // not 0: window_left and window_right count
  int32_t has_scale;     // not 0: scale counts, whatever it is, 0 included; else 1/√D
  int32_t arithmetic;    // FLASHTILE_ARITHMETIC_AUTOMATIC, FLASHTILE_FMA or FLASHTILE_AMX_FAMILY
  int32_t isa;           // caps the choice; FLASHTILE_ISA_AUTOMATIC is the best that the machine has
  int32_t threads;       // of flashtile_attention; 0: what affinity mask and cgroup quota allow
  int64_t window_left;   // neighbours seen to the left of a query's own position, −1: unlimited
  int64_t window_right;  // and to the right. A causal window of W tokens is W − 1 and 0
  double scale;
  double softcap;  // s ← cap · tanh(s / cap); 0 is off

  const flashtile_tensor* mask;          // (B|1, Hq|1, Sq|1, Sk) or (Sq|1, Sk): bool (true = attend) or float (added)
  const flashtile_tensor* alibi_slopes;  // f32 (Hq) or (B, Hq): bias −slope · |query position − key position|
  const flashtile_tensor* sinks;         // f32 (Hq): logits that join the denominator only
  const flashtile_tensor* row_scale;     // f32 (B|1, Hq|1, Sq); varlen (Hq|1, total_q)
  const flashtile_tensor* key_begin;     // i32 (B|1, Sq); varlen (total_q): row i sees key_begin ≤ j < key_end only
  const flashtile_tensor* key_end;

  const flashtile_tensor* cu_seqlens_q;        // i32 (B + 1), from 0, not decreasing: makes the call varlen
  const flashtile_tensor* cu_seqlens_k;        // both or none
  const flashtile_tensor* query_lengths;       // i32 (B): later rows of each sequence are written as 0
  const flashtile_tensor* key_lengths;         // i32 (B): later keys of each sequence do not exist
  const flashtile_tensor* query_offset;        // i32 or i64 (B): position of query 0
  const flashtile_tensor* first_key_position;  // i32 or i64 (B): position of key 0; default 0

  // Dropout on the normalised weights: Philox4x32-10 of (seed, offset; batch, head, query, key), whatever the tiling.
  double dropout_probability;  // 0 ≤ p < 1; 0 is off
  uint64_t dropout_seed;
  uint64_t dropout_offset;  // advance it from call to call

  // Outputs, f32 (f64 for f64 inputs), (B, Hq, Sq); varlen (Hq, total_q). They overlap nothing.
  const flashtile_tensor* lse;              // natural log of Σ exp(logit)
  const flashtile_tensor* largest_weight;   // max_j P_ij
  const flashtile_tensor* entropy;          // −Σ_j P_ij ln P_ij in nats
  const flashtile_tensor* logit_mean;       // of the visible logits
  const flashtile_tensor* logit_deviation;  // their standard deviation (population)
  const flashtile_tensor* key_weights;      // (B, Hq, Sk); varlen (Hq, total_k): Σ_i P_ij

  flashtile_score_modifier score_modifier;
} flashtile_options;

/// Neutral options of this header's size. C: an initialiser. C++: an expression.
#ifdef __cplusplus
}
static inline flashtile_options flashtile_neutral_options() noexcept {
  flashtile_options options = {};
  options.struct_size = sizeof(flashtile_options);
  return options;
}
extern "C" {
#define FLASHTILE_OPTIONS_INIT flashtile_neutral_options()
#else
#define FLASHTILE_OPTIONS_INIT {.struct_size = sizeof(flashtile_options)}
#endif

/// The same for languages without macros: struct_size bytes become neutral options of that size.
FLASHTILE_API flashtile_status flashtile_options_init(flashtile_options* options, size_t struct_size) FLASHTILE_NOEXCEPT;

// ---- the easy call
// ---------------------------------------------------------------------------------------------------

/// out = softmax(scale · q kᵀ) v, exactly, without storing the score matrix.
///
/// q (B, Sq, Hq, D), k (B, Sk, Hkv, D), v (B, Sk, Hkv, Dv), out (B, Sq, Hq, Dv); varlen: (total, H, D) with
/// cu_seqlens_q and _k. Query head h reads key-value head h / (Hq / Hkv). D and Dv are any sizes ≥ 1. dtypes: all fp64;
/// or q, k, v each fp32, fp16 or bf16 and out fp32 or q's dtype. out and the other outputs overlap neither each other
/// nor an input. options may be NULL. Works in a forked child and inside a worker. The bits of a row depend neither on
/// the thread count nor on the other rows. Every argument is checked before anything is written.
/// Method: online softmax (Milakov & Gimelshein, arXiv 1805.02867) by tiles (Dao, FlashAttention-2, arXiv 2307.08691,
/// algorithm 1) with a power-of-two stabiliser; docs/numerics.md has every operation.
FLASHTILE_API flashtile_status flashtile_attention(const flashtile_tensor* q, const flashtile_tensor* k,
                                                   const flashtile_tensor* v, const flashtile_tensor* out,
                                                   const flashtile_options* options) FLASHTILE_NOEXCEPT;

// ---- plans, for callers with a thread pool of their own
// ----------------------------------------------------------------

typedef struct flashtile_plan flashtile_plan;

/// The arrays of one run. NULL where the plan has no such tensor.
typedef struct flashtile_arrays {
  size_t struct_size;  // sizeof(flashtile_arrays)
  const void *q, *k, *v;
  void* out;
  const void *mask, *alibi_slopes, *sinks, *row_scale, *key_begin, *key_end;
  void *lse, *largest_weight, *entropy, *logit_mean, *logit_deviation, *key_weights;
} flashtile_arrays;

/// What a plan decided, as numbers; flashtile_plan_explain says the same in words.
typedef struct flashtile_facts {
  size_t struct_size;      // sizeof(flashtile_facts), set by the caller
  const char* isa;         // "avx512"; lives as long as the library
  const char* arithmetic;  // "fma" or "amx"; likewise
  int32_t threads;         // what flashtile_attention would use
  int32_t tile_queries;    // rows of a query tile
  int32_t block_keys;      // keys folded at once
  int32_t chunk_keys;      // keys folded from a fresh state
  int64_t tasks;
  int64_t visible_pairs;     // (query, key) pairs that interval rules leave visible, over all heads
  double flops;              // 2 · visible_pairs · (D + Dv)
  double bytes_min;          // each input read once, each output written once
  uint64_t workspace_bytes;  // for one worker
} flashtile_facts;

/// Checks the arguments and plans. Arguments as for flashtile_attention, but data pointers of q, k, v, out, masks and
/// outputs may be NULL. Lengths, offsets and cu_seqlens are read now and kept. *plan is set only on success; destroy
/// it.
FLASHTILE_API flashtile_status flashtile_plan_create(const flashtile_tensor* q, const flashtile_tensor* k,
                                                     const flashtile_tensor* v, const flashtile_tensor* out,
                                                     const flashtile_options* options,
                                                     flashtile_plan** plan) FLASHTILE_NOEXCEPT;
FLASHTILE_API void flashtile_plan_destroy(flashtile_plan* plan) FLASHTILE_NOEXCEPT;  // NULL is fine

/// Fills arrays (struct_size set by the caller) with the data pointers of the arguments of a call.
FLASHTILE_API flashtile_status flashtile_arrays_of(const flashtile_tensor* q, const flashtile_tensor* k,
                                                   const flashtile_tensor* v, const flashtile_tensor* out,
                                                   const flashtile_options* options,
                                                   flashtile_arrays* arrays) FLASHTILE_NOEXCEPT;

/// Bytes of scratch that n_workers workers need together, at any alignment. 0 for a NULL plan.
FLASHTILE_API size_t flashtile_plan_workspace_bytes(const flashtile_plan* plan, int32_t n_workers) FLASHTILE_NOEXCEPT;

/// Does share worker of n_workers of the work. Every share must be run once, by any threads, in any order, at once or
/// one after another. Allocates nothing. All shares of one run get the same arrays and the same workspace.
FLASHTILE_API flashtile_status flashtile_plan_run(const flashtile_plan* plan, const flashtile_arrays* arrays,
                                                  void* workspace, size_t workspace_size, int32_t worker,
                                                  int32_t n_workers) FLASHTILE_NOEXCEPT;

/// Writes, in words, what the plan would run and why; and the problem in flashtile's one-line grammar. Both return the
/// length without the final NUL and write at most size bytes, NUL-terminated when size > 0; a NULL buffer with size 0
/// asks for the length. A NULL plan gives 0 and an error text.
FLASHTILE_API size_t flashtile_plan_explain(const flashtile_plan* plan, char* buffer, size_t size) FLASHTILE_NOEXCEPT;
FLASHTILE_API size_t flashtile_plan_problem_line(const flashtile_plan* plan, char* buffer, size_t size) FLASHTILE_NOEXCEPT;
FLASHTILE_API flashtile_status flashtile_plan_facts(const flashtile_plan* plan, flashtile_facts* facts) FLASHTILE_NOEXCEPT;

// ---- library and machine
// -----------------------------------------------------------------------------------------------

/// "0.1.0"; 10000 · major + 100 · minor + patch of the library that runs (not of this header); and its commit.
FLASHTILE_API const char* flashtile_version(void) FLASHTILE_NOEXCEPT;
FLASHTILE_API int32_t flashtile_version_number(void) FLASHTILE_NOEXCEPT;
FLASHTILE_API const char* flashtile_commit(void) FLASHTILE_NOEXCEPT;

/// What the plan knows of the machine. Caches in bytes, of one core (l3: shared).
typedef struct flashtile_machine {
  size_t struct_size;  // sizeof(flashtile_machine), set by the caller
  char cpu[64];
  int32_t threads;      // min(affinity mask, cgroup quota)
  int32_t affinity;     // CPUs in the affinity mask
  double cgroup_quota;  // CPUs; 0 when there is no limit
  int64_t l1, l2, l3;
} flashtile_machine;
FLASHTILE_API flashtile_status flashtile_machine_report(flashtile_machine* machine) FLASHTILE_NOEXCEPT;

/// One instruction set as this library and this machine see it.
typedef struct flashtile_isa_report {
  size_t struct_size;  // written by flashtile_isa_reports
  const char* name;    // "avx512"; lives as long as the library
  int32_t isa;
  int32_t built, available, chosen;
  char reason[120];  // why it is not available or not chosen; empty for a chosen one: the best, and beside amx (bf16 query,
      // key and value alone) the best of the others
} flashtile_isa_report;

/// Fills at most count reports, best first, each report_size = sizeof(flashtile_isa_report) bytes after the last;
/// returns how many there are, or −1 with an error text. reports may be NULL when count is 0.
FLASHTILE_API int32_t flashtile_isa_reports(flashtile_isa_report* reports, size_t report_size,
                                            int32_t count) FLASHTILE_NOEXCEPT;

/// Instruction set by name ("avx2"); FLASHTILE_ISA_AUTOMATIC for "auto" or NULL. *isa is set only on success.
FLASHTILE_API flashtile_status flashtile_parse_isa(const char* name, int32_t* isa) FLASHTILE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif  // FLASHTILE_FLASHTILE_C_H_
