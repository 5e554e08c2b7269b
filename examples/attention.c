// The easy call in C99: causal attention of two query heads that share one key-value head, its LSE, and an error that
// can be read.
#include <flashtile/flashtile_c.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kLength = 5, kHeads = 2, kDim = 4 };

int main(void) {
  float q[kLength * kHeads * kDim], k[kLength * kDim], v[kLength * kDim], out[kLength * kHeads * kDim];
  float lse[kHeads * kLength];
  for (int i = 0; i < kLength * kHeads * kDim; ++i) q[i] = (float)(i % 7 - 3);
  for (int i = 0; i < kLength * kDim; ++i) k[i] = (float)(i % 5 - 2), v[i] = (float)i;

  // Shapes are (B, S, H, D); a dense view needs no strides.
  const flashtile_tensor tq = flashtile_dense(q, FLASHTILE_F32, 4, (int64_t[]){1, kLength, kHeads, kDim});
  const flashtile_tensor tk = flashtile_dense(k, FLASHTILE_F32, 4, (int64_t[]){1, kLength, 1, kDim});
  const flashtile_tensor tv = flashtile_dense(v, FLASHTILE_F32, 4, (int64_t[]){1, kLength, 1, kDim});
  const flashtile_tensor to = flashtile_dense(out, FLASHTILE_F32, 4, (int64_t[]){1, kLength, kHeads, kDim});
  const flashtile_tensor tl = flashtile_dense(lse, FLASHTILE_F32, 3, (int64_t[]){1, kHeads, kLength});

  flashtile_options options = FLASHTILE_OPTIONS_INIT;
  options.causal = 1;
  options.lse = &tl;
  if (flashtile_attention(&tq, &tk, &tv, &to, &options) != FLASHTILE_OK) {
    fprintf(stderr, "%s\n", flashtile_last_error());
    return 1;
  }
  for (int i = 0; i < kLength; ++i)
    printf("query %d of head 0: LSE %8.4f, out %.4f %.4f %.4f %.4f\n", i, lse[i], out[i * kHeads * kDim],
           out[i * kHeads * kDim + 1], out[i * kHeads * kDim + 2], out[i * kHeads * kDim + 3]);
  for (int d = 0; d < kDim; ++d)
    if (fabsf(out[d] - v[d]) > 1e-5f) return 1;  // the first query sees the first key only

  // Refusals name the argument, what it was and what is allowed, and write nothing.
  options.softcap = NAN;
  if (flashtile_attention(&tq, &tk, &tv, &to, &options) != FLASHTILE_INVALID_ARGUMENT) return 1;
  printf("refused: %s\n", flashtile_last_error());
  return strstr(flashtile_last_error(), "softcap") == NULL;
}
