// The only external symbol of this object is kernels_amx(): everything else lives in unnamed namespaces, so that no
// inline function built for this instruction set can be linked into another.
#include "isa/amx.h"

#include "isa/dispatch.h"
#include "tile/entry_amx.h"

namespace flashtile {

const Kernels& kernels_amx() {
  static constexpr Kernels kernels = make_amx_kernels<Amx>(Isa::amx, "amx");
  return kernels;
}

}  // namespace flashtile
