#include "isa/scalar.h"

#include "roofs/loops_of.h"

namespace flashtile::roofs {

Loops loops_scalar() { return make_loops<Scalar>(); }

}  // namespace flashtile::roofs
