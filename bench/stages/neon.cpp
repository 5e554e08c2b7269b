#include "isa/neon.h"

#include "bench/stages/stages_of.h"

namespace flashtile::bench {

Stages stages_neon() { return make_stages<Neon>(); }

}  // namespace flashtile::bench
