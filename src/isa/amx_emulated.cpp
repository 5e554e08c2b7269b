// The only external symbol of this object is kernels_amx_emulated().
#include "isa/amx_emulated.h"

#include "isa/dispatch.h"
#include "tile/entry_amx.h"

namespace flashtile {

const Kernels& kernels_amx_emulated() {
  static constexpr Kernels kernels = make_amx_kernels<AmxEmulated>(Isa::amx_emulated, "amx-emulated");
  return kernels;
}

}  // namespace flashtile
