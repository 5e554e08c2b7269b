// The easy call: causal attention with grouped heads, its LSE and statistics. Prints what one query attends to and
// checks two things that must hold of any attention.
#include <flashtile/flashtile.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

int main() {
  using namespace flashtile;
  const std::int64_t batch = 1, length = 300, q_heads = 8, kv_heads = 2, head_dim = 64;

  // Arrays are the caller's; the library sees them through views (B, S, H, D).
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> q(batch * length * q_heads * head_dim), k(batch * length * kv_heads * head_dim), v(k.size());
  for (auto* array : {&q, &k, &v})
    for (float& x : *array) x = normal(random);
  std::vector<float> out(q.size()), lse(batch * q_heads * length), entropy(lse.size()), largest(lse.size());

  Options options;
  options.causal = true;
  options.lse = view(lse.data(), {batch, q_heads, length});
  options.statistics.entropy = view(entropy.data(), {batch, q_heads, length});
  options.statistics.largest_weight = view(largest.data(), {batch, q_heads, length});
  try {
    attention(view(q.data(), {batch, length, q_heads, head_dim}), view(k.data(), {batch, length, kv_heads, head_dim}),
              view(v.data(), {batch, length, kv_heads, head_dim}), view(out.data(), {batch, length, q_heads, head_dim}),
              options);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }

  const std::int64_t last = length - 1;  // of head 0
  std::printf("query %d of head 0: LSE %.4f, entropy %.4f of at most %.4f nats, largest weight %.4f\n",
              static_cast<int>(last), lse[last], entropy[last], std::log(static_cast<double>(length)), largest[last]);

  // The first query sees the first key only: its output is that value, for every head of the group that shares it.
  for (std::int64_t h = 0; h < q_heads; ++h)
    for (std::int64_t d = 0; d < head_dim; ++d)
      if (std::fabs(out[h * head_dim + d] - v[h / (q_heads / kv_heads) * head_dim + d]) > 1e-5) return 1;
  // A weight is a probability, and n keys cannot be more uncertain than ln n.
  for (std::int64_t i = 0; i < q_heads * length; ++i) {
    const double most = std::log(static_cast<double>(i % length + 1));
    if (!(largest[i] > 0 && largest[i] <= 1.0001f && entropy[i] > -1e-4 && entropy[i] <= most + 1e-4)) return 1;
  }
  return 0;
}
