#include "inputs.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "alibi.h"
#include "convert.h"
#include "failure.h"
#include "files/array_file.h"
#include "files/file_error.h"
#include "layout.h"
#include "parse.h"

namespace flashtile::cli {
namespace {

bool is_floating(DType t) { return t == DType::f64 || t == DType::f32 || t == DType::f16 || t == DType::bf16; }
bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}
bool exists(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0;
}

/// Names that may be given, for an error.
std::string available(const files::ArrayFile& file) {
  constexpr std::size_t kShown = 12;
  std::string text;
  std::size_t listed = 0;
  for (const files::Entry& entry : file.entries())
    if (++listed <= kShown) text += (listed == 1 ? "" : ", ") + files::in_quotes(entry.name);
  if (listed > kShown) text += fmt::format(" and {} more", listed - kShown);
  return listed == 0 ? "an array of the file, which has none" : "one of " + text;
}

bool has(const files::ArrayFile& file, const std::string& name) {
  const auto& entries = file.entries();
  return std::any_of(entries.begin(), entries.end(), [&](const files::Entry& e) { return e.name == name; });
}

struct Loaded {
  std::vector<files::Array> qkv;  // three
  std::string sources[3];
  std::optional<files::ArrayFile> file;  // whose arrays options may name
};

Loaded load_one(const RunRequest& request) {
  const std::vector<std::string> names = split(request.names, ',');
  if (names.size() != 3) throw wrong("--names", request.names, "three names, as in q,k,v");
  const std::string& path = request.files[0];
  Loaded loaded;
  loaded.file = files::ArrayFile::open(path);
  for (const std::string& name : names)
    if (!has(*loaded.file, name)) throw wrong("--names", name, available(*loaded.file));
  for (std::size_t i = 0; i < 3; ++i) {
    loaded.qkv.push_back(loaded.file->read(names[i]));
    loaded.sources[i] = fmt::format("{}[{}]", path, names[i]);
  }
  return loaded;
}

Loaded load_three(const RunRequest& request) {
  Loaded loaded;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& path = request.files[i];
    if (!ends_with(path, ".npy")) throw wrong("FILE", path, "three .npy files, or one .safetensors or .npz");
    loaded.qkv.push_back(files::ArrayFile::open(path).read(std::size_t{0}));
    loaded.sources[i] = path;
  }
  return loaded;
}

Loaded make_random(const RunRequest& request) {
  const std::string* const shapes[] = {&request.q, &request.k, &request.v};
  const char* const arguments[] = {"--q", "--k", "--v"};
  const DType dtype = request.dtype.empty() ? DType::f32 : parse_dtype("--dtype", request.dtype);
  const auto seed = static_cast<std::uint64_t>(parse_integer("--seed", request.seed, 0, INT64_MAX));
  Loaded loaded;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& shape = shapes[i]->empty() && i == 2 ? request.k : *shapes[i];  // --v is --k unless said
    if (shape.empty()) throw wrong(arguments[i], "''", "a shape BxSxHxD, or name a FILE to read");
    loaded.qkv.push_back(normal_array(arguments[i] + 2, dtype, parse_shape(arguments[i], shape), 3 * seed + i));
    loaded.sources[i] = fmt::format("N(0, 1), seed {}", seed);
  }
  return loaded;
}

Loaded load(const RunRequest& request) {
  const bool shapes = !request.q.empty() || !request.k.empty() || !request.v.empty();
  if (request.files.empty() && !shapes)
    throw UsageError("FILE is missing; expected one .safetensors or .npz, three .npy, or shapes: --q 1x2048x8x128 --k …");
  if (!request.files.empty() && shapes)
    throw wrong("--q, --k, --v", "given with a FILE", "shapes only without one: the file has its own");
  if (request.files.empty()) return make_random(request);
  if (request.files.size() == 1) {
    if (ends_with(request.files[0], ".npy"))
      throw wrong("FILE", request.files[0], "three .npy files (q, k and v), or one .safetensors or .npz");
    return load_one(request);
  }
  if (request.files.size() == 3) return load_three(request);
  throw wrong("FILE", fmt::format("{} files", request.files.size()), "one .safetensors or .npz, or three .npy");
}

/// The array that an option names: one of the input file, or a file with one array.
files::Array option_array(std::string_view argument, const std::string& word, const std::optional<files::ArrayFile>& input,
                          std::string& source) {
  source = word;
  if (input && has(*input, word)) return input->read(word);
  if (!exists(word)) throw wrong(argument, word, input ? "an existing file, or " + available(*input) : "an existing file");
  const files::ArrayFile file = files::ArrayFile::open(word);
  if (file.entries().size() != 1)
    throw wrong(argument, word, fmt::format("a file with one array; it has {}", file.entries().size()));
  return file.read(std::size_t{0});
}

/// An option that the library wants as fp32 of the given ranks.
ConstTensor fp32_option(Inputs& inputs, files::Array array, std::string_view argument, std::size_t ranks) {
  if (array.shape.empty() || array.shape.size() > ranks)
    throw wrong(fmt::format("{}.shape", argument), shape_text(array.shape), ranks == 1 ? "(Hq,)" : "(Hq,) or (B, Hq)");
  inputs.arrays.push_back(converted(array, DType::f32));
  return std::as_const(inputs.arrays.back()).view();
}

void read_options(const RunRequest& request, const std::optional<files::ArrayFile>& file, Inputs& inputs) {
  if (!request.mask.empty()) {
    files::Array mask = option_array("--mask", request.mask, file, inputs.mask_source);
    if (mask.shape.size() != 2 && mask.shape.size() != 4)
      throw wrong("--mask.shape", shape_text(mask.shape), "(Sq, Sk) or (B, Hq, Sq, Sk), each but Sk may be 1");
    if (mask.dtype != DType::boolean && !is_floating(mask.dtype))
      throw wrong("--mask.dtype", name_of(mask.dtype), "bool (true = attend), or fp64, fp32, fp16 or bf16 (added)");
    if (!files::is_c_order(mask)) {
      mask.bytes = files::elements_in_c_order(mask);
      mask.stride = files::c_strides(mask.shape);
    }
    inputs.arrays.push_back(std::move(mask));
    inputs.mask = std::as_const(inputs.arrays.back()).view();
  }
  if (!request.sinks.empty())
    inputs.sinks = fp32_option(inputs, option_array("--sinks", request.sinks, file, inputs.sinks_source), "--sinks", 1);
  if (request.alibi == "auto") {
    const std::vector<float> slopes = alibi_slopes(inputs.q.shape[2]);
    files::Array array = files::make_array("alibi", DType::f32, {static_cast<std::int64_t>(slopes.size())});
    std::copy(slopes.begin(), slopes.end(), reinterpret_cast<float*>(array.bytes.data()));
    inputs.arrays.push_back(std::move(array));
    inputs.alibi_slopes = std::as_const(inputs.arrays.back()).view();
    inputs.alibi_source = "the standard slopes";
  } else if (!request.alibi.empty()) {
    inputs.alibi_slopes =
        fp32_option(inputs, option_array("--alibi", request.alibi, file, inputs.alibi_source), "--alibi", 2);
  }
}

}  // namespace

Inputs read_inputs(const RunRequest& request) {
  const bool convert = !request.dtype.empty();
  const DType dtype = convert ? parse_dtype("--dtype", request.dtype) : DType::f32;
  Loaded loaded = load(request);
  Inputs inputs;
  ConstTensor* const tensors[] = {&inputs.q, &inputs.k, &inputs.v};
  std::string* const sources[] = {&inputs.q_source, &inputs.k_source, &inputs.v_source};
  const char* const names[] = {"q", "k", "v"};
  for (std::size_t i = 0; i < 3; ++i) {
    files::Array& array = loaded.qkv[i];
    const std::string layout = layout_for(request.layout, array.shape.size(), names[i]);
    if (!is_floating(array.dtype))
      throw wrong(fmt::format("{}.dtype", names[i]), name_of(array.dtype), "fp64, fp32, fp16 or bf16");
    inputs.arrays.push_back(convert && array.dtype != dtype ? converted(array, dtype) : std::move(array));
    *tensors[i] = as_bshd(inputs.arrays.back(), layout);
    *sources[i] = loaded.sources[i];
    if (i == 0) inputs.q_layout = layout;
  }
  read_options(request, loaded.file, inputs);
  return inputs;
}

}  // namespace flashtile::cli
