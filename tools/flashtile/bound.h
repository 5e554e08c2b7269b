// How large the error of an output may be: the bounds of docs/numerics.md as one function.
//
// The bounds are stated for normal data (q, k, v ~ N(0, 1), scale 1/√D, 1024 keys) and 1024 rows of 64 elements or
// more, in O and V. Measures of the data at hand carry them over to anything else.
#pragma once

#include <cmath>

#include "flashtile/tensor.h"

namespace flashtile::cli {

enum class Family { fma, amx };

/// What the bound depends on.
struct Accuracy {
  DType inputs = DType::f32;  // of q, k and v: the most exact of the three
  DType output = DType::f32;
  Family family = Family::fma;
  double head_dim = 64;
  double rounding_output = 0;  // relative rms of rounding the exact answer to the output's type
  double rounding_inputs = 0;  // … and to the inputs' type
  double growth = 1;           // rms size of a dot product's partial sums, as a multiple of normal data's; ≥ 1
  double cancellation = 1;     // what |O| would be if the signs of V were random, as a multiple of |O|; ≥ 1
  double elements = 65536;     // of O, or of V if fewer, over which the rms error was taken
};

/// Σ of the squares of the numbers that are rounded on the way to a logit, for normal data, where the weights are: the
/// partial sums s_1 … s_D of the scaled dot product, whose squares are d/D + (d/D)² on average under softmax, and once
/// more s_D, with square 2, when the scale is applied.
inline double normal_growth(double head_dim) {
  const double d = std::fmax(1, head_dim);
  return (d + 1) / 2 + (d + 1) * (2 * d + 1) / (6 * d) + 2;
}

/// Relative rms error that fp32 arithmetic may show. Two independent parts: the logits, whose roundings are
/// proportional to the numbers above; and all the rest (exp2, sums, division). Measured and rounded up: 3.8e-7 at D =
/// 64 and 4.7e-7 at D = 128. The unit that follows, 3.8e-8, is close to 2^-24 / √3, the deviation of a rounding.
inline double fp32_bound(double head_dim, double growth = 1) {
  constexpr double k64 = 3.8e-7 * 3.8e-7, k128 = 4.7e-7 * 4.7e-7;
  const double unit_squared = (k128 - k64) / (normal_growth(128) - normal_growth(64));
  const double rest_squared = k64 - unit_squared * normal_growth(64);
  return std::sqrt(rest_squared + unit_squared * normal_growth(head_dim) * growth * growth);
}

/// An rms error over few elements scatters: the errors of a row hang together, and the square has about eight times its
/// mean as deviation from row to row, so that the rms has about 4/√rows.
inline double scatter(double elements) {
  constexpr double kRow = 64, kRows = 1024;
  return 1 + 4 * std::fmax(0, 1 / std::sqrt(std::fmax(1, elements) / kRow) - 1 / std::sqrt(kRows));
}

/// Relative rms error of O that the arithmetic may show.
inline double bound(const Accuracy& a) {
  const double strain = a.cancellation * scatter(a.elements);  // the errors do not cancel where O does
  const double arithmetic = strain * fp32_bound(a.head_dim, a.growth);
  // fp64 does the same operations with 29 more bits; 1e-15 is the documented bound up to D = 150 or so.
  if (a.inputs == DType::f64) return std::fmax(1e-15 * strain, arithmetic * 0x1p-29);
  const bool rounds = a.output == DType::f16 || a.output == DType::bf16;
  // fp32 inputs are at least as exact in the amx family: three bf16 terms. For 16-bit inputs of the fma family the
  // weights stay fp32, so that rounding the output is nearly all.
  if (a.inputs == DType::f32 || a.family == Family::fma)
    return std::hypot(arithmetic, rounds ? 1.02 * a.rounding_output : 0);
  // amx rounds the weights too: by as much as the output for bf16, 1.45² = 1 + 1.05²; to two terms of bf16, which is
  // 2^-5 of an fp16 rounding (half of it allowed for here), for fp16.
  const double weights = strain * (a.inputs == DType::bf16 ? 1.05 * a.rounding_inputs : a.rounding_inputs / 16);
  return std::hypot(arithmetic,
                    rounds ? std::fmax(1.45 * a.rounding_output, std::hypot(a.rounding_output, weights)) : weights);
}

/// Any single element may be off by this many times the rms bound, relative to the largest element of its row. The
/// largest of 10^9 normal deviates is 6.1.
inline constexpr double kLargestToRms = 8;

/// Largest error of an LSE. Its absolute error is that of a logit, plus the rounding of the LSE itself.
inline double lse_bound(const Accuracy& a, double largest_lse) {
  const double unit = a.inputs == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double logit = fp32_bound(a.head_dim, a.growth) * (a.inputs == DType::f64 ? 0x1p-29 : 1);
  return kLargestToRms * logit + 2 * unit * std::fmax(1, largest_lse);
}

}  // namespace flashtile::cli
