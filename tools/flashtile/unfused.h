// The baseline of `flashtile bench`: attention as a program without a fused kernel computes it. OpenBLAS's sgemm for Q Kᵀ,
// softmax over stored rows, sgemm for P V, in fp32, S stored whole for each head of each sequence. OpenBLAS is looked for
// when the command runs, so that neither the library nor the command needs it.
#pragma once

#include <string>
#include <vector>

#include "files/array.h"
#include "flashtile/flashtile.h"
#include "inputs.h"

namespace flashtile::cli {

/// Why there is no baseline here, in words; empty when there is one.
std::string unfused_missing();
/// The OpenBLAS that was found: version, and the kernels it chose.
std::string unfused_description();

class Unfused {
 public:
  /// Why this problem has no baseline, in words; empty when it has one.
  static std::string refusal(const Inputs& inputs, const Options& options, int threads);

  /// Copies q, k and v as fp32. Only after unfused_missing() and refusal() were both empty.
  Unfused(const Inputs& inputs, const Options& options, Isa isa, int threads);

  void run();
  Tensor out() { return out_.view(); }  // (B, Sq, Hq, Dv), packed (total, Hq, Dv); fp32

 private:
  void keep_mask(const ConstTensor& mask, std::int64_t queries);
  void run_rows(int worker, std::int64_t share);

  files::Array q_, k_, v_, out_;
  Extents extents_;
  std::vector<Span> sequences_;
  Options options_;
  float scale_;
  int threads_;
  std::int64_t blocks_ = 1;                // of the rows of a head, so that every thread has work
  std::vector<std::vector<float>> scores_;  // S of each thread
  std::vector<float> mask_;                // (Sq, Sk) as numbers to add in base 2; empty without one
  std::int64_t mask_keys_ = 0;
  void (*softmax_)(float*, std::int64_t);
};

}  // namespace flashtile::cli
