// The only external symbol of this object is kernels_avx512(): everything else lives in unnamed namespaces, so that no
// inline function built for this instruction set can be linked into another.
#include "isa/avx512.h"

#include "isa/dispatch.h"
#include "tile/entry.h"

namespace flashtile {

const Kernels& kernels_avx512() {
  static constexpr Kernels kernels = make_kernels<Avx512>(Isa::avx512, "avx512");
  return kernels;
}

}  // namespace flashtile
