// The C interface from C99: what flashtile_c.h promises beyond the C++ calls that it forwards to. Every check has a
// sentence; the program prints those that fail and ends with 1.
#include <flashtile/flashtile_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/known.h"

static int failures = 0;

static void check(int holds, const char* sentence) {
  if (holds) return;
  ++failures;
  printf("FAILED: %s\n  last error: %s\n", sentence, flashtile_last_error());
}

static int refused(flashtile_status status, const char* name) {
  return status == FLASHTILE_INVALID_ARGUMENT && strncmp(flashtile_last_error(), name, strlen(name)) == 0;
}

static const int64_t kShape[4] = {1, 2, 1, 2}, kRows[3] = {1, 1, 2};
static flashtile_tensor q, k, v, o, l;
static float out[4], lse[2];

static void forget(void) {
  for (int i = 0; i < 4; ++i) out[i] = -7;
  lse[0] = lse[1] = -7;
}

static int out_is(double a, double b, double c, double d) {
  return fabs(out[0] - a) < 1e-5 && fabs(out[1] - b) < 1e-5 && fabs(out[2] - c) < 1e-5 && fabs(out[3] - d) < 1e-5;
}

static flashtile_options known_options(void) {
  flashtile_options options = FLASHTILE_OPTIONS_INIT;
  options.causal = 1;
  options.has_scale = 1;
  options.scale = kScale;
  options.lse = &l;
  return options;
}

static void null_and_malformed_arguments_are_refused_by_name(void) {
  flashtile_options options = known_options();
  flashtile_plan* plan = NULL;
  int32_t isa = -5;
  forget();
  check(refused(flashtile_attention(NULL, &k, &v, &o, NULL), "q = NULL"), "a NULL q is refused by name");
  check(refused(flashtile_attention(&q, NULL, &v, &o, NULL), "k = NULL"), "a NULL k is refused by name");
  check(refused(flashtile_attention(&q, &k, NULL, &o, NULL), "v = NULL"), "a NULL v is refused by name");
  check(refused(flashtile_attention(&q, &k, &v, NULL, NULL), "out = NULL"), "a NULL out is refused by name");
  check(refused(flashtile_plan_create(&q, &k, &v, &o, NULL, NULL), "plan = NULL"), "a NULL plan is refused by name");
  flashtile_tensor bad = q;
  bad.dtype = 256;
  check(refused(flashtile_attention(&bad, &k, &v, &o, NULL), "q.dtype = 256"), "a dtype is not cut to a byte");
  bad = k;
  bad.rank = 5;
  check(refused(flashtile_attention(&q, &bad, &v, &o, NULL), "k.rank = 5"), "a rank above 4 is refused");
  bad.rank = -1;
  options.mask = &bad;
  check(refused(flashtile_attention(&q, &k, &v, &o, &options), "mask.rank = -1"), "an option's rank is refused by name");
  options = known_options();
  options.alignment = 2;
  check(refused(flashtile_attention(&q, &k, &v, &o, &options), "alignment = 2"), "an alignment is not guessed");
  options = known_options();
  options.isa = 256;
  check(refused(flashtile_attention(&q, &k, &v, &o, &options), "isa = 256"), "an instruction set is not cut to a byte");
  options = known_options();
  options.arithmetic = -1;
  check(refused(flashtile_plan_create(&q, &k, &v, &o, &options, &plan), "arithmetic = -1"), "arithmetic is checked");
  check(plan == NULL, "a plan that failed is not handed out");
  check(refused(flashtile_plan_run(NULL, NULL, NULL, 0, 0, 1), "plan = NULL"), "run refuses a NULL plan");
  check(refused(flashtile_plan_facts(NULL, NULL), "plan = NULL"), "facts refuses a NULL plan");
  check(flashtile_plan_workspace_bytes(NULL, 1) == 0, "a NULL plan needs no workspace");
  check(flashtile_plan_explain(NULL, NULL, 0) == 0, "a NULL plan explains nothing");
  check(refused(flashtile_parse_isa("avx3", &isa), "isa = \"avx3\"") && isa == -5, "an unknown name changes nothing");
  check(out_is(-7, -7, -7, -7), "a refused call writes nothing");
  flashtile_plan_destroy(NULL);
}

static void structs_of_other_versions_are_understood(void) {
  struct {
    flashtile_options known;
    int64_t unknown[3];
  } newer = {known_options(), {0, 0, 0}};
  newer.known.struct_size = sizeof newer;
  forget();
  check(flashtile_attention(&q, &k, &v, &o, &newer.known) == FLASHTILE_OK && out_is(0, 4, 3, 1),
        "a newer struct that asks for nothing new is accepted");
  newer.unknown[2] = 1;
  forget();
  check(refused(flashtile_attention(&q, &k, &v, &o, &newer.known), "options.struct_size") && out_is(-7, -7, -7, -7),
        "a newer struct that asks for something unknown is refused");

  flashtile_options older = known_options();
  older.struct_size = offsetof(flashtile_options, lse);
  forget();
  check(flashtile_attention(&q, &k, &v, &o, &older) == FLASHTILE_OK && out_is(0, 4, 3, 1) && lse[0] == -7,
        "what lies beyond an older struct's size is not read");
  older.struct_size = 0;
  check(refused(flashtile_attention(&q, &k, &v, &o, &older), "options.struct_size = 0"), "size 0 is refused");
  older.struct_size = (size_t)1 << 40;
  check(refused(flashtile_attention(&q, &k, &v, &o, &older), "options.struct_size"), "an absurd size is not read");

  flashtile_options made;
  memset(&made, 0x5a, sizeof made);
  check(flashtile_options_init(&made, sizeof made) == FLASHTILE_OK && made.struct_size == sizeof made && made.causal == 0 &&
            made.score_modifier.context == NULL,
        "flashtile_options_init gives neutral options");
  struct {
    flashtile_machine known;
    int64_t unknown;
  } machine;
  memset(&machine, 0x5a, sizeof machine);
  machine.known.struct_size = sizeof machine;
  check(flashtile_machine_report(&machine.known) == FLASHTILE_OK && machine.unknown == 0 && machine.known.threads >= 1,
        "a newer report's unknown tail becomes 0");
  machine.known.struct_size = offsetof(flashtile_machine, threads);
  machine.known.threads = -7;
  check(flashtile_machine_report(&machine.known) == FLASHTILE_OK && machine.known.threads == -7,
        "nothing is written beyond an older report's size");
}

static void scale_zero_means_zero(void) {
  flashtile_options options = FLASHTILE_OPTIONS_INIT;
  options.has_scale = 1;
  forget();
  check(flashtile_attention(&q, &k, &v, &o, &options) == FLASHTILE_OK && out_is(2, 2, 2, 2),
        "an explicit scale of 0 weighs all keys alike");
  options.has_scale = 0;
  check(flashtile_attention(&q, &k, &v, &o, &options) == FLASHTILE_OK && !out_is(2, 2, 2, 2), "no scale is 1/sqrt(D)");
  options.has_window = 1;
  options.window_left = 0;
  options.window_right = 0;
  check(flashtile_attention(&q, &k, &v, &o, &options) == FLASHTILE_OK && out_is(0, 4, 4, 0),
        "a window without neighbours leaves each query its own key");
}

static void hide_key(void* context, const flashtile_score_tile* tile) {
  float* scores = (float*)tile->scores;
  for (int64_t i = 0; i < tile->queries; ++i)
    for (int64_t j = 0; j < tile->keys; ++j)
      if (tile->key + j == *(const int64_t*)context) scores[i * tile->query_stride + j * tile->key_stride] = -INFINITY;
}

static int32_t always_mixed(void* context, int64_t batch, int64_t head, int64_t query_begin, int64_t query_end,
                            int64_t key_begin, int64_t key_end) {
  (void)context, (void)batch, (void)head;
  return query_begin < query_end && key_begin < key_end ? 99 : FLASHTILE_EMPTY;  // 99 counts as mixed
}

static void plans_run_in_shares_and_keep_their_score_modifier(void) {
  flashtile_plan* plan = NULL;
  int64_t hidden = 0;
  {
    flashtile_options options = known_options();  // gone before the plan runs
    options.causal = 0;
    options.score_modifier.apply = hide_key;
    options.score_modifier.coverage = always_mixed;
    options.score_modifier.context = &hidden;
    check(flashtile_plan_create(&q, &k, &v, &o, &options, &plan) == FLASHTILE_OK, "a plan is made");
    memset(&options, 0x5a, sizeof options);
  }
  if (plan == NULL) return;
  const flashtile_options options = known_options();
  flashtile_arrays arrays;
  arrays.struct_size = sizeof arrays;
  check(flashtile_arrays_of(&q, &k, &v, &o, &options, &arrays) == FLASHTILE_OK && arrays.q == kQueries &&
            arrays.lse == lse && arrays.mask == NULL,
        "arrays_of finds the pointers");
  const size_t size = flashtile_plan_workspace_bytes(plan, 2);
  char* workspace = malloc(size + 1);
  for (hidden = 0; hidden < 2; ++hidden) {
    forget();
    for (int worker = 1; worker >= 0; --worker)
      check(flashtile_plan_run(plan, &arrays, workspace, size, worker, 2) == FLASHTILE_OK, "each share runs");
    check(hidden == 0 ? out_is(4, 0, 4, 0) : out_is(0, 4, 0, 4), "the modifier hides the key that it says");
  }
  check(refused(flashtile_plan_run(plan, &arrays, workspace, size, 2, 2), "worker"), "a share beyond the last is refused");
  free(workspace);

  flashtile_facts facts;
  facts.struct_size = sizeof facts;
  check(flashtile_plan_facts(plan, &facts) == FLASHTILE_OK && facts.visible_pairs == 4 && facts.flops == 2 * 4 * 4 &&
            facts.isa[0] != '\0',
        "facts counts pairs and FLOPs");
  char text[8];
  const size_t length = flashtile_plan_problem_line(plan, NULL, 0);
  check(length > sizeof text && flashtile_plan_problem_line(plan, text, sizeof text) == length && strlen(text) == 7,
        "texts are cut like snprintf's");
  check(flashtile_plan_explain(plan, NULL, 0) > 0, "explain has something to say");
  flashtile_plan_destroy(plan);
}

static void the_library_says_what_it_is(void) {
  char expected[32];
  snprintf(expected, sizeof expected, "%d.%d.%d", FLASHTILE_VERSION_MAJOR, FLASHTILE_VERSION_MINOR, FLASHTILE_VERSION_PATCH);
  check(strcmp(flashtile_version(), expected) == 0, "version and header agree");
  check(flashtile_version_number() ==
            FLASHTILE_VERSION_MAJOR * 10000 + FLASHTILE_VERSION_MINOR * 100 + FLASHTILE_VERSION_PATCH,
        "version number and header agree");
  check(flashtile_commit()[0] != '\0', "the commit has a name, if only unknown");
  flashtile_isa_report reports[16];
  const int32_t n = flashtile_isa_reports(reports, sizeof reports[0], 16);
  int chosen = 0, scalar = 0;
  for (int32_t i = 0; i < n; ++i) {
    int32_t isa = -1;
    chosen += reports[i].chosen && reports[i].isa != FLASHTILE_AMX;  // amx, for bf16, stands beside it
    scalar += reports[i].isa == FLASHTILE_SCALAR && reports[i].available;
    check(flashtile_parse_isa(reports[i].name, &isa) == FLASHTILE_OK && isa == reports[i].isa, "names are parsed back");
    check(reports[i].chosen || reports[i].reason[0] != '\0', "what is not chosen has a reason");
  }
  check(n >= 1 && chosen == 1 && scalar == 1, "one instruction set is chosen and scalar is always there");
  check(flashtile_isa_reports(NULL, 0, 0) == n, "reports can be counted first");
  check(flashtile_isa_reports(NULL, 0, 1) == -1, "NULL reports are refused");
}

int main(void) {
  check(flashtile_last_error()[0] == '\0', "there is no error before the first");
  q = flashtile_dense(kQueries, FLASHTILE_F32, 4, kShape);
  k = flashtile_dense(kKeys, FLASHTILE_F32, 4, kShape);
  v = flashtile_dense(kValues, FLASHTILE_F32, 4, kShape);
  o = flashtile_dense(out, FLASHTILE_F32, 4, kShape);
  l = flashtile_dense(lse, FLASHTILE_F32, 3, kRows);
  check(flashtile_dense(out, FLASHTILE_F32, 5, kShape).rank == 0, "a dense view of rank 5 is none");
  null_and_malformed_arguments_are_refused_by_name();
  structs_of_other_versions_are_understood();
  scale_zero_means_zero();
  plans_run_in_shares_and_keep_their_score_modifier();
  the_library_says_what_it_is();
  if (failures == 0) puts("the C interface answers as its header says");
  return failures == 0 ? 0 : 1;
}
