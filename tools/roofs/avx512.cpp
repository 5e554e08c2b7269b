#include "isa/avx512.h"

#include "roofs/loops_of.h"

namespace flashtile::roofs {

Loops loops_avx512() { return make_loops<Avx512>(); }

}  // namespace flashtile::roofs
