// The sub-commands. Each prints to standard output and returns the exit status; failures are thrown (failure.h).
#pragma once

#include "bench.h"
#include "request.h"

namespace flashtile::cli {

int run_command(const RunRequest& request);
int info_command(bool json);
int verify_command(bool json);
int bench_command(const BenchRequest& request);

}  // namespace flashtile::cli
