// cuGetProcAddress: the driver answers, and the shim then replaces the answer. It sets up nothing for that:
// the CUDA runtime makes this call while it holds locks of its own.
#include "shim/hooks/hooks.h"
#include "shim/symbols/evictable.h"

namespace gpuman::shim {
namespace {

// `ask` is the driver's own cuGetProcAddress. A driver that is newer than the list may answer with a newer
// function of the name, which takes other arguments. The shim does not replace that function.
template <typename Ask>
void Replace(const char* symbol, void** out, int version, cuuint64_t flags, Ask ask) {
  DriverFunctionId entry{};
  const ReplacementSet scope = MayBeEvicted() ? ReplacementSet::kEvictable : ReplacementSet::kEverywhere;
  if (symbol == nullptr || out == nullptr || *out == nullptr ||
      !FindReplaced(symbol, version, flags, scope, entry))
    return;
  if (version > kNewestKnownVersion) {
    void* known = nullptr;
    if (ask(symbol, &known, kNewestKnownVersion) == CUDA_SUCCESS && known != nullptr && known != *out) return;
  }
  Learn(entry, *out, FoundBy::kDriver);
  *out = ReplacementOf(entry);
}

}  // namespace

namespace hook {

CUresult cuGetProcAddress(const char* symbol, void** out, int cuda_version, cuuint64_t flags) {
  auto* const real = GPUMAN_REAL(cuGetProcAddress);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(symbol, out, cuda_version, flags);
  if (result == CUDA_SUCCESS)
    Replace(symbol, out, cuda_version, flags, [&](const char* name, void** function, int version) {
      return real(name, function, version, flags);
    });
  return result;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbol_status) {
  auto* const real = GPUMAN_REAL(cuGetProcAddress_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(symbol, out, cuda_version, flags, symbol_status);
  if (result == CUDA_SUCCESS)
    Replace(symbol, out, cuda_version, flags, [&](const char* name, void** function, int version) {
      CUdriverProcAddressQueryResult ignored{};
      return real(name, function, version, flags, &ignored);
    });
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim
