// For engines with threads of their own: a plan made once, a workspace that the caller owns, and shares of the work
// that any threads may run in any order. Several layers use one plan. The bits are those of the easy call.
#include <flashtile/flashtile.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr int kLayers = 3, kWorkers = 4, kThreads = 2;
constexpr std::int64_t kLength = 200, kHeads = 4, kDim = 32;

struct Layer {
  std::vector<float> q, k, v, out;

  explicit Layer(int seed) : q(kLength * kHeads * kDim), k(q.size()), v(q.size()), out(q.size()) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* array : {&q, &k, &v})
      for (float& x : *array) x = normal(random);
  }
};

flashtile::Tensor tensor(float* data) { return flashtile::view(data, {1, kLength, kHeads, kDim}); }

}  // namespace

int main() {
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i) layers.emplace_back(i);

  // Shapes, strides and options decide the plan; no data is needed, so pointers may be null.
  flashtile::Options options;
  options.window = {.left = 63, .right = 0};
  flashtile::Plan plan;
  const flashtile::Status planned =
      flashtile::try_plan(tensor(nullptr), tensor(nullptr), tensor(nullptr), tensor(nullptr), options, plan);
  if (!planned.ok()) {
    std::fprintf(stderr, "%s\n", planned.text);
    return 1;
  }
  std::vector<std::byte> workspace(flashtile::workspace_bytes(plan, kWorkers));

  for (Layer& layer : layers) {
    flashtile::Tensors arrays;
    arrays.q = layer.q.data(), arrays.k = layer.k.data(), arrays.v = layer.v.data(), arrays.out = layer.out.data();
    // Two threads take four shares as they come free. No share waits for another, so fewer threads than shares is fine.
    std::atomic<int> next{0}, failures{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int share; (share = next++) < kWorkers;)
          if (!flashtile::run(plan, arrays, workspace.data(), workspace.size(), share, kWorkers).ok()) ++failures;
      });
    for (std::thread& thread : threads) thread.join();
    if (failures != 0) return 1;
  }

  for (Layer& layer : layers) {
    std::vector<float> easy(layer.out.size());
    flashtile::attention(tensor(layer.q.data()), tensor(layer.k.data()), tensor(layer.v.data()), tensor(easy.data()),
                         options);
    if (std::memcmp(easy.data(), layer.out.data(), easy.size() * sizeof(float)) != 0) return 1;
  }
  std::printf("%s", flashtile::explain(plan).c_str());
  std::printf("%d layers, %d shares on %d threads, %zu bytes of workspace: the bits of the easy call\n", kLayers, kWorkers,
              kThreads, workspace.size());
  return 0;
}
