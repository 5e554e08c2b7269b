// The C interface: each function translates its structs (c_structs.h), calls its C++ namesake and keeps the error text.
//
// The only state is one error text per thread.
#include "flashtile/flashtile_c.h"

#include <cstdio>
#include <cstring>
#include <new>

#include "c_structs.h"
#include "flashtile/flashtile.h"

namespace ft = flashtile;

/// What a C plan owns. The score modifier lives beside the plan because the plan keeps a pointer to it.
struct flashtile_plan {
  ft::Plan plan;
  flashtile_score_modifier modifier = {};
};

namespace {

using namespace flashtile::c;

thread_local char last_error[sizeof(ft::Status::text)] = "";

flashtile_status report(const ft::Status& status) {
  if (!status.ok()) std::memcpy(last_error, status.text, sizeof last_error);
  return static_cast<flashtile_status>(status.code);
}

using Writer = std::size_t (*)(const ft::Plan&, char*, std::size_t) noexcept;

std::size_t write_text(Writer write, const flashtile_plan* plan, char* buffer, std::size_t size) {
  if (buffer != nullptr && size > 0) buffer[0] = '\0';
  if (plan == nullptr) {
    report(refused_null("plan", "a plan of flashtile_plan_create"));
    return 0;
  }
  if (buffer == nullptr && size > 0) {
    report(refused_null("buffer", "size bytes, or size = 0"));
    return 0;
  }
  return write(plan->plan, buffer, size);
}

}  // namespace

extern "C" {

const char* flashtile_last_error(void) noexcept { return last_error; }

flashtile_tensor flashtile_dense(const void* data, int32_t dtype, int32_t rank, const int64_t* shape) noexcept {
  flashtile_tensor tensor = {};
  tensor.data = const_cast<void*>(data);
  tensor.dtype = dtype;
  if (rank < 1 || rank > ft::kMaxRank || shape == nullptr) return tensor;
  tensor.rank = rank;
  std::uint64_t step = 1;  // wraps for absurd shapes instead of overflowing; the calls refuse those shapes
  for (int i = rank - 1; i >= 0; --i) {
    tensor.shape[i] = shape[i];
    tensor.stride[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(shape[i]);
  }
  return tensor;
}

flashtile_status flashtile_options_init(flashtile_options* options, size_t struct_size) noexcept {
  if (options == nullptr) return report(refused_null("options", "a flashtile_options"));
  const ft::Status status = check_size("options", struct_size, "sizeof(flashtile_options)");
  if (status.ok()) {
    std::memset(static_cast<void*>(options), 0, struct_size);
    options->struct_size = struct_size;
  }
  return report(status);
}

flashtile_status flashtile_attention(const flashtile_tensor* q, const flashtile_tensor* k, const flashtile_tensor* v,
                                     const flashtile_tensor* out, const flashtile_options* options) noexcept {
  Call call;
  flashtile_score_modifier modifier = {};
  ft::Status status = read_call(q, k, v, out, options, call, modifier);
  if (status.ok()) status = ft::try_attention(call.q, call.k, call.v, call.out, call.options);
  return report(status);
}

flashtile_status flashtile_plan_create(const flashtile_tensor* q, const flashtile_tensor* k, const flashtile_tensor* v,
                                       const flashtile_tensor* out, const flashtile_options* options,
                                       flashtile_plan** plan) noexcept {
  if (plan == nullptr) return report(refused_null("plan", "a place for the plan's pointer"));
  auto* made = new (std::nothrow) flashtile_plan;
  if (made == nullptr) {
    ft::Status status = refused("plan", "", 0, "memory for it, but there is none left");
    status.code = ft::Code::out_of_memory;
    return report(status);
  }
  Call call;
  ft::Status status = read_call(q, k, v, out, options, call, made->modifier);
  if (status.ok()) status = ft::try_plan(call.q, call.k, call.v, call.out, call.options, made->plan);
  if (status.ok()) *plan = made;
  else delete made;
  return report(status);
}

void flashtile_plan_destroy(flashtile_plan* plan) noexcept { delete plan; }

flashtile_status flashtile_arrays_of(const flashtile_tensor* q, const flashtile_tensor* k, const flashtile_tensor* v,
                                     const flashtile_tensor* out, const flashtile_options* options,
                                     flashtile_arrays* arrays) noexcept {
  if (arrays == nullptr) return report(refused_null("arrays", "a flashtile_arrays"));
  Call call;
  flashtile_score_modifier modifier = {};
  ft::Status status = check_size("arrays", arrays->struct_size, "sizeof(flashtile_arrays)");
  if (status.ok()) status = read_call(q, k, v, out, options, call, modifier);
  if (!status.ok()) return report(status);
  const ft::Tensors t = ft::tensors_of(call.q, call.k, call.v, call.out, call.options);
  const flashtile_arrays filled = {sizeof(flashtile_arrays),
                                   t.q,
                                   t.k,
                                   t.v,
                                   t.out,
                                   t.mask,
                                   t.alibi_slopes,
                                   t.sinks,
                                   t.row_scale,
                                   t.key_begin,
                                   t.key_end,
                                   t.lse,
                                   t.largest_weight,
                                   t.entropy,
                                   t.logit_mean,
                                   t.logit_deviation,
                                   t.key_weights};
  give(filled, arrays, arrays->struct_size);
  return FLASHTILE_OK;
}

size_t flashtile_plan_workspace_bytes(const flashtile_plan* plan, int32_t n_workers) noexcept {
  if (plan != nullptr) return ft::workspace_bytes(plan->plan, n_workers);
  report(refused_null("plan", "a plan of flashtile_plan_create"));
  return 0;
}

flashtile_status flashtile_plan_run(const flashtile_plan* plan, const flashtile_arrays* arrays, void* workspace,
                                    size_t workspace_size, int32_t worker, int32_t n_workers) noexcept {
  if (plan == nullptr) return report(refused_null("plan", "a plan of flashtile_plan_create"));
  if (arrays == nullptr) return report(refused_null("arrays", "a flashtile_arrays"));
  flashtile_arrays a;
  if (const ft::Status status = take("arrays", *arrays, a, "sizeof(flashtile_arrays)"); !status.ok()) return report(status);
  const ft::Tensors tensors = {a.q,          a.k,          a.v,
                               a.out,        a.mask,       a.alibi_slopes,
                               a.sinks,      a.row_scale,  a.key_begin,
                               a.key_end,    a.lse,        a.largest_weight,
                               a.entropy,    a.logit_mean, a.logit_deviation,
                               a.key_weights};
  return report(ft::run(plan->plan, tensors, workspace, workspace_size, worker, n_workers));
}

size_t flashtile_plan_explain(const flashtile_plan* plan, char* buffer, size_t size) noexcept {
  return write_text(ft::explain, plan, buffer, size);
}

size_t flashtile_plan_problem_line(const flashtile_plan* plan, char* buffer, size_t size) noexcept {
  return write_text(ft::problem_line, plan, buffer, size);
}

flashtile_status flashtile_plan_facts(const flashtile_plan* plan, flashtile_facts* facts) noexcept {
  if (plan == nullptr) return report(refused_null("plan", "a plan of flashtile_plan_create"));
  if (facts == nullptr) return report(refused_null("facts", "a flashtile_facts"));
  if (const ft::Status status = check_size("facts", facts->struct_size, "sizeof(flashtile_facts)"); !status.ok())
    return report(status);
  const ft::PlanFacts f = plan->plan.facts();
  const flashtile_facts filled = {sizeof(flashtile_facts), f.isa,        f.arithmetic, f.threads,
                                  f.tile_queries,          f.block_keys, f.chunk_keys, f.tasks,
                                  f.visible_pairs,         f.flops,      f.bytes_min,  f.workspace_bytes};
  give(filled, facts, facts->struct_size);
  return FLASHTILE_OK;
}

const char* flashtile_version(void) noexcept { return ft::version(); }
const char* flashtile_commit(void) noexcept { return ft::commit(); }
int32_t flashtile_version_number(void) noexcept {
  return FLASHTILE_VERSION_MAJOR * 10000 + FLASHTILE_VERSION_MINOR * 100 + FLASHTILE_VERSION_PATCH;
}

flashtile_status flashtile_machine_report(flashtile_machine* machine) noexcept {
  if (machine == nullptr) return report(refused_null("machine", "a flashtile_machine"));
  if (const ft::Status status = check_size("machine", machine->struct_size, "sizeof(flashtile_machine)"); !status.ok())
    return report(status);
  const ft::MachineReport m = ft::machine_report();
  flashtile_machine filled = {sizeof(flashtile_machine), {}, m.threads, m.affinity, m.cgroup_quota, m.l1, m.l2, m.l3};
  static_assert(sizeof filled.cpu == sizeof m.cpu);
  std::memcpy(filled.cpu, m.cpu, sizeof m.cpu);
  give(filled, machine, machine->struct_size);
  return FLASHTILE_OK;
}

int32_t flashtile_isa_reports(flashtile_isa_report* reports, size_t report_size, int32_t count) noexcept {
  if (count < 0) return report(refused("count", "", count, "at least 0")), -1;
  if (count > 0 && reports == nullptr) return report(refused_null("reports", "count reports, or count = 0")), -1;
  if (count > 0 && (report_size < sizeof(std::size_t) || report_size > kLargestStruct ||
                    report_size % alignof(flashtile_isa_report) != 0))
    return report(refused("report_size", "", static_cast<long long>(report_size), "sizeof(flashtile_isa_report)")), -1;
  constexpr int kMost = 16;  // more than there are instruction sets
  ft::IsaReport found[kMost];
  const int n = ft::isa_reports(found, kMost);
  for (int i = 0; i < n && i < count && i < kMost; ++i) {
    const ft::IsaReport& r = found[i];
    flashtile_isa_report filled = {
        sizeof(flashtile_isa_report), r.name, static_cast<std::int32_t>(r.isa), r.built, r.available, r.chosen, {}};
    static_assert(sizeof filled.reason == sizeof r.reason);
    std::memcpy(filled.reason, r.reason, sizeof r.reason);
    auto* at = reinterpret_cast<char*>(reports) + static_cast<std::size_t>(i) * report_size;
    give(filled, reinterpret_cast<flashtile_isa_report*>(at), report_size);
  }
  return n;
}

flashtile_status flashtile_parse_isa(const char* name, int32_t* isa) noexcept {
  if (isa == nullptr) return report(refused_null("isa", "a place for the instruction set"));
  ft::Isa parsed = ft::Isa::automatic;
  if (ft::parse_isa(name, parsed)) {
    *isa = static_cast<std::int32_t>(parsed);
    return FLASHTILE_OK;
  }
  ft::Status status;
  status.code = ft::Code::invalid_argument;
  std::snprintf(status.text, sizeof status.text,
                "isa = \"%.40s\"; expected auto, scalar, neon, avx2, avx512, amx or amx_emulated", name);
  return report(status);
}

}  // extern "C"
