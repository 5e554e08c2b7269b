/* The C interface, in a plain C99 program. */
#include <flashtile/flashtile_c.h>
#include <stdio.h>

#include "known.h"

int main(void) {
  const int64_t shape[4] = {1, 2, 1, 2}, rows[3] = {1, 1, 2};
  float out[4], lse[2];
  const flashtile_tensor q = flashtile_dense(kQueries, FLASHTILE_F32, 4, shape);
  const flashtile_tensor k = flashtile_dense(kKeys, FLASHTILE_F32, 4, shape);
  const flashtile_tensor v = flashtile_dense(kValues, FLASHTILE_F32, 4, shape);
  const flashtile_tensor o = flashtile_dense(out, FLASHTILE_F32, 4, shape);
  const flashtile_tensor l = flashtile_dense(lse, FLASHTILE_F32, 3, rows);
  flashtile_options options = FLASHTILE_OPTIONS_INIT;
  options.causal = 1;
  options.has_scale = 1;
  options.scale = kScale;
  options.lse = &l;
  if (flashtile_attention(&q, &k, &v, &o, &options) != FLASHTILE_OK) {
    puts(flashtile_last_error());
    return 1;
  }
  print_answer(out, lse);
  printf("flashtile %s\n", flashtile_version());
  return 0;
}
