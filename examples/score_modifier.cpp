// FlexAttention's score_mod and mask_mod, one tile at a time: documents that do not see each other, and a learned bias
// of the relative position. `coverage` lets whole blocks be skipped; it changes the time, never a bit.
#include <flashtile/flashtile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace {

constexpr std::int64_t kLength = 600, kHeads = 2, kDim = 32, kReach = 16;

/// What the callbacks know. They may be called from several threads at once, so they only read it.
struct Documents {
  std::vector<std::int64_t> begin, end;  // per token: the bounds of its document
  std::vector<float> bias;               // (heads, 2 · kReach + 1): by clipped distance
};

void modify(void* context, const flashtile::ScoreTile& tile) {
  const auto& documents = *static_cast<const Documents*>(context);
  for (std::int64_t j = 0; j < tile.keys; ++j)
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const std::int64_t query = tile.query + i, key = tile.key + j;
      float& score = tile.at(i, j);  // scaled, natural units
      if (key < documents.begin[query] || key >= documents.end[query]) {
        score = -std::numeric_limits<float>::infinity();  // hidden
        continue;
      }
      const std::int64_t distance = std::min(kReach, std::max(-kReach, key - query));
      score += documents.bias[tile.head * (2 * kReach + 1) + kReach + distance];
    }
}

flashtile::Coverage coverage(void* context, std::int64_t, std::int64_t, std::int64_t query_begin, std::int64_t query_end,
                             std::int64_t key_begin, std::int64_t key_end) {
  const auto& documents = *static_cast<const Documents*>(context);
  const bool apart = key_end <= documents.begin[query_begin] || key_begin >= documents.end[query_end - 1];
  return apart ? flashtile::Coverage::empty : flashtile::Coverage::mixed;
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> q(kLength * kHeads * kDim), k(q.size()), v(q.size()), out(q.size()), skipped(q.size()), same(q.size());
  for (auto* array : {&q, &k, &v})
    for (float& x : *array) x = normal(random);
  const auto tensor = [](std::vector<float>& array) { return flashtile::view(array.data(), {1, kLength, kHeads, kDim}); };

  Documents documents;
  for (const auto& [begin, end] : {std::pair{0, 150}, std::pair{150, 170}, std::pair{170, 600}})
    for (int i = begin; i < end; ++i) documents.begin.push_back(begin), documents.end.push_back(end);
  documents.bias.assign(kHeads * (2 * kReach + 1), 0);

  flashtile::Options options;
  options.score_modifier = {.apply = modify, .context = &documents};
  flashtile::attention(tensor(q), tensor(k), tensor(v), tensor(out), options);
  options.score_modifier.coverage = coverage;
  flashtile::attention(tensor(q), tensor(k), tensor(v), tensor(skipped), options);
  if (std::memcmp(out.data(), skipped.data(), out.size() * sizeof(float)) != 0) return 1;

  // With a bias of 0 it is what key ranges say too; those need no callback, only two integers per row.
  std::vector<std::int32_t> begin(documents.begin.begin(), documents.begin.end());
  std::vector<std::int32_t> end(documents.end.begin(), documents.end.end());
  flashtile::Options ranges;
  ranges.key_begin = flashtile::view(begin.data(), {1, kLength});
  ranges.key_end = flashtile::view(end.data(), {1, kLength});
  flashtile::attention(tensor(q), tensor(k), tensor(v), tensor(same), ranges);
  double difference = 0;
  for (std::size_t i = 0; i < out.size(); ++i) difference = std::fmax(difference, std::fabs(out[i] - same[i]));
  std::printf("three documents: modifier and key ranges differ by at most %.1e\n", difference);
  if (!(difference < 1e-5)) return 1;

  // A bias that decays with the distance draws every query towards its neighbours.
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t d = -kReach; d <= kReach; ++d)
      documents.bias[h * (2 * kReach + 1) + kReach + d] = -static_cast<float>(std::abs(d)) * (h == 0 ? 1.0f : 0.25f);
  std::vector<float> entropy(kHeads * kLength);
  options.statistics.entropy = flashtile::view(entropy.data(), {1, kHeads, kLength});
  flashtile::attention(tensor(q), tensor(k), tensor(v), tensor(out), options);
  double mean[kHeads] = {};
  for (std::int64_t i = 0; i < kHeads * kLength; ++i) mean[i / kLength] += entropy[i] / kLength;
  std::printf("mean entropy with a steep bias %.3f, with a gentle one %.3f nats\n", mean[0], mean[1]);
  return mean[0] < mean[1] ? 0 : 1;
}
