// Everything that a run reads: q, k, v, and the arrays that options name.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "files/array.h"
#include "flashtile/flashtile.h"
#include "request.h"

namespace flashtile::cli {

struct Inputs {
  std::deque<files::Array> arrays;           // owns; addresses stay
  ConstTensor q, k, v;                       // (B, S, H, D)
  std::string q_layout;                      // of the array that q came from; O is written in the same
  std::string q_source, k_source, v_source;  // "layer.safetensors[q]"
  ConstTensor mask, sinks, alibi_slopes;
  std::string mask_source, sinks_source, alibi_source;
};

/// Reads and converts. Throws UsageError for what the caller can mend, files::FileError for a file that is none.
Inputs read_inputs(const RunRequest& request);

}  // namespace flashtile::cli
