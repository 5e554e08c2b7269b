#include "bench/peak.h"
#include "bench/peak_loop.h"
#include "isa/avx2.h"

namespace flashtile::bench {

double peak_avx2(long rounds) { return peak<Avx2>(rounds); }

}  // namespace flashtile::bench
