// The built command as a user meets it: what it prints, what it writes, how it exits.
#include "command/command.h"

#include <cmath>
#include <cstdio>

#include "convert.h"
#include "files/array_file.h"
#include "flashtile/flashtile.h"
#include "problem/number.h"

namespace flashtile::cli {
namespace {

files::Array only_array(const std::string& path) { return files::ArrayFile::open(path).read(std::size_t{0}); }

double at(const files::Array& a, std::int64_t i) { return element(a.bytes.data(), a.dtype, i); }

TEST_F(Command, RealLayerIsWithinTheBoundsAndShowsItsHeads) {
  const Result r = run("run " + kLayer + " --check");
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_EQ(r.err, "");
  for (const char* const text : {"softmax(0.176777 · Q Kᵀ) V", "(1, 256, 12, 32)", "(1, 12, 256, 256)", "never stored",
                                 "100,663,296 FLOPs", "workspace", "Within the bounds", "entropy", "largest"})
    EXPECT_THAT(r.out, HasSubstr(text));
  EXPECT_EQ(r.out.find('\033'), std::string::npos) << "colour goes to terminals only";
}

TEST_F(Command, RealLayerEqualsWhatTheModelComputed) {
  ASSERT_EQ(run("run " + kLayer + " --out " + path("o.safetensors")).status, 0);
  const files::Array got = files::ArrayFile::open(path("o.safetensors")).read("out");
  const files::Array expected = files::ArrayFile::open(kLayer).read("expected");
  ASSERT_EQ(got.shape, expected.shape);
  for (std::int64_t i = 0; i < got.elements(); ++i) ASSERT_NEAR(at(got, i), at(expected, i), 1e-5) << i;
}

TEST_F(Command, JsonHasEveryPartOfTheReport) {
  const json j = run_json("run " + kLayer + " --check --causal");
  EXPECT_EQ(j["tensors"]["q"]["shape"], json({1, 256, 12, 32}));
  EXPECT_EQ(j["tensors"]["lse"]["shape"], json({1, 12, 256}));
  EXPECT_EQ(j["tensors"]["k"]["dtype"], "fp32");
  EXPECT_THAT(j["formula"].get<std::string>(), HasSubstr("causal"));
  EXPECT_EQ(j["work"]["visible_pairs"], 12 * 256 * 257 / 2);
  EXPECT_EQ(j["work"]["flops"], 2.0 * 12 * 256 * 257 / 2 * 64);
  EXPECT_EQ(j["heads"].size(), 12u);
  EXPECT_EQ(j["heads"][3]["rows"], 256);
  EXPECT_TRUE(j["check"]["passed"].get<bool>());
  EXPECT_LT(j["check"]["relative_rms"].get<double>(), j["check"]["relative_rms_bound"].get<double>());
  EXPECT_GT(j["check"]["rounding_relative_rms"].get<double>(), 0);
  for (const char* const key : {"isa", "arithmetic", "threads", "tile_queries", "block_keys", "tasks", "why"})
    EXPECT_TRUE(j["engine"].contains(key)) << key;
  for (const char* const key : {"best_seconds", "median_seconds", "repeats"}) EXPECT_TRUE(j["time"].contains(key)) << key;
  EXPECT_TRUE(j["work"].contains("workspace_bytes"));
  EXPECT_THAT(j["problem"].get<std::string>(), HasSubstr("1x256x12x32"));
}

TEST_F(Command, EveryDTypeIsWithinItsBounds) {
  for (const char* const dtype : {"fp64", "fp32", "fp16", "bf16"}) {
    const json j = run_json("run " + kLayer + " --check --repeat 0 --dtype " + dtype);
    EXPECT_EQ(j["tensors"]["q"]["dtype"], dtype);
    EXPECT_TRUE(j["check"]["passed"].get<bool>()) << j["check"].dump(2);
  }
}

TEST_F(Command, EveryOptionTogetherIsWithinTheBounds) {
  std::vector<files::Array> sinks, mask;
  sinks.push_back(normal_array("s", DType::f64, {4}, 1));
  mask.push_back(normal_array("m", DType::f32, {30, 50}, 2));
  files::write_arrays(path("sinks.npy"), sinks);
  files::write_arrays(path("mask.npz"), mask);
  const json j = run_json(
      "run --q 2x30x4x17 --k 2x50x2x17 --v 2x50x2x9 --causal --alignment top-left --window 20,-1 "
      "--scale -0.3 --softcap 4 --alibi auto --check --sinks " +
      path("sinks.npy") + " --mask " + path("mask.npz"));
  EXPECT_TRUE(j["check"]["passed"].get<bool>()) << j["check"].dump(2);
  EXPECT_EQ(j["check"]["rows"], 2 * 30 * 4);
  EXPECT_EQ(j["tensors"]["alibi_slopes"]["shape"], json({4}));
}

TEST_F(Command, MasksOfRandomInputsAreRandomToo) {
  for (const char* const type : {"bool", "fp64", "fp32", "fp16", "bf16"}) {
    const json j = run_json(std::string("run --q 5+30x4x17 --k 50+3x2x17 --check --mask ") + type);
    EXPECT_TRUE(j["check"]["passed"].get<bool>()) << j["check"].dump(2);
    EXPECT_EQ(j["tensors"]["mask"]["shape"], json({30, 50})) << "the longest of both sequences";
    EXPECT_EQ(j["tensors"]["mask"]["dtype"], type);
    EXPECT_THAT(j["problem"].get<std::string>(), HasSubstr(std::string(" --mask ") + type));
  }
  expect_wrong("run --q 1x2x3x4 --k 1x2x3x4 --mask any", "--mask = any", "bf16 for a random one, or an existing file");
  expect_wrong("run " + kLayer + " --mask bool", "--mask = bool", "an existing file");
}

TEST_F(Command, OptionsNameArraysOfTheInputFile) {
  std::vector<files::Array> arrays;
  for (const char* const name : {"query", "key", "value"}) arrays.push_back(normal_array(name, DType::f32, {1, 6, 2, 8}, 3));
  arrays.push_back(files::make_array("hide", DType::boolean, {6, 6}));  // nothing visible
  files::write_arrays(path("in.npz"), arrays);
  const json j = run_json("run " + path("in.npz") + " --names query,key,value --mask hide --check --out " + path("o.npz"));
  EXPECT_TRUE(j["check"]["passed"].get<bool>());
  const files::ArrayFile out = files::ArrayFile::open(path("o.npz"));
  const files::Array o = out.read("out"), lse = out.read("lse");
  for (std::int64_t i = 0; i < o.elements(); ++i) EXPECT_EQ(at(o, i), 0);
  for (std::int64_t i = 0; i < lse.elements(); ++i) EXPECT_EQ(at(lse, i), -INFINITY);
}

TEST_F(Command, ThreeFilesAndOtherLayoutsGiveTheSameBits) {
  // The same numbers as (B, S, H, D) in C order, and as (B, H, S, D) in three .npy files.
  std::vector<files::Array> bshd;
  for (const char* const name : {"q", "k", "v"}) {
    bshd.push_back(normal_array(name, DType::f32, {2, 5, 3, 4}, static_cast<std::uint64_t>(name[0])));
    std::vector<files::Array> bhsd;
    bhsd.push_back(files::make_array(name, DType::f32, {2, 3, 5, 4}));
    for (std::int64_t i = 0; i < 120; ++i) {
      const std::int64_t d = i % 4, h = i / 4 % 3, s = i / 12 % 5, b = i / 60;
      store(at(bshd.back(), i), DType::f32, bhsd[0].bytes.data(), ((b * 3 + h) * 5 + s) * 4 + d);
    }
    files::write_arrays(path(std::string(name) + ".npy"), bhsd);
  }
  files::write_arrays(path("in.safetensors"), bshd);
  ASSERT_EQ(run("run " + path("in.safetensors") + " --out " + path("a.npy")).status, 0);
  ASSERT_EQ(run("run " + path("q.npy") + " " + path("k.npy") + " " + path("v.npy") + " --layout bhsd --out " + path("b.npy"))
                .status,
            0);
  const files::Array a = only_array(path("a.npy")), b = only_array(path("b.npy"));
  ASSERT_EQ(b.shape, (std::vector<std::int64_t>{2, 3, 5, 4}));
  for (std::int64_t i = 0; i < 120; ++i) {
    const std::int64_t d = i % 4, h = i / 4 % 3, s = i / 12 % 5, n = i / 60;
    EXPECT_EQ(at(a, i), at(b, ((n * 3 + h) * 5 + s) * 4 + d)) << i;
  }
}

TEST_F(Command, HeadDimThatIsNotLastIsCopiedIntoPlace) {
  std::vector<files::Array> sd, ds;
  for (const char* const name : {"q", "k", "v"}) {
    sd.push_back(normal_array(name, DType::f32, {7, 3}, static_cast<std::uint64_t>(name[0])));
    ds.push_back(files::make_array(name, DType::f32, {3, 7}));
    for (std::int64_t i = 0; i < 21; ++i) store(at(sd.back(), i), DType::f32, ds.back().bytes.data(), i % 3 * 7 + i / 3);
  }
  files::write_arrays(path("sd.npz"), sd);
  files::write_arrays(path("ds.npz"), ds);
  ASSERT_EQ(run("run " + path("sd.npz") + " --out " + path("a.npy")).status, 0);
  ASSERT_EQ(run("run " + path("ds.npz") + " --layout ds --out " + path("b.npy")).status, 0);
  const files::Array a = only_array(path("a.npy")), b = only_array(path("b.npy"));
  ASSERT_EQ(b.shape, (std::vector<std::int64_t>{3, 7}));
  for (std::int64_t i = 0; i < 21; ++i) EXPECT_EQ(at(a, i), at(b, i % 3 * b.stride[0] + i / 3 * b.stride[1])) << i;
}

TEST_F(Command, OutputsComeBackFromEveryFormat) {
  for (const char* const name : {"o.npz", "o.safetensors"}) {
    const json j = run_json("run " + kLayer + " --dtype bf16 --repeat 0 --key-weights --out " + path(name));
    EXPECT_EQ(j["written"]["arrays"].size(), 7u);
    const files::ArrayFile file = files::ArrayFile::open(path(name));
    ASSERT_EQ(file.entries().size(), 7u) << name;
    EXPECT_EQ(file.read("out").dtype, DType::bf16);
    for (const char* const row : {"lse", "largest_weight", "entropy", "logit_mean", "logit_deviation", "key_weights"}) {
      const files::Array a = file.read(row);
      EXPECT_EQ(a.shape, (std::vector<std::int64_t>{1, 12, 256})) << row;
      for (std::int64_t i = 0; i < a.elements(); ++i) ASSERT_TRUE(std::isfinite(at(a, i))) << row << " " << i;
    }
    const files::Array weights = file.read("key_weights");
    double sum = 0;
    for (std::int64_t i = 0; i < weights.elements(); ++i) sum += at(weights, i);
    EXPECT_NEAR(sum, 12 * 256, 0.01);
  }
}

TEST_F(Command, WrongCallsNameTheArgumentAndWhatIsAllowed) {
  expect_wrong("", "COMMAND is missing", "run, info, verify or bench");
  expect_wrong("rn", "COMMAND = rn", "run, info, verify or bench");
  expect_wrong("run", "FILE is missing", "three .npy");
  expect_wrong("run " + kLayer + " --bogus", "--bogus is unknown", "flashtile run --help");
  expect_wrong("run " + kLayer + " --names q,k", "--names = q,k", "three names");
  expect_wrong("run " + kLayer + " --names a,k,v", "--names = a", "one of 'q', 'k', 'v', 'expected'");
  expect_wrong("run " + kLayer + " --layout bsh", "--layout = bsh", "bshd");
  expect_wrong("run " + kLayer + " --layout shd", "--layout = shd", "q has 4 dimensions");
  expect_wrong("run " + kLayer + " --window 5", "--window = 5", "L,R");
  expect_wrong("run " + kLayer + " --window -2,0", "--window = -2,0", "-1 for no limit");
  expect_wrong("run " + kLayer + " --scale abc", "--scale = abc", "a finite number");
  expect_wrong("run " + kLayer + " --scale", "--scale = nothing", "a value");
  expect_wrong("run " + kLayer + " --softcap -1", "--softcap = -1", "at least 0");
  expect_wrong("run " + kLayer + " --dtype int8", "--dtype = int8", "fp64, fp32, fp16 or bf16");
  expect_wrong("run " + kLayer + " --threads 0", "--threads = 0", "from 1 to");
  expect_wrong("run " + kLayer + " --isa sse9", "--isa = sse9", "scalar");
  expect_wrong("run " + kLayer + " --arithmetic best", "--arithmetic = best", "automatic, fma or amx");
  expect_wrong("run " + kLayer + " --alignment left", "--alignment = left", "bottom-right or top-left");
  expect_wrong("run " + kLayer + " --sinks none", "--sinks = none", "an existing file");
  expect_wrong("run " + kLayer + " --mask k", "mask.shape = (1, 256, 12, 32)", "expected");
  expect_wrong("run " + kLayer + " --out o.txt", "--out = o.txt", ".safetensors, .npz or .npy");
  expect_wrong("run " + kLayer + " --out /no/such/directory/o.npz", "--out = ", "can be written");
  expect_wrong("run a.npz b.npz", "FILE = 2 files", "three .npy");
  expect_wrong("run --q 1x2 --k 1x2x3x4", "--q = 1x2", "BxSxHxD");
  expect_wrong("run --q 1x2x3x4 --k 1x2x2x4", "k.heads = 2", "q.heads = 3");
  expect_wrong("info --bogus", "--bogus is unknown", "flashtile info --help");
}

TEST_F(Command, FailuresExitWithOneAndOneLine) {
  std::ofstream(path("short.npz")) << "PK";
  for (const std::string& words : {"run " + path("missing.npz"), "run " + path("short.npz"), "run " + path("")}) {
    const Result r = run(words);
    EXPECT_EQ(r.status, 1) << words;
    EXPECT_EQ(r.out, "");
    EXPECT_THAT(r.err, StartsWith("flashtile: "));
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

TEST_F(Command, OutputIsLeftAsItWasWhenTheCallIsWrong) {
  std::ofstream(path("o.npz")) << "before";
  EXPECT_EQ(run("run " + kLayer + " --window 5 --out " + path("o.npz")).status, 2);
  EXPECT_EQ(contents(path("o.npz")), "before");
}

TEST_F(Command, InfoSaysWhatIsChosenAndWhy) {
  const json j = run_json("info");
  int chosen = 0, rejected = 0;
  for (const json& set : j["instruction_sets"]) {
    ++(set["chosen"].get<bool>() ? chosen : rejected);
    if (!set["chosen"].get<bool>()) {
      EXPECT_NE(set["reason"], "") << set["name"];
    }
  }
  EXPECT_GE(chosen, 1);  // two where amx stands beside the best of the fma family
  EXPECT_GT(rejected, 0);
  EXPECT_GE(j["threads"]["default"].get<int>(), 1);
  for (const char* const key : {"version", "commit", "compiler", "caches", "cpu"}) EXPECT_TRUE(j.contains(key)) << key;
}

TEST_F(Command, IsaIsCappedByTheEnvironmentAndInfoSaysSo) {
  const Result r = run("info --json", "FLASHTILE_ISA=scalar");
  ASSERT_EQ(r.status, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j["environment"]["FLASHTILE_ISA"], "scalar");
  for (const json& set : j["instruction_sets"]) EXPECT_EQ(set["chosen"].get<bool>(), set["name"] == "scalar");
}

TEST_F(Command, VersionAndHelpSucceed) {
  EXPECT_THAT(run("--version").out, StartsWith("flashtile " + std::to_string(FLASHTILE_VERSION_MAJOR) + "."));
  const Result help = run("run --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_THAT(help.out, HasSubstr("--softcap"));
}

TEST_F(Command, VerifyHolds) {
  const json j = run_json("verify");
  EXPECT_TRUE(j["passed"].get<bool>()) << j.dump(2);
  EXPECT_GE(j["errors"].size(), 4u);
  EXPECT_GE(j["properties"].size(), 8u);
  const json& packed = j["properties"].back();
  EXPECT_THAT(packed["name"].get<std::string>(), StartsWith("packed sequences"));
  EXPECT_GE(packed["cases"].get<int>(), 7 * 2 * 2 * 4);  // sequences, causal or not, threads, types
  for (const json& property : j["properties"]) EXPECT_GT(property["cases"].get<int>(), 0) << property["name"];
}

}  // namespace
}  // namespace flashtile::cli
