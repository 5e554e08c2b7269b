#include "isa/scalar.h"

#include "bench/stages/stages_of.h"

namespace flashtile::bench {

Stages stages_scalar() { return make_stages<Scalar>(); }

}  // namespace flashtile::bench
