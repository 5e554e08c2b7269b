// One call with arrays of its own, as the parts of `flashtile verify` make them by the thousand.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "convert.h"
#include "failure.h"
#include "files/array.h"
#include "flashtile/flashtile.h"
#include "verify.h"

namespace flashtile::cli {

struct CallShape {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 1, value_dim = 1;
};

class Call {
 public:
  CallShape shape;
  files::Array q, k, v;   // (B, Sq, Hq, D), (B, Sk, Hkv, D), (B, Sk, Hkv, Dv)
  files::Array out, lse;  // (B, Sq, Hq, Dv), (B, Hq, Sq)
  Options options;        // without lse

  Call(const CallShape& s, DType inputs, DType output)
      : shape(s),
        q(files::make_array("q", inputs, {s.batch, s.queries, s.heads, s.head_dim})),
        k(files::make_array("k", inputs, {s.batch, s.keys, s.kv_heads, s.head_dim})),
        v(files::make_array("v", inputs, {s.batch, s.keys, s.kv_heads, s.value_dim})),
        out(files::make_array("out", output, {s.batch, s.queries, s.heads, s.value_dim})),
        lse(files::make_array("lse", inputs == DType::f64 ? DType::f64 : DType::f32, {s.batch, s.heads, s.queries})) {}

  void fill_normal(std::uint64_t seed) {
    q = normal_array("q", q.dtype, q.shape, 3 * seed);
    k = normal_array("k", k.dtype, k.shape, 3 * seed + 1);
    v = normal_array("v", v.dtype, v.shape, 3 * seed + 2);
  }

  Options wired() {
    Options o = options;
    o.lse = lse.view();
    return o;
  }

  /// Selects the engine. False when this dtype would be computed by another one, or by none: amx has no fp64, and
  /// FLASHTILE_ISA may forbid a set that the machine has.
  bool select(const Engine& engine) {
    options.isa = engine.isa;
    options.arithmetic = engine.family == Family::amx ? Arithmetic::amx : Arithmetic::fma;
    Plan plan;
    const Status status = try_plan(q.view(), k.view(), v.view(), out.view(), wired(), plan);
    if (!status.ok() && status.code != Code::unsupported) require(status);
    return status.ok() && engine.name == plan.facts().isa;
  }

  /// The easy call.
  Status run() {
    poison();
    return try_attention(q.view(), k.view(), v.view(), out.view(), wired());
  }

  /// Through a plan, one worker after the other: 0, 1, … or, in reverse, …, 1, 0.
  Status run_by_workers(int workers, bool reverse) {
    poison();
    const Options o = wired();
    Plan plan;
    Status status = try_plan(q.view(), k.view(), v.view(), out.view(), o, plan);
    const Tensors tensors = tensors_of(q.view(), k.view(), v.view(), out.view(), o);
    std::vector<std::byte> workspace(status.ok() ? workspace_bytes(plan, workers) : 0);
    for (int i = 0; i < workers && status.ok(); ++i)
      status = flashtile::run(plan, tensors, workspace.data(), workspace.size(), reverse ? workers - 1 - i : i, workers);
    return status;
  }

  void poison() {
    std::memset(out.bytes.data(), 0xff, out.bytes.size());  // NaN in every floating type
    std::memset(lse.bytes.data(), 0xff, lse.bytes.size());
  }
};

/// Whether O and LSE of two calls agree bit for bit.
inline bool same_bits(const Call& a, const Call& b) {
  return a.out.bytes.size() == b.out.bytes.size() && a.lse.bytes.size() == b.lse.bytes.size() &&
         std::memcmp(a.out.bytes.data(), b.out.bytes.data(), a.out.bytes.size()) == 0 &&
         std::memcmp(a.lse.bytes.data(), b.lse.bytes.data(), a.lse.bytes.size()) == 0;
}

}  // namespace flashtile::cli
