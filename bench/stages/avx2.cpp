#include "isa/avx2.h"

#include "bench/stages/stages_of.h"

namespace flashtile::bench {

Stages stages_avx2() { return make_stages<Avx2>(); }

}  // namespace flashtile::bench
