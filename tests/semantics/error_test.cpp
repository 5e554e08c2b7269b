// The bounds of docs/numerics.md on every instruction set: relative rms of O on normal data with 1024 keys, and a bound on
// every single element for data of any kind.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/compare.h"
#include "support/grid_size.h"

namespace flashtile::testing {
namespace {

struct Errors {
  double squares = 0, rounding = 0, size = 0;
  double rms() const { return std::sqrt(squares / size); }
  double over_rounding() const { return std::sqrt(squares / rounding); }
};

/// The exact answer once, and what each instruction set makes of it.
template <class Real>
void add_errors(Case& c, const std::vector<Isa>& isas, std::vector<Errors>& all) {
  Problem p;
  ASSERT_TRUE(try_problem(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired(), p).ok());
  const Tensors t = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired());
  std::vector<Real> exact;
  for (Index i = 0; i < c.shape.queries; ++i)
    for (Real x : reference::attention_row<Real>(p, t, p.sequences[0], 0, i).out) exact.push_back(x);
  for (std::size_t n = 0; n < isas.size(); ++n) {
    c.options.isa = isas[n];
    ASSERT_TRUE(c.run().ok());
    const std::vector<double> out = c.out.values();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = static_cast<double>(Real(out[i]) - exact[i]), wide = static_cast<double>(exact[i]);
      const double alone = static_cast<double>(Real(rounded(c.dtypes.out, wide)) - exact[i]);
      all[n].squares += error * error, all[n].rounding += alone * alone, all[n].size += wide * wide;
    }
  }
}

TEST(Error, RmsOfNormalDataIsWithinTheDocumentedBound) {
  const std::vector<Isa> isas = available_isas();
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (Index dim : {64, 128}) {
      std::vector<Errors> all(isas.size());  // over several seeds, as one: single ones scatter by 3 %
      for (std::uint64_t seed = 1; seed <= (small_grid() ? 1 : 4); ++seed) {
        Case c({.queries = small_grid() ? 64 : 384, .keys = 1024, .head_dim = dim, .value_dim = dim}, dtype);
        c.fill_normal(seed), c.outputs = Outputs::out;
        if (dtype == DType::f64) add_errors<long double>(c, isas, all);
        else add_errors<double>(c, isas, all);
      }
      for (std::size_t n = 0; n < isas.size(); ++n) {
        const bool amx = dtype == DType::bf16 && (isas[n] == Isa::amx || isas[n] == Isa::amx_emulated);
        const double fp32 = (dim == 64 ? 3.8e-7 : 4.7e-7) * (small_grid() ? 1.1 : 1);
        SCOPED_TRACE(std::string(name_of_isa(isas[n])) + ", " + name_of(dtype) + ", D " + std::to_string(dim));
        if (dtype == DType::f64) EXPECT_LE(all[n].rms(), 1e-15);
        else if (dtype == DType::f32) EXPECT_LE(all[n].rms(), fp32);
        else EXPECT_LE(all[n].over_rounding(), amx ? 1.45 : 1.02);
        EXPECT_GT(all[n].rms(), 1e-17) << "nothing was compared";
      }
    }
}

/// |ΔO| ≤ c · u · (D + 2) · max over visible keys of Σ|q||k| · scale · Σp|v| + c · u · Σp|v| + 2^−125 · max|v|: what fp32
/// arithmetic may do to any element, with c = 4 for the two sides of the softmax and the sums.
void expect_elementwise(Case& c) {
  c.outputs = Outputs::out;
  ASSERT_TRUE(c.run().ok());
  Problem p;
  ASSERT_TRUE(try_problem(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired(), p).ok());
  const Tensors t = tensors_of(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.wired());
  const double u = 0x1p-24, times = 4, dims = static_cast<double>(c.shape.head_dim);
  for (Index i = 0; i < c.shape.queries; ++i) {
    const reference::Row<double> row = reference::attention_row<double>(p, t, p.sequences[0], 0, i);
    double dot = 0;
    for (Index j = 0; j < c.shape.keys; ++j) {
      double sum = 0;
      for (Index d = 0; d < c.shape.head_dim; ++d) sum += std::fabs(c.q.get(0, i, 0, d) * c.k.get(0, j, 0, d));
      dot = std::max(dot, sum * p.scale);
    }
    for (Index d = 0; d < c.shape.value_dim; ++d) {
      double sum = 0, most = 0;
      for (Index j = 0; j < c.shape.keys; ++j) {
        const double v = std::fabs(c.v.get(0, j, 0, d));
        sum += row.weights[static_cast<std::size_t>(j)] * v, most = std::max(most, v);
      }
      const double allowed = times * u * ((dims + 2) * dot + 1) * sum + 0x1p-125 * most;
      ASSERT_LE(std::fabs(c.out.get(0, i, 0, d) - row.out[static_cast<std::size_t>(d)]), allowed) << "row " << i;
    }
  }
}

TEST(Error, EveryElementIsWithinItsOwnBound) {
  for (Isa isa : available_isas())
    for (double size : {0.01, 1.0, 5.0, 40.0})
      for (Index dim : {3, 64, 130}) {
        Case c({.queries = 24, .keys = 333, .head_dim = dim, .value_dim = 20});
        c.fill_normal(static_cast<std::uint64_t>(dim));
        c.q.fill_normal(7, size);
        c.options.isa = isa;
        SCOPED_TRACE(std::string(name_of_isa(isa)) + ", queries of size " + std::to_string(size));
        ASSERT_NO_FATAL_FAILURE(expect_elementwise(c));
      }
}

}  // namespace
}  // namespace flashtile::testing
