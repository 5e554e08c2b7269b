// Every 16-bit number through every instruction set: a row that sees one key has O = V, so what was stored comes back.
#include <gtest/gtest.h>

#include <cmath>

#include "problem/number.h"
#include "support/case.h"

namespace flashtile::testing {
namespace {

constexpr Index kRows = 256, kDims = 256;  // together all patterns

/// O of the value pattern 256 i + d in row i, dimension d, against what the scalar conversions say of it.
void expect_values_come_back(Isa isa, DType dtype, DType out) {
  Case c({.queries = kRows, .keys = kRows, .head_dim = 4, .value_dim = kDims}, {dtype, dtype, dtype, out});
  c.q.fill_value(0), c.k.fill_normal(1);  // logits 0, so weights of exactly 1
  auto* v = static_cast<std::uint16_t*>(c.v.view().data);
  for (Index i = 0; i < kRows * kDims; ++i) v[i] = static_cast<std::uint16_t>(i);
  c.outputs = Outputs::out;
  c.options.isa = isa, c.options.arithmetic = Arithmetic::fma, c.options.window = {0, 0};
  ASSERT_TRUE(c.run().ok());
  for (Index i = 0; i < kRows; ++i)
    for (Index d = 0; d < kDims; ++d) {
      const double stored = element(c.v.view().data, dtype, i * kDims + d), got = c.out.get(0, i, 0, d);
      const double want = std::fabs(stored) < 0x1p-126 ? 0 : stored;  // fp32 arithmetic flushes denormals
      const double rounded = out == DType::f32   ? want
                             : out == DType::f16 ? to_float(to_f16(static_cast<float>(want)))
                                                 : to_float(to_bf16(static_cast<float>(want)));
      if (want != want) EXPECT_TRUE(std::isnan(got)) << i << " " << d;
      else ASSERT_EQ(got, rounded) << "pattern " << i * kDims + d;
    }
}

TEST(Storage, EveryStoredNumberComesBackOnEveryInstructionSet) {
  for (Isa isa : available_isas()) {
    if (isa == Isa::amx || isa == Isa::amx_emulated) continue;  // their fma twin is the cap below
    for (DType dtype : {DType::bf16, DType::f16})
      for (DType out : {DType::f32, dtype}) {
        if (!converts(isa, dtype)) continue;
        SCOPED_TRACE(std::string(name_of_isa(isa)) + " " + name_of(dtype) + " to " + name_of(out));
        expect_values_come_back(isa, dtype, out);
      }
  }
}

}  // namespace
}  // namespace flashtile::testing
