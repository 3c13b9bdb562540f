// The functions that the library exports, and the shim's own bodies of some of them. They are declared from
// the list, so a definition that differs from the driver's declaration does not compile.
//
// exports.cc makes what a program calls: the gate where there is one, then the shim's body or else the
// driver's function.
#pragma once

#include "shim/symbols/driver.h"

#define GPUMAN_EXPORT __attribute__((visibility("default")))

namespace gpuman::shim {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

#define GPUMAN_SHIM_DECLARE_NONE(symbol)
#define GPUMAN_SHIM_DECLARE_PTDS(symbol) fn::symbol symbol##_ptds;
#define GPUMAN_SHIM_DECLARE_PTSZ(symbol) fn::symbol symbol##_ptsz;

namespace hook {
#define GPUMAN_SHIM_DECLARE(symbol, entry_class, twin) \
  fn::symbol symbol;                                   \
  GPUMAN_SHIM_DECLARE_##twin(symbol)
GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_DECLARE)
GPUMAN_SHIM_BACKED(GPUMAN_SHIM_DECLARE)
#undef GPUMAN_SHIM_DECLARE
}  // namespace hook

extern "C" {
#pragma GCC visibility push(default)
#define GPUMAN_SHIM_DECLARE(symbol, entry_class, twin) \
  fn::symbol symbol;                                   \
  GPUMAN_SHIM_DECLARE_##twin(symbol)
GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_DECLARE)
GPUMAN_SHIM_BACKED(GPUMAN_SHIM_DECLARE)
GPUMAN_SHIM_GATED(GPUMAN_SHIM_DECLARE)
GPUMAN_SHIM_ASIDE(GPUMAN_SHIM_DECLARE)
#undef GPUMAN_SHIM_DECLARE
#define GPUMAN_SHIM_DECLARE(symbol, entry_class) fn::symbol symbol;
GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_DECLARE)
#undef GPUMAN_SHIM_DECLARE
#pragma GCC visibility pop
}

}  // namespace gpuman::shim
