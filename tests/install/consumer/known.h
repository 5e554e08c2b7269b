// One small problem with a known answer, for every program of this folder; C and C++.
//
// Two queries, two keys, one head, D = Dv = 2, causal, scale ln 3. Query 0 sees key 0 alone: v0, LSE ln 3. Query 1 has
// the logits 0 and ln 3: weights 1/4 and 3/4, v0/4 + 3·v1/4, LSE ln 4.
#ifndef KNOWN_H_
#define KNOWN_H_

#include <stdio.h>

static const float kQueries[4] = {1, 0, 0, 1};
static const float kKeys[4] = {1, 0, 0, 1};
static const float kValues[4] = {0, 4, 4, 0};
static const double kScale = 1.0986122886681098;

// "out 0.0000 4.0000 3.0000 1.0000 lse 1.0986 1.3863", which consume.cmake expects.
static inline void print_answer(const float* out, const float* lse) {
  printf("out %.4f %.4f %.4f %.4f lse %.4f %.4f\n", (double)out[0], (double)out[1], (double)out[2], (double)out[3],
         (double)lse[0], (double)lse[1]);
}

#endif  // KNOWN_H_
