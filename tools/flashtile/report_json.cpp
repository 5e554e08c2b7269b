// The JSON form of a run's report: one object. Numbers are in seconds, bytes and FLOPs; NaN and infinity become null.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "report.h"

namespace flashtile::cli {
namespace {

using nlohmann::ordered_json;

ordered_json tensor_json(const ConstTensor& t, const std::string& source) {
  ordered_json object;
  object["shape"] = std::vector<std::int64_t>(t.shape, t.shape + t.rank);
  object["dtype"] = name_of(t.dtype);
  if (!source.empty()) object["source"] = source;
  return object;
}

ordered_json check_json(const CheckResult& c) {
  return {{"passed", c.passed()},
          {"rows", c.rows},
          {"relative_rms", c.relative_rms},
          {"relative_rms_bound", c.rms_bound},
          {"max_abs", c.max_abs},
          {"rounding_relative_rms", c.rounding_rms},
          {"rounding_max_abs", c.rounding_max_abs},
          {"worst_element", c.worst_element},
          {"lse_max_abs", c.lse_max_abs},
          {"lse_max_abs_bound", c.lse_bound},
          {"largest_weight_max_abs", c.largest_weight_max_abs},
          {"entropy_max_abs", c.entropy_max_abs},
          {"logit_mean_max_abs", c.logit_mean_max_abs},
          {"logit_deviation_max_abs", c.logit_deviation_max_abs},
          {"not_finite", c.not_finite},
          {"disagreements", c.disagreements},
          {"growth", c.accuracy.growth},
          {"seconds", c.seconds}};
}

ordered_json tensors_json(const RunReport& r) {
  const Inputs& in = *r.inputs;
  ordered_json tensors;
  tensors["q"] = tensor_json(in.q, in.q_source);
  tensors["k"] = tensor_json(in.k, in.k_source);
  tensors["v"] = tensor_json(in.v, in.v_source);
  if (in.packed()) {
    tensors["cu_seqlens_q"] = tensor_json(in.cu_seqlens_q, in.cu_seqlens_q_source);
    tensors["cu_seqlens_k"] = tensor_json(in.cu_seqlens_k, in.cu_seqlens_k_source);
  }
  if (in.mask.present()) tensors["mask"] = tensor_json(in.mask, in.mask_source);
  if (in.alibi_slopes.present()) tensors["alibi_slopes"] = tensor_json(in.alibi_slopes, in.alibi_source);
  if (in.sinks.present()) tensors["sinks"] = tensor_json(in.sinks, in.sinks_source);
  tensors["out"] = tensor_json(r.out, "");
  tensors["lse"] = tensor_json(r.lse, "");
  return tensors;
}

ordered_json heads_json(const RunReport& r) {
  ordered_json heads = ordered_json::array();
  for (std::size_t h = 0; h < r.heads.size(); ++h) {
    const HeadSummary& head = r.heads[h];
    heads.push_back({{"head", h},
                     {"rows", head.rows},
                     {"entropy", head.entropy},
                     {"largest_weight", head.largest_weight},
                     {"mean_largest_weight", head.mean_largest_weight},
                     {"logit_mean", head.logit_mean}});
  }
  return heads;
}

}  // namespace

void print_json(const RunReport& r) {
  const PlanFacts& f = r.facts;
  ordered_json object;
  object["version"] = version();
  object["formula"] = formula(r);
  object["problem"] = r.problem;
  object["tensors"] = tensors_json(r);
  object["engine"] = {{"isa", f.isa},
                      {"arithmetic", f.arithmetic},
                      {"threads", r.threads},
                      {"tile_queries", f.tile_queries},
                      {"block_keys", f.block_keys},
                      {"chunk_keys", f.chunk_keys},
                      {"tasks", f.tasks},
                      {"why", r.explanation}};
  object["time"] = {{"best_seconds", r.best()},
                    {"median_seconds", r.median()},
                    {"repeats", r.seconds.size()},
                    {"first_call_seconds", r.first_seconds}};
  object["work"] = {{"visible_pairs", f.visible_pairs},
                    {"flops", f.flops},
                    {"gflop_per_second", r.best() > 0 ? f.flops / r.best() * 1e-9 : 0},
                    {"bytes_min", f.bytes_min},
                    {"workspace_bytes", r.workspace}};
  object["heads"] = heads_json(r);
  if (r.check) object["check"] = check_json(*r.check);
  if (!r.written.empty()) object["written"] = {{"path", r.written}, {"arrays", r.written_names}};
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

}  // namespace flashtile::cli
