// flashtile: exact attention from the command line. Sub-commands: run, info, verify, bench.
//
// Always: results go to standard output; a failure is one line "flashtile: …" on standard error. Exit status 0 when all
// is well, 1 when something failed or a check did not hold, 2 for wrong use.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "commands.h"
#include "failure.h"
#include "files/file_error.h"
#include "flashtile/flashtile.h"

namespace flashtile::cli {
namespace {

constexpr const char* kRunExamples =
    "Examples:\n"
    "  flashtile run layer.safetensors --check\n"
    "  flashtile run qkv.npz --names query,key,value --layout bhsd --causal --out o.npz\n"
    "  flashtile run q.npy k.npy v.npy --window 127,0 --alibi auto --dtype bf16\n"
    "  flashtile run --q 1x2048x8x128 --k 1x2048x2x128 --causal --json\n"
    "  flashtile run packed.npz --cu-seqlens-q cu_seqlens_q --cu-seqlens-k cu_seqlens_k\n"
    "\n"
    "Shapes are written BxSxHxD: batch, sequence, heads, head dim. Packed sequences are written as the sum of their\n"
    "lengths, 17+300+3*2048x8x128: one of 17, one of 300, three of 2048; k and v have as many.";

constexpr const char* kExamples =
    "Examples:\n"
    "  flashtile run layer.safetensors --check   attention on real arrays, checked\n"
    "  flashtile info                            what this machine can do, and why\n"
    "  flashtile verify                          proofs and errors on this machine\n"
    "  flashtile bench                           speed beside the machine's peak\n"
    "\n"
    "flashtile COMMAND --help has the options. Exit status: 0, 1 failure, 2 wrong use.";

constexpr const char* kBenchExamples =
    "Examples:\n"
    "  flashtile bench\n"
    "  flashtile bench --q 1x512-8192*2x8x64 --kv-heads 1,8 --causal --dtype fp32,bf16\n"
    "  flashtile bench --q 17+300+3*2048x8x64 --causal\n"
    "  flashtile bench --isa avx2,avx512 --output csv\n"
    "  FLASHTILE_VERBOSE=1 program 2> calls; flashtile bench --replay calls\n"
    "\n"
    "Shapes: BxSxHxD, or packed sequences as the sum of their lengths, 17+300+3*2048x8x64 (3*2048: three of 2048).\n"
    "Lists and ranges: 1,2,4  1-8  1-8*2 (1,2,4,8)  64-256+64; in shapes too. Without --q: the default set.";

/// Adds options that take one value.
class Adder {
 public:
  explicit Adder(CLI::App& app) : app_(app) {}
  void operator()(const char* name, std::string& value, const char* type, const char* help, const char* group) const {
    app_.add_option(name, value, help)->type_name(type)->group(group)->expected(1);
  }

 private:
  CLI::App& app_;
};

void add_bench(CLI::App& app, BenchRequest& b) {
  app.footer(kBenchExamples);
  RunRequest& r = b.problem;
  const Adder add(app);
  add("--q", r.q, "SHAPE", "shape of q, normal random numbers", "Problem");
  add("--k", r.k, "SHAPE", "shape of k (like q)", "Problem");
  add("--v", r.v, "SHAPE", "shape of v (like k)", "Problem");
  add("--kv-heads", b.kv_heads, "N", "heads of k and v (as in --k)", "Problem");
  add("--dtype", r.dtype, "TYPE", "fp64, fp32, fp16 or bf16 (fp32)", "Problem");
  app.add_flag("--causal", r.causal, "a query sees no later key")->group("Problem");
  add("--alignment", r.alignment, "WHERE", "bottom-right (last query at last key) or top-left", "Problem");
  add("--window", r.window, "L,R", "a query sees L keys before and R after it; -1: no limit", "Problem");
  add("--scale", r.scale, "X", "factor on q·k (1/√D)", "Problem");
  add("--softcap", r.softcap, "C", "s ← C tanh(s / C); 0 is off", "Problem");
  add("--mask", r.mask, "TYPE", "random for all heads: bool (true = attend) or fp32, fp16 … (added); or a file", "Problem");
  add("--alibi", r.alibi, "auto", "the standard slopes", "Problem");
  add_outputs(app, b);
  add("--replay", b.replay, "FILE", "problems from lines that FLASHTILE_VERBOSE=1 printed", "Problem");
  add("--isa", r.isa, "NAME", "no better instruction set than this (auto)", "Machine");
  add("--arithmetic", r.arithmetic, "FAMILY", "automatic, fma or amx", "Machine");
  add("--threads", r.threads, "N", "threads (as affinity mask and cgroup allow)", "Machine");
  add("-r,--rounds", b.rounds, "N", "turns of each (as many as fit into two seconds)", "Measurement");
  app.add_flag("--cold", b.cold, "inputs rotate through more than the caches hold")->group("Measurement");
  add("--output", b.output, "FORM", "md, csv or json (md)", "Output");
}

void add_run(CLI::App& app, RunRequest& r) {
  app.footer(kRunExamples);
  app.add_option("FILE", r.files, "one .safetensors or .npz, or three .npy: q, k, v")->type_name("");
  const Adder add(app);
  add("--names", r.names, "Q,K,V", "the arrays' names in the file (q,k,v)", "Input");
  add("--layout", r.layout, "WORD", "order of dimensions: bshd, bhsd, shd, hsd, sd … (bshd)", "Input");
  add("--dtype", r.dtype, "TYPE", "convert q, k and v to fp64, fp32, fp16 or bf16", "Input");
  add("--cu-seqlens-q", r.cu_seqlens_q, "ARRAY", "q is packed, (total, H, D): where sequences begin, int32", "Input");
  add("--cu-seqlens-k", r.cu_seqlens_k, "ARRAY", "the same of k and v (as --cu-seqlens-q)", "Input");
  add("--q", r.q, "SHAPE", "no FILE: normal random q of this shape", "Input");
  add("--k", r.k, "SHAPE", "no FILE: normal random k", "Input");
  add("--v", r.v, "SHAPE", "no FILE: normal random v (like k)", "Input");
  add("--seed", r.seed, "N", "of the random numbers (0)", "Input");
  app.add_flag("--causal", r.causal, "a query sees no later key")->group("Attention");
  add("--alignment", r.alignment, "WHERE", "bottom-right (last query at last key) or top-left", "Attention");
  add("--window", r.window, "L,R", "a query sees L keys before and R after it; -1: no limit", "Attention");
  add("--scale", r.scale, "X", "factor on q·k (1/√D)", "Attention");
  add("--softcap", r.softcap, "C", "s ← C tanh(s / C); 0 is off", "Attention");
  add("--mask", r.mask, "ARRAY",
      "bool (true = attend) or added numbers: (Sq, Sk) or (B, Hq, Sq, Sk);\n"
      "with --q: or bool, fp32 …, a random one",
      "Attention");
  add("--sinks", r.sinks, "ARRAY", "a logit per head that joins the denominator: (Hq,)", "Attention");
  add("--alibi", r.alibi, "ARRAY|auto", "slopes: (Hq,) or (B, Hq); auto: the standard ones", "Attention");
  // What problem_line() says of outputs that `run` always computes: a printed problem may be typed in again.
  app.add_flag("--lse,--statistics,--largest-weight,--entropy,--logit-mean,--logit-deviation")->group("");
  add("--isa", r.isa, "NAME", "no better instruction set than this (auto)", "Machine");
  add("--arithmetic", r.arithmetic, "FAMILY", "automatic, fma or amx", "Machine");
  add("--threads", r.threads, "N", "threads (as affinity mask and cgroup allow)", "Machine");
  add("--repeat", r.repeat, "N", "timed calls (as many as fit into a second)", "Machine");
  add("--out", r.out, "FILE", "write O, LSE and statistics: .safetensors or .npz; O alone: .npy", "Output");
  add("--out-dtype", r.out_dtype, "TYPE", "of O: q's type, or fp32", "Output");
  app.add_flag("--key-weights", r.key_weights, "write the sum of the weights of each key too")->group("Output");
  app.add_flag("--check", r.check, "compare with the fp64 definition; exit 1 beyond the bounds")->group("Output");
  app.add_flag("--json", r.json, "one JSON object instead of text")->group("Output");
}

std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

int fail(const std::string& text, int status) {
  fmt::print(stderr, "flashtile: {}\n", one_line(text));
  return status;
}

/// What CLI11 refuses, in our form: the argument, what it was, what is allowed.
UsageError usage_error(const CLI::App& app, const CLI::ParseError& e) {
  const std::string text = e.what();
  const std::string argument = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    const std::vector<std::string> extras = app.remaining(true);
    const bool chosen = !app.get_subcommands().empty();
    const std::string what = extras.empty() ? text : extras.front();
    if (!chosen && what.rfind('-', 0) != 0) return wrong("COMMAND", what, "run, info, verify or bench");
    return UsageError(fmt::format("{} is unknown; expected what flashtile{} --help lists", what,
                                  chosen ? " " + app.get_subcommands().front()->get_name() : ""));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr) {
    if (text.find("missing") != std::string::npos) return wrong(argument, "nothing", "a value after it");
    return wrong(argument, "given more than once", "it once");
  }
  if (dynamic_cast<const CLI::ConversionError*>(&e) != nullptr)  // only flags have a type: "Could not convert: --x = y"
    return UsageError(text.substr(text.find(':') == std::string::npos ? 0 : text.find(':') + 2) + "; expected no value");
  return UsageError(text);
}

int run_main(int argc, char** argv) {
  CLI::App app("Exact attention for CPUs: softmax(scale · q kᵀ) v, tile by tile, in O(S) memory.", "flashtile");
  app.footer(kExamples);
  app.set_version_flag("--version", fmt::format("flashtile {} ({})", version(), commit()));
  app.require_subcommand(0, 1);
  RunRequest request;
  BenchRequest bench_request;
  bool info_json = false, verify_json = false;
  CLI::App* const run = app.add_subcommand("run", "attention on q, k and v from files");
  CLI::App* const info = app.add_subcommand("info", "this build, this machine, and why an instruction set is chosen");
  CLI::App* const verify = app.add_subcommand("verify", "errors against fp64, a bit-exact proof, and invariance");
  CLI::App* const bench = app.add_subcommand("bench", "our kernels beside the machine's peak and the unfused baseline");
  add_run(*run, request);
  add_bench(*bench, bench_request);
  info->add_flag("--json", info_json, "one JSON object instead of text");
  verify->add_flag("--json", verify_json, "one JSON object instead of text");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(e);  // --help, --version
    throw usage_error(app, e);
  }
  if (*run) return run_command(request);
  if (*info) return info_command(info_json);
  if (*verify) return verify_command(verify_json);
  if (*bench) return bench_command(bench_request);
  throw UsageError("COMMAND is missing; expected run, info, verify or bench (flashtile --help)");
}

}  // namespace
}  // namespace flashtile::cli

int main(int argc, char** argv) {
  using namespace flashtile;
  try {
    return cli::run_main(argc, argv);
  } catch (const cli::UsageError& e) {
    return cli::fail(e.what(), cli::kWrongUse);
  } catch (const std::bad_alloc&) {
    return cli::fail("out of memory", cli::kFailure);
  } catch (const std::exception& e) {  // Failure, files::FileError, anything unforeseen
    return cli::fail(e.what(), cli::kFailure);
  }
}
