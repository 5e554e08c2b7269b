#include "bench.h"

#include <algorithm>

#include "commands.h"
#include "failure.h"
#include "parse.h"
#include "roofs/roofs.h"
#include "terminal.h"

namespace flashtile::cli {

int bench_command(const BenchRequest& request) {
  if (request.output != "md" && request.output != "csv" && request.output != "json")
    throw wrong("--output", request.output, "md, csv or json");
  const int rounds = request.rounds.empty() ? 0 : static_cast<int>(parse_integer("--rounds", request.rounds, 1, 1000000));
  const std::vector<BenchCase> cases = bench_cases(request);
  for (const BenchCase& c : cases) options_of(c.problem);  // refuses wrong words before an hour's work

  std::vector<Measurement> all;
  Progress progress("measuring", static_cast<std::int64_t>(cases.size()));
  double read_rate = 0;
  {
    constexpr int kReads = 5;
    const roofs::Reading roof(machine_report().threads);
    for (int i = 0; i < kReads; ++i) read_rate = std::max(read_rate, roof.measure());
  }
  for (const BenchCase& c : cases) {
    all.push_back(measure(c, rounds, request.cold, read_rate));
    progress.step();
  }
  print_bench(all, request.output, request.cold);
  return kSuccess;
}

}  // namespace flashtile::cli
