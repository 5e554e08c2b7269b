// The sub-commands. Each prints to standard output and returns the exit status; failures are thrown (failure.h).
#pragma once

#include "request.h"

namespace flashtile::cli {

int run_command(const RunRequest& request);
int info_command(bool json);
int verify_command(bool json);

}  // namespace flashtile::cli
