// Public bugs, case A11.8: misleading messages (flash-attention#1537 spoke of an impossible reshape, #91 of contiguity,
// xformers#683 of stride(1) == 0, jax#28974 of the sequence length of a bias). Every wrong call is answered by one line
// that names the argument, says what it was and what is allowed; nothing has been written by then.
#include <gtest/gtest.h>

#include <limits>

#include "support/compare.h"

namespace flashtile::testing {
namespace {

/// A right call of one shape, to be spoilt by a test. q (2, 5, 32, 8), k and v (2, 7, 8, 8).
struct WrongCall {
  Case c{{.batch = 2, .queries = 5, .keys = 7, .q_heads = 32, .kv_heads = 8}};
  Tensor q = c.q.view(), k = c.k.view(), v = c.v.view(), out = c.out.view();
  Options options = c.wired();

  WrongCall() { c.fill_normal(121); }
};

template <class Spoil>
void expect_message(const std::vector<std::string>& parts, Spoil spoil) {
  WrongCall w;
  spoil(w);
  const Status status = try_attention(w.q, w.k, w.v, w.out, w.options);
  const std::string text = status.text;
  EXPECT_EQ(status.code, Code::invalid_argument) << text;
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks " << part;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  for (Array* a : w.c.written()) EXPECT_TRUE(a->untouched()) << text;
}

template <class T>
Tensor shaped(std::initializer_list<Index> shape) {
  static T storage[4096] = {};
  return view(storage, shape);
}

TEST(A11_Messages, A11_8_HeadsThatDoNotDivide) {
  expect_message({"k.heads = 6", "expected a divisor of q.heads = 32"},
                 [](WrongCall& w) { w.k.shape[2] = w.v.shape[2] = 6; });
  expect_message({"v.heads = 4", "k.heads = 8"}, [](WrongCall& w) { w.v.shape[2] = 4; });
  expect_message({"out.heads = 16", "q.heads = 32"}, [](WrongCall& w) { w.out.shape[2] = 16; });
}

TEST(A11_Messages, A11_8_ShapesThatDoNotFit) {
  expect_message({"k.batch = 1", "q.batch = 2"}, [](WrongCall& w) { w.k.shape[0] = 1; });
  expect_message({"v.sequence = 6", "k.sequence = 7"}, [](WrongCall& w) { w.v.shape[1] = 6; });
  expect_message({"out.sequence = 4", "q.sequence = 5"}, [](WrongCall& w) { w.out.shape[1] = 4; });
  expect_message({"k.head_dim = 7", "q.head_dim = 8"}, [](WrongCall& w) { w.k.shape[3] = 7; });
  expect_message({"out.head_dim = 5", "v.head_dim = 8"}, [](WrongCall& w) { w.out.shape[3] = 5; });
  expect_message({"q.shape[1] = -5", "expected 0 or more"}, [](WrongCall& w) { w.q.shape[1] = -5; });
}

TEST(A11_Messages, A11_8_RanksAndStrides) {
  expect_message({"q has rank 3", "expected 4", "(batch, sequence, heads, head_dim)"}, [](WrongCall& w) { w.q.rank = 3; });
  expect_message({"k has rank 0", "expected 4"}, [](WrongCall& w) { w.k = Tensor{}; });
  expect_message({"v.stride[3] = 2", "expected 1"}, [](WrongCall& w) { w.v.stride[3] = 2; });
  expect_message({"out.stride[2] = 0", "distinct"}, [](WrongCall& w) { w.out.stride[2] = 0; });
  expect_message({"lse.stride[1] = 0", "distinct"}, [](WrongCall& w) { w.options.lse.stride[1] = 0; });
}

TEST(A11_Messages, A11_8_DTypes) {
  expect_message({"q.dtype = int32", "expected fp64, fp32, fp16 or bf16"}, [](WrongCall& w) { w.q.dtype = DType::i32; });
  expect_message({"q fp32, k fp64, v fp32", "expected fp64 for all three or for none"},
                 [](WrongCall& w) { w.k.dtype = DType::f64; });
  expect_message({"out.dtype = bf16", "expected fp32"}, [](WrongCall& w) { w.out.dtype = DType::bf16; });
  expect_message({"mask.dtype = int64", "bool", "fp32"},
                 [](WrongCall& w) { w.options.mask = shaped<std::int64_t>({5, 7}); });
  expect_message({"lse.dtype = fp64", "expected fp32"}, [](WrongCall& w) { w.options.lse.dtype = DType::f64; });
  expect_message({"sinks.dtype = fp64", "expected fp32"}, [](WrongCall& w) { w.options.sinks = shaped<double>({32}); });
  expect_message({"key_begin.dtype = int64", "expected int32"},
                 [](WrongCall& w) { w.options.key_begin = shaped<std::int64_t>({1, 5}); });
}

TEST(A11_Messages, A11_8_OptionalArrays) {
  expect_message({"mask.shape = (5, 6)", "Sk = 7"}, [](WrongCall& w) { w.options.mask = shaped<float>({5, 6}); });
  expect_message({"mask.shape = (3, 1, 5, 7)", "B = 2 or 1"},
                 [](WrongCall& w) { w.options.mask = shaped<float>({3, 1, 5, 7}); });
  expect_message({"mask has rank 3", "expected 4"}, [](WrongCall& w) { w.options.mask = shaped<float>({2, 5, 7}); });
  expect_message({"alibi_slopes.shape = (8)", "Hq = 32"}, [](WrongCall& w) { w.options.alibi_slopes = shaped<float>({8}); });
  expect_message({"sinks.shape = (8)", "Hq = 32"}, [](WrongCall& w) { w.options.sinks = shaped<float>({8}); });
  expect_message({"row_scale.shape", "= 5"}, [](WrongCall& w) { w.options.row_scale = shaped<float>({2, 32, 6}); });
  expect_message({"key_end.shape", "Sq = 5"}, [](WrongCall& w) { w.options.key_end = shaped<std::int32_t>({2, 4}); });
  expect_message({"lse.shape = (2, 5, 32)", "= 32"}, [](WrongCall& w) { w.options.lse = transposed(w.options.lse, 1, 2); });
  expect_message({"entropy.shape", "= 5"}, [](WrongCall& w) { w.options.statistics.entropy.shape[2] = 4; });
  expect_message({"key_weights.shape", "= 7"}, [](WrongCall& w) { w.options.key_weights.shape[2] = 5; });
}

TEST(A11_Messages, A11_8_Numbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_message({"window.left = -2", "unlimited", "0 or more"}, [](WrongCall& w) { w.options.window.left = -2; });
  expect_message({"window.right = -3", "unlimited"}, [](WrongCall& w) { w.options.window.right = -3; });
  expect_message({"softcap = -1", "0 (off)"}, [](WrongCall& w) { w.options.softcap = -1; });
  expect_message({"softcap = ", "0 (off)"}, [&](WrongCall& w) { w.options.softcap = nan; });
  expect_message({"scale = ", "finite"}, [&](WrongCall& w) { w.options.scale = nan; });
  expect_message({"dropout.probability = 1", "p < 1"}, [](WrongCall& w) { w.options.dropout.probability = 1; });
  expect_message({"dropout.probability = -0.1", "0 ≤ p"}, [](WrongCall& w) { w.options.dropout.probability = -0.1; });
  expect_message({"threads = -1", "0 (automatic)"}, [](WrongCall& w) { w.options.threads = -1; });
}

TEST(A11_Messages, A11_8_Lengths) {
  static const std::int32_t long_keys[] = {7, 8}, negative[] = {-1, 5};
  expect_message({"key_lengths[1] = 8", "expected 0 to 7"},
                 [](WrongCall& w) { w.options.key_lengths = view(long_keys, {2}); });
  expect_message({"query_lengths[0] = -1", "expected 0 to 5"},
                 [](WrongCall& w) { w.options.query_lengths = view(negative, {2}); });
  expect_message({"key_lengths.shape = (1)", "= 2"}, [](WrongCall& w) { w.options.key_lengths = view(long_keys, {1}); });
}

/// A packed call with these boundaries: q (6, 2, 8), k and v (9, 2, 8).
void expect_packed_message(const std::vector<std::string>& parts, const std::vector<Index>& cu_q,
                           const std::vector<Index>& cu_k) {
  Case c({.queries = 6, .keys = 9, .q_heads = 2, .kv_heads = 2}, cu_q, cu_k);
  c.fill_normal(122);
  const Status status = c.run();
  const std::string text = status.text;
  EXPECT_EQ(status.code, Code::invalid_argument) << text;
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks " << part;
  for (Array* a : c.written()) EXPECT_TRUE(a->untouched()) << text;
}

TEST(A11_Messages, A11_8_PackedBoundaries) {
  expect_packed_message({"cu_seqlens_q[0] = 1", "expected 0"}, {1, 6}, {0, 9});
  expect_packed_message({"cu_seqlens_q[2] = 2", "at least cu_seqlens_q[1] = 3"}, {0, 3, 2, 6}, {0, 3, 6, 9});
  expect_packed_message({"cu_seqlens_k[1] = 10", "at most 9"}, {0, 6}, {0, 10});
  expect_packed_message({"cu_seqlens_k.shape = (3)", "= 2"}, {0, 6}, {0, 4, 9});
  Case c({.queries = 6, .keys = 9}, {0, 6}, {0, 9});
  Options one = c.wired();
  one.cu_seqlens_k = ConstTensor{};
  const Status status = try_attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), one);
  EXPECT_NE(std::string(status.text).find("cu_seqlens_k is absent"), std::string::npos) << status.text;
}

// A null pointer is an argument too: attention reads data, a plan need not.
TEST(A11_Messages, A11_8_NullPointers) {
  expect_message({"q.data = null"}, [](WrongCall& w) { w.q.data = nullptr; });
  expect_message({"k.data = null"}, [](WrongCall& w) { w.k.data = nullptr; });
  expect_message({"v.data = null"}, [](WrongCall& w) { w.v.data = nullptr; });
  expect_message({"out.data = null"}, [](WrongCall& w) { w.out.data = nullptr; });
  expect_message({"lse.data = null"}, [](WrongCall& w) { w.options.lse.data = nullptr; });
  expect_message({"mask.data = null"}, [](WrongCall& w) {
    w.options.mask = shaped<float>({5, 7});
    w.options.mask.data = nullptr;
  });
}

// The exception says the same after the library's name.
TEST(A11_Messages, A11_8_TheExceptionCarriesTheSentence) {
  WrongCall w;
  w.k.shape[2] = w.v.shape[2] = 6;
  try {
    attention(w.q, w.k, w.v, w.out, w.options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "flashtile: k.heads = 6; expected a divisor of q.heads = 32");
    EXPECT_EQ(error.code(), Code::invalid_argument);
  }
}

}  // namespace
}  // namespace flashtile::testing
