// Every header with exceptions and RTTI off, and the calls that are then left.
#include <flashtile/error.h>
#include <flashtile/flashtile.h>
#include <flashtile/flashtile_c.h>
#include <flashtile/options.h>
#include <flashtile/tensor.h>

#include <cstdio>
#include <cstdlib>

#include "known.h"

int main() {
  float out[4], lse[2];
  flashtile::Options options;
  options.causal = true;
  options.scale = kScale;
  options.lse = flashtile::view(lse, {1, 1, 2});
  const auto q = flashtile::view(kQueries, {1, 2, 1, 2}), k = flashtile::view(kKeys, {1, 2, 1, 2}),
             v = flashtile::view(kValues, {1, 2, 1, 2});
  const auto o = flashtile::view(out, {1, 2, 1, 2});
  flashtile::Status status = flashtile::try_attention(q, k, v, o, options);
  if (!status.ok()) return std::puts(status.text), 1;
  print_answer(out, lse);

  // The same through a plan, three workers one after another.
  for (float& x : out) x = -1;
  flashtile::Plan plan;
  status = flashtile::try_plan(q, k, v, o, options, plan);
  const std::size_t size = flashtile::workspace_bytes(plan, 3);
  void* workspace = std::malloc(size > 0 ? size : 1);
  for (int worker = 0; worker < 3 && status.ok(); ++worker)
    status = flashtile::run(plan, flashtile::tensors_of(q, k, v, o, options), workspace, size, worker, 3);
  std::free(workspace);
  if (!status.ok()) return std::puts(status.text), 1;
  print_answer(out, lse);
  return 0;
}
