// The only external symbol of this object is kernels_avx2(): everything else lives in unnamed namespaces, so that no
// inline function built for this instruction set can be linked into another.
#include "isa/avx2.h"

#include "isa/dispatch.h"
#include "tile/entry.h"

namespace flashtile {

const Kernels& kernels_avx2() {
  static constexpr Kernels kernels = make_kernels<Avx2>(Isa::avx2, "avx2");
  return kernels;
}

}  // namespace flashtile
