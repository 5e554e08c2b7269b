// The error table of docs/numerics.md: relative rms error of O against the fp64 definition (long double for fp64
// inputs) and the largest error of an LSE, by head dim, dtype and instruction set. The reference's inputs are the
// stored numbers, so what is shown is the arithmetic and the rounding of the output, not the rounding of the inputs.
// Decides nothing.
//
//   flashtile_error_table [--queries N]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "flashtile/flashtile.h"
#include "problem/number.h"
#include "reference/attention.h"
#include "tests/support/random.h"

namespace flashtile::bench {
namespace {

constexpr Index kKeys = 1024, kHeads = 4;

std::vector<std::byte> normal_array(DType dtype, Index elements, std::uint64_t seed) {
  testing::Random random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * size_of(dtype)));
  for (Index i = 0; i < elements; ++i) {
    const double x = random.normal();
    const float narrow = static_cast<float>(x);
    const f16 half = to_f16(narrow);
    const bf16 brain = to_bf16(narrow);
    const void* from = &narrow;
    if (dtype == DType::f64) from = &x;
    if (dtype == DType::f16) from = &half;
    if (dtype == DType::bf16) from = &brain;
    std::memcpy(bytes.data() + i * size_of(dtype), from, static_cast<std::size_t>(size_of(dtype)));
  }
  return bytes;
}

Tensor tensor(std::vector<std::byte>& bytes, DType dtype, Index rows, Index dim) {
  Tensor t = view(reinterpret_cast<float*>(bytes.data()), {1, rows, kHeads, dim});
  t.dtype = dtype;
  return t;
}

double round_to(DType dtype, double x) {
  if (dtype == DType::f16) return to_float(to_f16(static_cast<float>(x)));
  if (dtype == DType::bf16) return to_float(to_bf16(static_cast<float>(x)));
  return dtype == DType::f32 ? static_cast<float>(x) : x;
}

/// One problem: inputs, the exact answer, and what each instruction set makes of it.
template <class Real>
class Table {
 public:
  Table(DType dtype, Index dim, Index queries)
      : dtype_(dtype),
        dim_(dim),
        queries_(queries),
        q_(normal_array(dtype, queries * kHeads * dim, 1)),
        k_(normal_array(dtype, kKeys * kHeads * dim, 2)),
        v_(normal_array(dtype, kKeys * kHeads * dim, 3)),
        out_(q_.size()),
        lse_(static_cast<std::size_t>(kHeads * queries) * sizeof(double)) {
    Problem p;
    if (!try_problem(q(), k(), v(), out(), options(), p).ok()) std::abort();
    const Tensors t = tensors_of(q(), k(), v(), out(), options());
    for (Index h = 0; h < kHeads; ++h)
      for (Index i = 0; i < queries; ++i) rows_.push_back(reference::attention_row<Real>(p, t, p.sequences[0], h, i));
  }

  void print(Isa isa, const char* name) {
    Options o = options();
    o.isa = isa;
    Plan plan;
    Status status = try_plan(q(), k(), v(), out(), o, plan);
    if (status.ok() && std::strcmp(plan.facts().isa, name) != 0) return;  // not an instruction set for this dtype
    if (status.ok()) status = try_attention(q(), k(), v(), out(), o);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", name, status.text);
      return;
    }
    double squares = 0, rounding = 0, size = 0, lse_error = 0;
    for (Index h = 0; h < kHeads; ++h)
      for (Index i = 0; i < queries_; ++i) {
        const reference::Row<Real>& row = rows_[static_cast<std::size_t>(h * queries_ + i)];
        for (Index d = 0; d < dim_; ++d) {
          const Real exact = row.out[static_cast<std::size_t>(d)];
          const double got = element(out_.data(), dtype_, (i * kHeads + h) * dim_ + d);
          const double error = static_cast<double>(Real(got) - exact), wide = static_cast<double>(exact);
          const double alone = static_cast<double>(Real(round_to(dtype_, wide)) - exact);
          squares += error * error, rounding += alone * alone, size += wide * wide;
        }
        const double lse = element(lse_.data(), lse_dtype(), h * queries_ + i);
        lse_error = std::fmax(lse_error, std::fabs(static_cast<double>(Real(lse) - row.lse)));
      }
    std::printf("| %lld | %s | %s | %.2e | %.2e | %.2e |\n", static_cast<long long>(dim_), name_of(dtype_), name,
                std::sqrt(squares / size), std::sqrt(rounding / size), lse_error);
  }

 private:
  DType lse_dtype() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }
  Tensor q() { return tensor(q_, dtype_, queries_, dim_); }
  Tensor k() { return tensor(k_, dtype_, kKeys, dim_); }
  Tensor v() { return tensor(v_, dtype_, kKeys, dim_); }
  Tensor out() { return tensor(out_, dtype_, queries_, dim_); }
  Options options() {
    Options o;
    o.lse = view(reinterpret_cast<float*>(lse_.data()), {1, kHeads, queries_});
    o.lse.dtype = lse_dtype();
    return o;
  }

  DType dtype_;
  Index dim_, queries_;
  std::vector<std::byte> q_, k_, v_, out_, lse_;
  std::vector<reference::Row<Real>> rows_;
};

template <class Real>
void print_dtype(DType dtype, Index dim, Index queries) {
  Table<Real> table(dtype, dim, queries);
  IsaReport reports[16];
  const int n = isa_reports(reports, 16);
  for (int i = 0; i < n && i < 16; ++i)
    if (reports[i].built && reports[i].available) table.print(reports[i].isa, reports[i].name);
}

int run(int argc, char** argv) {
  Index queries = kKeys;
  if (argc == 3 && std::strcmp(argv[1], "--queries") == 0) queries = std::atoll(argv[2]);
  if ((argc != 1 && argc != 3) || queries < 1) {
    std::fprintf(stderr, "usage: flashtile_error_table [--queries N]\n");
    return 2;
  }
  std::printf("| D | dtype | instruction set | O, relative rms | rounding the exact O | LSE, largest |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (Index dim : {64, 128}) {
    print_dtype<long double>(DType::f64, dim, queries);
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) print_dtype<double>(dtype, dim, queries);
  }
  return 0;
}

}  // namespace
}  // namespace flashtile::bench

int main(int argc, char** argv) { return flashtile::bench::run(argc, argv); }
