#include "isa/avx2.h"

#include "roofs/loops_of.h"

namespace flashtile::roofs {

Loops loops_avx2() { return make_loops<Avx2>(); }

}  // namespace flashtile::roofs
