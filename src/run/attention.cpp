// The public entry points: arguments → Problem → Plan → shares → kernels.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "isa/dispatch.h"
#include "plan/plan.h"
#include "problem/check.h"
#include "run/environment.h"
#include "run/machine.h"
#include "run/threads.h"

namespace flashtile {
namespace {

/// CPUID and XCR0, and the kernel's permission to use the tiles.
CpuFeatures usable_features() noexcept {
  CpuFeatures have = this_cpu();
  if (have.amx && !request_amx_permission()) {
    have.amx = false;
    have.why_not_amx = "the operating system refuses permission to use AMX tiles (arch_prctl)";
  }
  return have;
}

Status environment_cap(Isa& cap) noexcept {
  cap = Isa::automatic;
  const char* value = std::getenv("FLASHTILE_ISA");
  FT_CHECK(parse_isa_name(value, cap),
           "FLASHTILE_ISA = %.40s; expected auto, scalar, neon, avx2, avx512, amx or amx-emulated", value);
  return {};
}

/// The rest of what a kernel may read or write must be there when a plan runs.
Status check_pointers(const Problem& p, const Tensors& t) noexcept {
  const auto need = [](bool needed, const void* data, const char* name) -> Status {
    FT_CHECK(!needed || data != nullptr, "%s.data = null; expected an array", name);
    return {};
  };
  const bool rows = p.q_heads > 0 && p.q_rows > 0 && (p.batch > 0 || p.varlen);
  const bool keys = rows && p.k_rows > 0;
  FT_TRY(need(rows, t.q, "q"));
  FT_TRY(need(keys, t.k, "k"));
  FT_TRY(need(keys, t.v, "v"));
  FT_TRY(need(rows, t.out, "out"));
  FT_TRY(need(keys && p.mask.present, t.mask, "mask"));
  FT_TRY(need(rows && p.alibi_slopes.present, t.alibi_slopes, "alibi_slopes"));
  FT_TRY(need(rows && p.sinks.present, t.sinks, "sinks"));
  FT_TRY(need(rows && p.row_scale.present, t.row_scale, "row_scale"));
  FT_TRY(need(rows && p.key_begin.present, t.key_begin, "key_begin"));
  FT_TRY(need(rows && p.key_end.present, t.key_end, "key_end"));
  FT_TRY(need(rows && p.lse.present, t.lse, "lse"));
  FT_TRY(need(rows && p.largest_weight.present, t.largest_weight, "largest_weight"));
  FT_TRY(need(rows && p.entropy.present, t.entropy, "entropy"));
  FT_TRY(need(rows && p.logit_mean.present, t.logit_mean, "logit_mean"));
  FT_TRY(need(rows && p.logit_deviation.present, t.logit_deviation, "logit_deviation"));
  FT_TRY(need(p.key_weights.present && p.q_heads > 0 && p.k_rows > 0 && (p.batch > 0 || p.varlen), t.key_weights,
              "key_weights"));
  FT_CHECK(t.out == nullptr || (t.out != t.q && t.out != t.k && t.out != t.v),
           "out.data = the data of an input; expected an output that overlaps no input");
  return {};
}

/// 64-byte aligned start of a worker's part of the workspace.
std::byte* scratch_of(void* workspace, std::size_t each, int worker) noexcept {
  const auto address = (reinterpret_cast<std::uintptr_t>(workspace) + 63) / 64 * 64;
  return reinterpret_cast<std::byte*>(address) + each * static_cast<std::size_t>(worker);
}

void run_tasks(const Plan::Data& d, const Tensors& t, TaskRange range, std::byte* scratch) noexcept {
  const FloatEnvironment environment;
  for (Index i = range.begin; i < range.end;) {
    const Task strip = strip_from(d.work, d.shape, i, range.end);
    d.kernels->forward(d.problem, t, d.shape, strip, scratch);
  }
}

Status fill_plan(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out, const Options& options,
                 Plan::Data& d) noexcept {
  const FloatEnvironment environment;  // 1/√D and scale · log2 e are rounded too
  FT_TRY(try_problem(q, k, v, out, options, d.problem));
  Isa cap = Isa::automatic;
  FT_TRY(environment_cap(cap));
  const CpuFeatures have = usable_features();
  d.kernels = choose_kernels(d.problem, have, cap);
  if (d.kernels == nullptr)
    return refuse(Code::unsupported,
                  "arithmetic = amx with dtypes q %s, k %s, v %s%s%s; expected bf16 for all three and a machine with AMX "
                  "(or FLASHTILE_ISA=amx-emulated)",
                  name_of(d.problem.q.dtype), name_of(d.problem.k.dtype), name_of(d.problem.v.dtype),
                  have.amx ? "" : ", without AMX: ", have.amx ? "" : have.why_not_amx);
  d.isa = d.kernels->name, d.arithmetic = d.kernels->arithmetic;
  d.machine = this_machine();
  d.threads = d.problem.threads > 0 ? d.problem.threads : available_threads();
  d.shape = choose_tile_shape(d.problem, d.threads);
  if (!make_work(d.problem, d.shape, d.work))
    return refuse(Code::out_of_memory, "no memory for the task list of this problem");
  d.scratch_bytes = d.kernels->scratch_bytes(d.problem, d.shape);
  if (d.work.tasks.size() < d.threads) d.threads = d.work.tasks.size() < 1 ? 1 : static_cast<int>(d.work.tasks.size());
  return {};
}

struct EasyCall {
  const Plan::Data* data;
  const Tensors* tensors;
  std::byte* memory;
};

/// FLASHTILE_VERBOSE: one line on standard error for what ran.
void print_verbose(const Plan& plan) noexcept {
  const char* verbose = std::getenv("FLASHTILE_VERBOSE");
  if (verbose == nullptr || verbose[0] == '\0' || std::strcmp(verbose, "0") == 0) return;
  char line[4096];
  problem_line(plan, line, sizeof line);
  const PlanFacts f = plan.facts();
  std::fprintf(stderr, "flashtile: %s # %s, %s arithmetic, %d threads, %lld tasks\n", line, f.isa, f.arithmetic, f.threads,
               static_cast<long long>(f.tasks));
}

}  // namespace

Plan& Plan::operator=(Plan&& other) noexcept {
  if (this != &other) {
    delete data_;
    data_ = other.data_;
    other.data_ = nullptr;
  }
  return *this;
}

Plan::~Plan() { delete data_; }

PlanFacts Plan::facts() const noexcept {
  PlanFacts f;
  f.isa = data_->isa, f.arithmetic = data_->arithmetic;
  f.threads = data_->threads;
  f.tile_queries = kTileQueries, f.block_keys = data_->shape.block_keys, f.chunk_keys = kChunkKeys;
  f.tasks = data_->work.tasks.size();
  f.visible_pairs = data_->work.pairs;
  f.flops = flops_of(data_->problem, data_->work.pairs);
  f.bytes_min = least_bytes(data_->problem);
  f.workspace_bytes = workspace_bytes(*this, 1);
  return f;
}

Status try_plan(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out, const Options& options,
                Plan& plan) noexcept {
  auto* data = new (std::nothrow) Plan::Data;
  if (data == nullptr) return refuse(Code::out_of_memory, "no memory for a plan");
  const Status status = fill_plan(q, k, v, out, options, *data);
  if (!status.ok()) {
    delete data;
    return status;
  }
  delete plan.data_;
  plan.data_ = data;
  return status;
}

std::size_t workspace_bytes(const Plan& plan, int n_workers) noexcept {
  if (!plan.valid() || n_workers < 1) return 0;
  return plan.data()->scratch_bytes * static_cast<std::size_t>(n_workers) + 64;
}

Status run(const Plan& plan, const Tensors& tensors, void* workspace, std::size_t workspace_size, int worker,
           int n_workers) noexcept {
  FT_CHECK(plan.valid(), "plan is empty; expected one made by try_plan");
  FT_CHECK(n_workers >= 1 && worker >= 0 && worker < n_workers,
           "worker = %d of n_workers = %d; expected 0 ≤ worker < "
           "n_workers",
           worker, n_workers);
  FT_CHECK(workspace != nullptr && workspace_size >= workspace_bytes(plan, n_workers),
           "workspace = %zu bytes%s; expected at least %zu", workspace_size, workspace == nullptr ? " at null" : "",
           workspace_bytes(plan, n_workers));
  FT_TRY(check_pointers(plan.data()->problem, tensors));
  const Plan::Data& d = *plan.data();
  run_tasks(d, tensors, tasks_of(d.work, worker, n_workers), scratch_of(workspace, d.scratch_bytes, worker));
  return {};
}

Tensors tensors_of(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                   const Options& o) noexcept {
  Tensors t;
  t.q = q.data, t.k = k.data, t.v = v.data, t.out = out.data;
  t.mask = o.mask.data, t.alibi_slopes = o.alibi_slopes.data, t.sinks = o.sinks.data, t.row_scale = o.row_scale.data;
  t.key_begin = o.key_begin.data, t.key_end = o.key_end.data;
  t.lse = o.lse.data, t.largest_weight = o.statistics.largest_weight.data, t.entropy = o.statistics.entropy.data;
  t.logit_mean = o.statistics.logit_mean.data, t.logit_deviation = o.statistics.logit_deviation.data;
  t.key_weights = o.key_weights.data;
  return t;
}

Status try_attention(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v, const Tensor& out,
                     const Options& options) noexcept {
  Plan plan;
  FT_TRY(try_plan(q, k, v, out, options, plan));
  const Plan::Data& d = *plan.data();
  const Tensors tensors = tensors_of(q, k, v, out, options);
  FT_TRY(check_pointers(d.problem, tensors));
  print_verbose(plan);
  void* memory = std::malloc(workspace_bytes(plan, d.threads));
  if (memory == nullptr)
    return refuse(Code::out_of_memory, "no memory for a workspace of %zu bytes", workspace_bytes(plan, d.threads));

  EasyCall call{&d, &tensors, scratch_of(memory, 0, 0)};
  run_shares(
      d.threads, guided_shares(d.threads),
      [](void* context, int worker, std::int64_t share) noexcept {
        const EasyCall& c = *static_cast<EasyCall*>(context);
        run_tasks(*c.data, *c.tensors, guided_tasks_of(c.data->work, share, c.data->threads),
                  c.memory + c.data->scratch_bytes * static_cast<std::size_t>(worker));
      },
      &call);
  std::free(memory);
  return {};
}

bool parse_isa(const char* name, Isa& isa) noexcept { return parse_isa_name(name, isa); }

int isa_reports(IsaReport* reports, int size) noexcept {
  const CpuFeatures have = usable_features();
  Isa cap = Isa::automatic;
  (void)environment_cap(cap);  // a bad value is reported by the calls that compute
  int n = 0;
  bool chosen = false;
  for (const Implementation& i : all_implementations()) {
    IsaReport r;
    r.isa = i.isa, r.name = i.name, r.built = i.kernels != nullptr;
    const char* why_not = i.why_not(have);
    r.available = r.built && why_not == nullptr;
    const bool capped = cap != Isa::automatic && cap != Isa::amx_emulated && static_cast<int>(i.isa) > static_cast<int>(cap);
    if (!r.available) {
      std::snprintf(r.reason, sizeof r.reason, "%s", why_not);
    } else if (i.isa == Isa::amx_emulated) {
      r.chosen = cap == Isa::amx_emulated;
      if (!r.chosen) std::snprintf(r.reason, sizeof r.reason, "the software twin of amx, for tests: only by name");
    } else if (capped) {
      std::snprintf(r.reason, sizeof r.reason, "capped by FLASHTILE_ISA=%s", name_of(cap));
    } else if (chosen && i.isa != Isa::automatic) {
      std::snprintf(r.reason, sizeof r.reason, "a better one is available");
    } else {
      r.chosen = true;
      // amx computes bf16 only: the best of the fma family is chosen beside it.
      chosen = i.isa != Isa::amx;
    }
    if (n < size && reports != nullptr) reports[n] = r;
    ++n;
  }
  return n;
}

MachineReport machine_report() noexcept {
  const Machine& m = this_machine();
  MachineReport r;
  std::memcpy(r.cpu, m.cpu, sizeof r.cpu);
  r.threads = available_threads(), r.affinity = m.affinity, r.cgroup_quota = m.cgroup_quota;
  r.l1 = m.l1, r.l2 = m.l2, r.l3 = m.l3;
  return r;
}

}  // namespace flashtile
