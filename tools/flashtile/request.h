// What `flashtile run` was asked, as typed: words, not yet values. main.cpp fills it, run.cpp understands it. The problem in
// it is what every command that takes one is asked.
#pragma once

#include <string>
#include <vector>

#include "flashtile/options.h"

namespace flashtile::cli {

struct RunRequest {
  std::vector<std::string> files;  // one .safetensors or .npz, or three .npy; none: random numbers
  std::string names = "q,k,v";  // of the arrays in the file
  std::string q, k, v;  // shapes of random inputs, B×S×H×D or packed, when there is no file
  std::string cu_seqlens_q, cu_seqlens_k;  // where packed sequences begin: as mask below; k's is q's unless said
  std::string seed = "0";
  std::string layout;  // empty: bshd, shd or sd by the number of dimensions
  std::string dtype, out_dtype;  // empty: as the file has it
  bool causal = false;
  std::string alignment = "bottom-right", window, scale, softcap;
  std::string mask, sinks, alibi;  // an array in the file, or a file; mask beside --q: a type, random numbers of it
  std::string isa = "auto", arithmetic = "automatic", threads;
  std::string out;  // file to write
  bool key_weights = false;  // … with the column sums of the weights
  std::string repeat;  // timed calls; empty: as many as fit into a second
  bool check = false, json = false;
};

/// The options that need no array. Throws UsageError.
Options options_of(const RunRequest& request);

}  // namespace flashtile::cli
