#include "bench/peak.h"
#include "bench/peak_loop.h"
#include "isa/neon.h"

namespace flashtile::bench {

double peak_neon(long rounds) { return peak<Neon>(rounds); }

}  // namespace flashtile::bench
