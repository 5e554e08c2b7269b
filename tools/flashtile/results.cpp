#include "results.h"

#include <unistd.h>

#include <limits>

#include "convert.h"
#include "failure.h"
#include "files/array_file.h"
#include "layout.h"

namespace flashtile::cli {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

files::Array poisoned(const char* name, DType dtype, std::vector<std::int64_t> shape) {
  files::Array array = files::make_array(name, dtype, std::move(shape));
  for (std::int64_t i = 0; i < array.elements(); ++i)
    store(std::numeric_limits<double>::quiet_NaN(), dtype, array.bytes.data(), i);
  return array;
}

}  // namespace

Results make_results(const Inputs& inputs, DType out_dtype, bool key_weights, Options& options) {
  const DType wide = inputs.q.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Extents e = inputs.extents();
  const auto shape_of = [&](std::int64_t n) {
    return inputs.packed() ? std::vector{e.heads, n} : std::vector{e.batch, e.heads, n};
  };
  Results r;
  r.out = poisoned("out", out_dtype, shape_in(inputs.q_layout, {e.batch, e.queries, e.heads, e.value_dim}));
  r.out_view = inputs.packed() ? as_packed(r.out, inputs.q_layout, "out") : as_bshd(r.out, inputs.q_layout);
  const struct {
    const char* name;
    files::Array& array;
    Tensor& option;
  } rows[] = {{"lse", r.lse, options.lse},
              {"largest_weight", r.largest_weight, options.statistics.largest_weight},
              {"entropy", r.entropy, options.statistics.entropy},
              {"logit_mean", r.logit_mean, options.statistics.logit_mean},
              {"logit_deviation", r.logit_deviation, options.statistics.logit_deviation}};
  for (const auto& row : rows) {
    row.array = poisoned(row.name, wide, shape_of(e.queries));
    row.option = row.array.view();
  }
  if (key_weights) {
    r.key_weights = poisoned("key_weights", wide, shape_of(e.keys));
    options.key_weights = r.key_weights.view();
  }
  return r;
}

void check_out_path(const std::string& path) {
  if (!ends_with(path, ".safetensors") && !ends_with(path, ".npz") && !ends_with(path, ".npy"))
    throw wrong("--out", path, "a name that ends in .safetensors, .npz or .npy");
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(directory.c_str(), W_OK | X_OK) != 0) throw wrong("--out", path, "a name in a directory that can be written");
}

void write_results(const std::string& path, Results results, bool key_weights) {
  std::vector<files::Array> arrays;
  arrays.push_back(std::move(results.out));
  if (!ends_with(path, ".npy")) {
    arrays.push_back(std::move(results.lse));
    arrays.push_back(std::move(results.largest_weight));
    arrays.push_back(std::move(results.entropy));
    arrays.push_back(std::move(results.logit_mean));
    arrays.push_back(std::move(results.logit_deviation));
    if (key_weights) arrays.push_back(std::move(results.key_weights));
  }
  files::write_arrays(path, arrays);
}

std::vector<std::string> written_names(const std::string& path, bool key_weights) {
  if (ends_with(path, ".npy")) return {"out"};
  std::vector<std::string> names = {"out", "lse", "largest_weight", "entropy", "logit_mean", "logit_deviation"};
  if (key_weights) names.emplace_back("key_weights");
  return names;
}

}  // namespace flashtile::cli
