// The only external symbol of this object is kernels_neon(): everything else lives in unnamed namespaces, so that no
// inline function built for this instruction set can be linked into another.
#include "isa/neon.h"

#include "isa/dispatch.h"
#include "tile/entry.h"

namespace flashtile {

const Kernels& kernels_neon() {
  static constexpr Kernels kernels = make_kernels<Neon>(Isa::neon, "neon");
  return kernels;
}

}  // namespace flashtile
