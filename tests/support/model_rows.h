// A case that has run against the model kernel of its family, bit for bit: out, LSE and row statistics.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "reference/model_amx.h"
#include "run/environment.h"
#include "support/compare.h"

namespace flashtile::testing {

inline bool same_number(double a, double b) { return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b)); }

/// Out of line, so that its arithmetic stays inside the environment that the caller has set.
template <class T>
__attribute__((noinline)) reference::ModelRow<T> row_of(Arithmetic family, const Problem& p, const Tensors& t,
                                                        const Sequence& s, Index h, Index i) {
  if constexpr (sizeof(T) == 4)
    if (family == Arithmetic::amx) return reference::model_row_amx(p, t, s, h, i);
  return reference::model_row<T>(p, t, s, h, i);
}

template <class T>
::testing::AssertionResult equals_model_as(Case& c, Arithmetic family, const Problem& p, const Tensors& t) {
  for (Index n = 0; n < p.sequence_count; ++n) {
    const Sequence& s = p.sequences[n];
    for (Index h = 0; h < p.q_heads; ++h)
      for (Index i = 0; i < s.queries; ++i) {
        reference::ModelRow<T> want;
        {
          const FloatEnvironment environment;
          want = row_of<T>(family, p, t, s, h, i);
        }
        const Index row = s.first_query + i;
        const auto check = [&](const char* name, double got, double expected, Index d = -1) {
          if (same_number(got, expected)) return std::string();
          std::ostringstream text;
          text << name << place(s.batch, h, row, d) << std::hexfloat << " = " << got << "; the model says " << expected
               << "\n"
               << reproduction(c);
          return text.str();
        };
        std::string failure;
        for (Index d = 0; d < p.value_dim && failure.empty(); ++d) {
          double x = want.out[d];
          if (p.out.dtype == DType::bf16) x = to_float(to_bf16(static_cast<float>(x)));
          if (p.out.dtype == DType::f16) x = to_float(to_f16(static_cast<float>(x)));
          failure = check("out", c.varlen ? c.out.get(row, h, d) : c.out.get(s.batch, row, h, d), x, d);
        }
        const auto statistic = [&](const char* name, const Array& a, double x) {
          if (failure.empty()) failure = check(name, c.varlen ? a.get(h, row) : a.get(s.batch, h, row), x);
        };
        statistic("lse", c.lse, want.lse);
        statistic("largest_weight", c.largest_weight, want.largest_weight);
        statistic("entropy", c.entropy, want.entropy);
        statistic("logit_mean", c.logit_mean, want.logit_mean);
        statistic("logit_deviation", c.logit_deviation, want.logit_deviation);
        if (!failure.empty()) return ::testing::AssertionFailure() << failure;
      }
  }
  return ::testing::AssertionSuccess();
}

/// Runs the case on every instruction set of a family and holds each against the family's model.
inline ::testing::AssertionResult equals_model(Case& c, Arithmetic family) {
  c.options.arithmetic = family;
  int ran = 0;
  for (Isa isa : available_isas()) {
    if ((family == Arithmetic::amx) != (isa == Isa::amx || isa == Isa::amx_emulated)) continue;
    if (!converts(isa, c.dtypes)) continue;
    c.options.isa = isa;
    const Status status = c.run();
    if (!status.ok()) return ::testing::AssertionFailure() << status.text;
    const Options o = c.wired();
    Problem p;
    if (!try_problem(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o, p).ok())
      return ::testing::AssertionFailure() << "no problem";
    const Tensors t = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o);
    const auto result = p.is_f64() ? equals_model_as<double>(c, family, p, t) : equals_model_as<float>(c, family, p, t);
    if (!result) return ::testing::AssertionFailure() << result.message() << " on " << name_of_isa(isa);
    ++ran;
  }
  if (ran > 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no instruction set of this family";
}
/// In every family that computes its dtypes.
inline ::testing::AssertionResult equals_model(Case& c) {
  const DTypes& d = c.dtypes;
  const auto fma = equals_model(c, Arithmetic::fma);
  if (!fma || d.q != DType::bf16 || d.k != DType::bf16 || d.v != DType::bf16) return fma;
  return equals_model(c, Arithmetic::amx);
}

}  // namespace flashtile::testing
