// The functions that the library exports, declared from the list: a definition that differs from the driver's
// declaration does not compile.
#pragma once

#include "shim/driver.h"

#define GPUMAN_EXPORT __attribute__((visibility("default")))

namespace gpuman::shim {

using namespace driver::abi;  // the vendor's names are this folder's subject

extern "C" {
#define GPUMAN_SHIM_DECLARE_NONE(symbol)
#define GPUMAN_SHIM_DECLARE_PTSZ(symbol) GPUMAN_EXPORT fn::symbol symbol##_ptsz;
#define GPUMAN_SHIM_DECLARE(symbol, entry_class, twin) \
  GPUMAN_EXPORT fn::symbol symbol;                     \
  GPUMAN_SHIM_DECLARE_##twin(symbol)
GPUMAN_SHIM_HOOKED(GPUMAN_SHIM_DECLARE)
#undef GPUMAN_SHIM_DECLARE
#define GPUMAN_SHIM_DECLARE(symbol, entry_class) GPUMAN_EXPORT fn::symbol symbol;
GPUMAN_SHIM_HOOKED_NVML(GPUMAN_SHIM_DECLARE)
#undef GPUMAN_SHIM_DECLARE
}

}  // namespace gpuman::shim
