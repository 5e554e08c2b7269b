#include "bench/peak.h"
#include "bench/peak_loop.h"
#include "isa/scalar.h"

namespace flashtile::bench {

double peak_scalar(long rounds) { return peak<Scalar>(rounds); }

}  // namespace flashtile::bench
