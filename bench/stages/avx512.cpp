#include "isa/avx512.h"

#include "bench/stages/stages_of.h"

namespace flashtile::bench {

Stages stages_avx512() { return make_stages<Avx512>(); }

}  // namespace flashtile::bench
