#include "bench/peak.h"
#include "bench/peak_loop.h"
#include "isa/avx512.h"

namespace flashtile::bench {

double peak_avx512(long rounds) { return peak<Avx512>(rounds); }

}  // namespace flashtile::bench
