// The only external symbol of this object is kernels_scalar(): everything else lives in unnamed namespaces, so that no
// inline function built for this instruction set can be linked into another.
#include "isa/scalar.h"

#include "isa/dispatch.h"
#include "tile/entry.h"

namespace flashtile {

const Kernels& kernels_scalar() {
  static constexpr Kernels kernels = make_kernels<Scalar>(Isa::scalar, "scalar");
  return kernels;
}

}  // namespace flashtile
