// `flashtile run` on packed sequences: typed as the sum of their lengths, or arrays with cu_seqlens in a file.
#include "command/command.h"

#include <cmath>

#include "convert.h"
#include "files/array_file.h"
#include "problem/number.h"

namespace flashtile::cli {
namespace {

double at(const files::Array& a, std::int64_t i) { return element(a.bytes.data(), a.dtype, i); }

files::Array integers(const char* name, DType dtype, const std::vector<std::int64_t>& values) {
  files::Array a = files::make_array(name, dtype, {std::ssize(values)});
  for (std::size_t i = 0; i < values.size(); ++i)
    if (dtype == DType::i32) reinterpret_cast<std::int32_t*>(a.bytes.data())[i] = static_cast<std::int32_t>(values[i]);
    else reinterpret_cast<std::int64_t*>(a.bytes.data())[i] = values[i];
  return a;
}

/// Three sequences: 4, 1 and 6 queries, 7, 2 and 5 keys; two heads that share one key-value head.
class Packed : public Command {
 protected:
  static constexpr std::int64_t kQ[] = {0, 4, 5, 11}, kK[] = {0, 7, 9, 14};
  static constexpr std::int64_t kHeads = 2, kDim = 8;

  void SetUp() override {
    Command::SetUp();
    std::vector<files::Array> arrays;
    arrays.push_back(normal_array("q", DType::f32, {11, kHeads, kDim}, 1));
    arrays.push_back(normal_array("k", DType::f32, {14, 1, kDim}, 2));
    arrays.push_back(normal_array("v", DType::f32, {14, 1, kDim}, 3));
    arrays.push_back(integers("cu_seqlens_q", DType::i32, {0, 4, 5, 11}));
    arrays.push_back(integers("cu_seqlens_k", DType::i32, {0, 7, 9, 14}));
    arrays.push_back(integers("wide", DType::i64, {0, 4, 5, 11}));
    arrays.push_back(integers("falling", DType::i32, {0, 5, 4, 11}));
    files::write_arrays(path("packed.npz"), arrays);
  }
  std::string packed_run(const std::string& words) const {
    return "run " + path("packed.npz") + " --cu-seqlens-q cu_seqlens_q --cu-seqlens-k cu_seqlens_k " + words;
  }
};

TEST_F(Packed, EachSequenceHasTheBitsOfARunOfItsOwn) {
  ASSERT_EQ(run(packed_run("--causal --key-weights --out ") + path("o.npz")).status, 0);
  const files::ArrayFile whole = files::ArrayFile::open(path("o.npz")), in = files::ArrayFile::open(path("packed.npz"));
  const files::Array out = whole.read("out"), lse = whole.read("lse"), weights = whole.read("key_weights");
  EXPECT_EQ(out.shape, (std::vector<std::int64_t>{11, kHeads, kDim}));
  EXPECT_EQ(lse.shape, (std::vector<std::int64_t>{kHeads, 11}));
  EXPECT_EQ(weights.shape, (std::vector<std::int64_t>{kHeads, 14}));
  for (int s = 0; s < 3; ++s) {
    std::vector<files::Array> alone;
    const auto part = [&](const char* name, const std::int64_t* bounds) {
      const files::Array all = in.read(name);
      const std::int64_t row = all.shape[1] * all.shape[2], rows = bounds[s + 1] - bounds[s];
      alone.push_back(files::make_array(name, DType::f32, {1, rows, all.shape[1], all.shape[2]}));
      std::copy_n(all.bytes.data() + bounds[s] * row * 4, rows * row * 4, alone.back().bytes.data());
    };
    part("q", kQ), part("k", kK), part("v", kK);
    files::write_arrays(path("alone.npz"), alone);
    ASSERT_EQ(run("run " + path("alone.npz") + " --causal --key-weights --out " + path("a.npz")).status, 0);
    const files::ArrayFile file = files::ArrayFile::open(path("a.npz"));
    const files::Array o = file.read("out"), l = file.read("lse"), w = file.read("key_weights");
    const std::int64_t rows = kQ[s + 1] - kQ[s], keys = kK[s + 1] - kK[s];
    for (std::int64_t i = 0; i < o.elements(); ++i) EXPECT_EQ(at(o, i), at(out, kQ[s] * kHeads * kDim + i)) << s;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) EXPECT_EQ(at(l, h * rows + i), at(lse, h * 11 + kQ[s] + i)) << s;
      for (std::int64_t j = 0; j < keys; ++j) EXPECT_EQ(at(w, h * keys + j), at(weights, h * 14 + kK[s] + j)) << s;
    }
  }
}

TEST_F(Packed, ArraysOfAFileAreReportedAndChecked) {
  const json j = run_json(packed_run("--check --causal"));
  EXPECT_TRUE(j["check"]["passed"].get<bool>()) << j["check"].dump(2);
  EXPECT_EQ(j["check"]["rows"], 11 * kHeads);
  EXPECT_EQ(j["problem"], "--dtype fp32 --q 4+1+6x2x8 --k 7+2+5x1x8 --v 7+2+5x1x8 --causal --lse --statistics");
  EXPECT_EQ(j["tensors"]["q"]["shape"], json({11, kHeads, kDim}));
  EXPECT_EQ(j["tensors"]["lse"]["shape"], json({kHeads, 11}));
  EXPECT_EQ(j["tensors"]["cu_seqlens_k"]["shape"], json({4}));
  EXPECT_EQ(j["tensors"]["cu_seqlens_k"]["dtype"], "int32");
  EXPECT_EQ(j["heads"][1]["rows"], 11 - 1);  // the first of six queries, beside five keys, sees none
  const Result text = run(packed_run(""));
  EXPECT_THAT(text.out, HasSubstr("(2, ≤6, ≤7)"));
  EXPECT_THAT(text.out, HasSubstr("ΣSq×Hq×D"));
}

TEST_F(Packed, OneArrayMayServeQueriesAndKeysAndOtherLayouts) {
  std::vector<files::Array> arrays, cu;
  for (const char* const name : {"q", "k", "v"})
    arrays.push_back(normal_array(name, DType::bf16, {3, 12, 8}, 4));  // H, S, D
  files::write_arrays(path("hsd.safetensors"), arrays);
  cu.push_back(integers("cu", DType::i32, {0, 5, 12}));
  files::write_arrays(path("cu.npy"), cu);
  const json j = run_json("run " + path("hsd.safetensors") + " --layout hsd --check --cu-seqlens-q " + path("cu.npy") +
                          " --out " + path("o.npz"));
  EXPECT_TRUE(j["check"]["passed"].get<bool>());
  EXPECT_EQ(j["tensors"]["q"]["shape"], json({12, 3, 8}));
  EXPECT_THAT(j["problem"].get<std::string>(), HasSubstr("--q 5+7x3x8 --k 5+7x3x8"));
  EXPECT_EQ(files::ArrayFile::open(path("o.npz")).read("out").shape, (std::vector<std::int64_t>{3, 12, 8}));
}

TEST_F(Packed, TypedLengthsAreOneProblemWithEveryOption) {
  const json j = run_json(
      "run --q 17+0+2*30x4x17 --k 50+3+0+41x2x17 --v 50+3+0+41x2x9 --causal --window 20,-1 --softcap 4 --alibi auto "
      "--dtype bf16 --key-weights --check --out " +
      path("o.npz"));
  EXPECT_TRUE(j["check"]["passed"].get<bool>()) << j["check"].dump(2);
  EXPECT_EQ(j["check"]["rows"], 77 * 4);
  EXPECT_THAT(j["problem"].get<std::string>(), HasSubstr("--q 17+0+2*30x4x17 --k 50+3+0+41x2x17 --v 50+3+0+41x2x9"));
  const std::string line = run_json("run --q 3+4x2x8 --k 5+4x1x8 --window 3,1")["problem"];
  EXPECT_EQ(run_json("run " + line)["problem"], line);
}

TEST_F(Packed, WrongCallsNameTheArgumentAndWhatIsAllowed) {
  const std::string file = "run " + path("packed.npz") + " ";
  expect_wrong(file + "--cu-seqlens-q none", "--cu-seqlens-q = none", "'cu_seqlens_q', 'cu_seqlens_k'");
  expect_wrong(file + "--cu-seqlens-k cu_seqlens_k", "--cu-seqlens-k = cu_seqlens_k", "--cu-seqlens-q beside it");
  expect_wrong(file + "--cu-seqlens-q wide", "cu_seqlens_q.dtype = int64", "int32");
  expect_wrong(file + "--cu-seqlens-q falling", "cu_seqlens_q[2] = 4", "5");
  expect_wrong(file + "--cu-seqlens-q cu_seqlens_k", "cu_seqlens_q[3] = 14", "11");
  expect_wrong(file + "--cu-seqlens-q q", "cu_seqlens_q.dtype = fp32", "int32");
  expect_wrong("run --q 3+4x2x8 --k 7x2x8", "--k = 7x2x8", "2 sequences, as --q 3+4x2x8");
  expect_wrong("run --q '0*5x2x8' --k 0x2x8", "--k = 0x2x8", "0 sequences");  // none is not one of length 0
  expect_wrong("run --q 3+4x2x8 --k 1x7x2x8", "--k = 1x7x2x8", "packed sequences, as --q 3+4x2x8");
  expect_wrong("run --q 1x7x2x8 --k 3+4x2x8", "--k = 3+4x2x8", "four sizes, as --q 1x7x2x8");
  expect_wrong("run --q 3+4x2x8 --k 3+4x2x8 --v 4+3x2x8", "--v = 4+3x2x8", "same lengths as --k 3+4x2x8");
  expect_wrong("run --q 3+x2x8 --k 3x2x8", "--q = 3+x2x8", "17+300+3*2048x8x128");
  expect_wrong("run --q 3+4x2x8 --k 3+4x2x8 --cu-seqlens-q cu.npy", "--cu-seqlens-q = cu.npy", "a FILE beside it");
  std::vector<files::Array> arrays;
  for (const char* const name : {"q", "k", "v"}) arrays.push_back(normal_array(name, DType::f32, {2, 4, 1, 8}, 4));
  arrays.push_back(integers("cu", DType::i32, {0, 4}));
  files::write_arrays(path("dense.npz"), arrays);
  expect_wrong("run " + path("dense.npz") + " --cu-seqlens-q cu", "q.batch = 2", "packed");
}

}  // namespace
}  // namespace flashtile::cli
