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

/// Where sequences of these lengths begin and the last one ends.
files::Array boundaries(const char* name, const std::vector<std::int64_t>& lengths) {
  files::Array array = files::make_array(name, DType::i32, {std::ssize(lengths) + 1});
  auto* const at = reinterpret_cast<std::int32_t*>(array.bytes.data());
  for (std::size_t i = 0; i < lengths.size(); ++i) at[i + 1] = at[i] + static_cast<std::int32_t>(lengths[i]);
  return array;
}

struct Loaded {
  std::vector<files::Array> qkv;  // three
  std::vector<files::Array> cu_seqlens;  // q's and k's, when typed
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
  TypedShape typed[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& shape = shapes[i]->empty() && i == 2 ? request.k : *shapes[i];  // --v is --k unless said
    if (shape.empty()) throw wrong(arguments[i], "''", "a shape BxSxHxD, or name a FILE to read");
    typed[i] = parse_shape(arguments[i], shape);
    if (typed[i].packed() != typed[0].packed())
      throw wrong(arguments[i], shape,
                  (typed[0].packed() ? "packed sequences, as --q " : "four sizes, as --q ") + request.q);
    if (i == 1 && typed[1].lengths.size() != typed[0].lengths.size())
      throw wrong("--k", shape, fmt::format("{} sequences, as --q {}", typed[0].lengths.size(), request.q));
    if (i == 2 && typed[2].lengths != typed[1].lengths)
      throw wrong("--v", shape, "sequences of the same lengths as --k " + request.k);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    loaded.qkv.push_back(normal_array(arguments[i] + 2, dtype, typed[i].sizes, 3 * seed + i));
    loaded.sources[i] = fmt::format("N(0, 1), seed {}", seed);
  }
  if (typed[0].packed()) {
    loaded.cu_seqlens.push_back(boundaries("cu_seqlens_q", typed[0].lengths));
    loaded.cu_seqlens.push_back(boundaries("cu_seqlens_k", typed[1].lengths));
  }
  return loaded;
}

Loaded load(const RunRequest& request) {
  const bool shapes = !request.q.empty() || !request.k.empty() || !request.v.empty();
  if (request.files.empty() && !shapes)
    throw UsageError("FILE is missing; expected one .safetensors or .npz, three .npy, or shapes: --q 1x2048x8x128 --k …");
  if (!request.files.empty() && shapes)
    throw wrong("--q, --k, --v", "given with a FILE", "shapes only without one: the file has its own");
  if (request.files.empty() && !request.cu_seqlens_q.empty())
    throw wrong("--cu-seqlens-q", request.cu_seqlens_q, "a FILE beside it: shapes have the lengths, --q 17+300x8x64");
  if (request.cu_seqlens_q.empty() && !request.cu_seqlens_k.empty())
    throw wrong("--cu-seqlens-k", request.cu_seqlens_k, "--cu-seqlens-q beside it");
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

/// A random mask for all batches and heads, large enough for the longest sequence: every second key on average, or numbers
/// from N(0, 1). Nothing when the word is a file instead of a type.
std::optional<files::Array> random_mask(const RunRequest& request, const Inputs& inputs) {
  const std::string& type = request.mask;
  const bool boolean = type == name_of(DType::boolean);
  if (!boolean && type != "fp64" && type != "fp32" && type != "fp16" && type != "bf16") {
    if (exists(type)) return std::nullopt;
    throw wrong("--mask", type, "bool, fp64, fp32, fp16 or bf16 for a random one, or an existing file");
  }
  const Span longest = inputs.longest();
  const auto seed = static_cast<std::uint64_t>(parse_integer("--seed", request.seed, 0, INT64_MAX));
  files::Array numbers = normal_array("mask", boolean ? DType::f32 : parse_dtype("--mask", type),
                                      {longest.queries, longest.keys}, ~seed);  // q, k and v have 3 · seed and so on
  if (!boolean) return numbers;
  files::Array mask = files::make_array("mask", DType::boolean, numbers.shape);
  for (std::int64_t i = 0; i < mask.elements(); ++i)
    mask.bytes.data()[i] = std::byte{reinterpret_cast<const float*>(numbers.bytes.data())[i] > 0};
  return mask;
}

/// An option that the library wants as fp32 of the given ranks.
ConstTensor fp32_option(Inputs& inputs, files::Array array, std::string_view argument, std::size_t ranks) {
  if (array.shape.empty() || array.shape.size() > ranks)
    throw wrong(fmt::format("{}.shape", argument), shape_text(array.shape), ranks == 1 ? "(Hq,)" : "(Hq,) or (B, Hq)");
  inputs.arrays.push_back(converted(array, DType::f32));
  return std::as_const(inputs.arrays.back()).view();
}

/// Where packed sequences begin: typed with the shapes, or arrays that are named. The library checks them.
void read_boundaries(const RunRequest& request, Loaded& loaded, Inputs& inputs) {
  if (!request.cu_seqlens_q.empty()) {
    const std::string& k = request.cu_seqlens_k.empty() ? request.cu_seqlens_q : request.cu_seqlens_k;
    loaded.cu_seqlens.push_back(
        option_array("--cu-seqlens-q", request.cu_seqlens_q, loaded.file, inputs.cu_seqlens_q_source));
    loaded.cu_seqlens.push_back(option_array("--cu-seqlens-k", k, loaded.file, inputs.cu_seqlens_k_source));
  } else if (!loaded.cu_seqlens.empty()) {
    inputs.cu_seqlens_q_source = "lengths of --q", inputs.cu_seqlens_k_source = "lengths of --k";
  } else return;
  ConstTensor* const tensors[] = {&inputs.cu_seqlens_q, &inputs.cu_seqlens_k};
  for (std::size_t i = 0; i < 2; ++i) {
    inputs.arrays.push_back(std::move(loaded.cu_seqlens[i]));
    *tensors[i] = std::as_const(inputs.arrays.back()).view();
  }
}

void read_mask(const RunRequest& request, const std::optional<files::ArrayFile>& file, Inputs& inputs) {
  std::optional<files::Array> random;
  if (request.files.empty()) random = random_mask(request, inputs);
  files::Array mask = random ? std::move(*random) : option_array("--mask", request.mask, file, inputs.mask_source);
  if (random) inputs.mask_source = "random, seed " + request.seed;
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

void read_options(const RunRequest& request, const std::optional<files::ArrayFile>& file, Inputs& inputs) {
  if (!request.mask.empty()) read_mask(request, file, inputs);
  if (!request.sinks.empty())
    inputs.sinks = fp32_option(inputs, option_array("--sinks", request.sinks, file, inputs.sinks_source), "--sinks", 1);
  if (request.alibi == "auto") {
    const std::vector<float> slopes = alibi_slopes(inputs.extents().heads);
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
  const bool packed = !request.cu_seqlens_q.empty() || !loaded.cu_seqlens.empty();
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
    files::Array& kept = inputs.arrays.back();
    *tensors[i] = packed ? as_packed(kept, layout, names[i]) : as_bshd(kept, layout);
    *sources[i] = loaded.sources[i];
    if (i == 0) inputs.q_layout = layout;
  }
  read_boundaries(request, loaded, inputs);
  read_options(request, loaded.file, inputs);
  return inputs;
}

}  // namespace flashtile::cli
