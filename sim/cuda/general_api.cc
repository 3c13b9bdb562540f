// Start-up, versions, errors by name, and cuGetProcAddress.
#include <array>
#include <string_view>

#include "sim/cuda/api.h"
#include "sim/cuda/twins.h"

namespace gpuman::sim::cuda {
namespace {

struct Symbol {
  std::string_view name;
  int version;
  void* function;
  void* twin;  // with the per-thread default stream; null: there is none
};

#define GPUMAN_SIM_TWIN_NONE(symbol) nullptr
#define GPUMAN_SIM_TWIN_PTDS(symbol) reinterpret_cast<void*>(&symbol##_ptds)
#define GPUMAN_SIM_TWIN_PTSZ(symbol) reinterpret_cast<void*>(&symbol##_ptsz)
#define GPUMAN_SIM_ROW(name, symbol, version, twin, parameters, arguments) \
  Symbol{#name, version, reinterpret_cast<void*>(&symbol), GPUMAN_SIM_TWIN_##twin(symbol)},

const auto& Symbols() {
  static const auto symbols = std::to_array<Symbol>({GPUMAN_CUDA_FUNCTIONS(GPUMAN_SIM_ROW)});
  return symbols;
}

constexpr cuuint64_t kLookupFlags =
    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

// As measured on driver 580: a version that the driver does not reach yet is an error, `status` reports a
// version that is too old for the name, and twins do not exist before CUDA 7.
CUresult FindFunction(std::string_view name, int version, cuuint64_t flags, void*& function,
                      CUdriverProcAddressQueryResult& status) {
  const int newest = Driver::Get().cuda_version();
  if ((flags & ~kLookupFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (version > newest) return CUDA_ERROR_INVALID_VALUE;
  function = nullptr;
  status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  int found = 0;
  for (const Symbol& symbol : Symbols()) {
    if (symbol.name != name || symbol.version > newest) continue;
    if (found == 0) status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    const bool twin = symbol.twin != nullptr && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const int since = twin && symbol.version < kFirstTwinVersion ? kFirstTwinVersion : symbol.version;
    if (since > version || symbol.version <= found) continue;
    found = symbol.version;
    function = twin ? symbol.twin : symbol.function;
    status = CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return CUDA_SUCCESS;
}

// Texts for the errors that programs show most; other errors have their name as text.
struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

constexpr const char* TextOf(CUresult error) {
  switch (error) {
    case CUDA_SUCCESS:
      return "no error";
    case CUDA_ERROR_INVALID_VALUE:
      return "invalid argument";
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "out of memory";
    case CUDA_ERROR_NOT_INITIALIZED:
      return "initialization error";
    case CUDA_ERROR_NO_DEVICE:
      return "no CUDA-capable device is detected";
    case CUDA_ERROR_INVALID_DEVICE:
      return "invalid device ordinal";
    case CUDA_ERROR_INVALID_CONTEXT:
      return "invalid device context";
    case CUDA_ERROR_INVALID_PTX:
      return "a PTX JIT compilation failed";
    case CUDA_ERROR_INVALID_HANDLE:
      return "invalid resource handle";
    case CUDA_ERROR_NOT_FOUND:
      return "named symbol not found";
    case CUDA_ERROR_NOT_READY:
      return "device not ready";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      return "an illegal memory access was encountered";
    case CUDA_ERROR_NOT_SUPPORTED:
      return "operation not supported";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "CUDA-capable device(s) is/are busy or unavailable";
    default:
      return nullptr;
  }
}

#define GPUMAN_SIM_ERROR(name, value) ErrorText{name, #name, TextOf(name) != nullptr ? TextOf(name) : #name},
constexpr auto kErrors = std::to_array<ErrorText>({GPUMAN_CUDA_RESULTS(GPUMAN_SIM_ERROR)});

const ErrorText* FindError(CUresult error) {
  for (const ErrorText& known : kErrors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

}  // namespace

CUresult cuInit(unsigned int flags) { return flags != 0 ? CUDA_ERROR_INVALID_VALUE : Driver::Get().Init(); }

CUresult cuDriverGetVersion(int* driver_version) {
  if (driver_version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driver_version = Driver::Get().cuda_version();
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* const known = FindError(error);
  *text = known != nullptr ? known->name : nullptr;
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* const known = FindError(error);
  *text = known != nullptr ? known->text : nullptr;
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbol_status) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult status{};
  const CUresult result = FindFunction(symbol, cuda_version, flags, *out, status);
  if (result == CUDA_SUCCESS && symbol_status != nullptr) *symbol_status = status;
  return result;
}

CUresult cuGetProcAddress(const char* symbol, void** out, int cuda_version, cuuint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, out, cuda_version, flags, nullptr);
  return result == CUDA_SUCCESS && *out == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuGetExportTable(const void** export_table, const CUuuid* export_table_id) {
  if (export_table == nullptr || export_table_id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *export_table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, ThreadCaptureMode());
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
