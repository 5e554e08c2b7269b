#include "isa/neon.h"

#include "roofs/loops_of.h"

namespace flashtile::roofs {

Loops loops_neon() { return make_loops<Neon>(); }

}  // namespace flashtile::roofs
