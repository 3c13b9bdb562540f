// cuGetProcAddress: the driver answers, then what it answered is replaced. Without any set-up of the shim's:
// the CUDA runtime calls this while it holds locks of its own.
#include "shim/gate.h"
#include "shim/hooks.h"

namespace gpuman::shim {
namespace {

void Replace(const char* symbol, void** out, int version, cuuint64_t flags) {
  Entry entry{};
  const Scope scope = MayBeEvicted() ? Scope::kEvictable : Scope::kEverywhere;
  if (symbol == nullptr || out == nullptr || *out == nullptr ||
      !FindReplaced(symbol, version, flags, scope, entry))
    return;
  Learn(entry, *out, false);
  *out = ReplacementOf(entry);
}

}  // namespace

namespace hook {

CUresult cuGetProcAddress(const char* symbol, void** out, int cuda_version, cuuint64_t flags) {
  auto* const real = GPUMAN_REAL(cuGetProcAddress);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(symbol, out, cuda_version, flags);
  if (result == CUDA_SUCCESS) Replace(symbol, out, cuda_version, flags);
  return result;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbol_status) {
  auto* const real = GPUMAN_REAL(cuGetProcAddress_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(symbol, out, cuda_version, flags, symbol_status);
  if (result == CUDA_SUCCESS) Replace(symbol, out, cuda_version, flags);
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim
