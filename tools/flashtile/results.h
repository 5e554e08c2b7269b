// The arrays that a run writes, and the file they go to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/array.h"
#include "flashtile/flashtile.h"
#include "inputs.h"

namespace flashtile::cli {

struct Results {
  files::Array out;                                                        // in q's layout
  files::Array lse, largest_weight, entropy, logit_mean, logit_deviation;  // (B, Hq, Sq); packed: (Hq, total)
  files::Array key_weights;  // (B, Hq, Sk); packed: (Hq, total), when asked for

  Tensor out_view;  // (B, Sq, Hq, Dv); packed: (total, Hq, Dv)
};

/// Arrays of the right shapes, filled with NaN, and the options that name them. `out_dtype` is O's element type.
Results make_results(const Inputs& inputs, DType out_dtype, bool key_weights, Options& options);

/// Refuses, before anything is computed, a name that write_results could not write.
void check_out_path(const std::string& path);

/// Writes O, LSE and statistics; an .npy file holds O alone. The file appears whole or not at all.
void write_results(const std::string& path, Results results, bool key_weights);

/// Names of the arrays that write_results writes to that path.
std::vector<std::string> written_names(const std::string& path, bool key_weights);

}  // namespace flashtile::cli
