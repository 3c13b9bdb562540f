// cuMemcpy in one dimension.
#include "sim/cuda/api.h"
#include "sim/cuda/copy.h"

namespace gpuman::sim::cuda {
namespace {

enum class Want { kAny, kDevice };

// Serves both forms; `stream` null: the synchronous form, on the default stream.
CUresult Copy(const char* function, std::uint64_t to, Want destination_is, std::uint64_t from, Want source_is,
              std::size_t bytes, const CUstream* stream) {
  const Call call(function);
  if (!call) return call.error();
  const StreamReference on = ResolveStream(call, stream != nullptr ? *stream : nullptr);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  CopySide source{.address = from}, destination{.address = to};
  const CopyBox box{.width = bytes};
  CUresult placed = ResolveSide(call.driver(), source, box, false, source_is == Want::kDevice);
  if (placed == CUDA_SUCCESS)
    placed = ResolveSide(call.driver(), destination, box, true, destination_is == Want::kDevice);
  if (placed != CUDA_SUCCESS) return placed;
  return SubmitCopy(call, on, source, destination, box, stream == nullptr);
}

CUresult CheckPeers(CUcontext destination, CUcontext source) {
  Driver& driver = Driver::Get();
  if (!driver.initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  for (const CUcontext handle : {destination, source}) {
    const auto context = driver.contexts.Find(handle);
    if (context == nullptr || context->destroyed()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Copy(__func__, dst, Want::kAny, src, Want::kAny, bytes, nullptr);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Copy(__func__, dst, Want::kAny, src, Want::kAny, bytes, &stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src_host, size_t bytes) {
  return Copy(__func__, dst, Want::kDevice, AddressOf(src_host), Want::kAny, bytes, nullptr);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src_host, size_t bytes, CUstream stream) {
  return Copy(__func__, dst, Want::kDevice, AddressOf(src_host), Want::kAny, bytes, &stream);
}
CUresult cuMemcpyDtoH_v2(void* dst_host, CUdeviceptr src, size_t bytes) {
  return Copy(__func__, AddressOf(dst_host), Want::kAny, src, Want::kDevice, bytes, nullptr);
}
CUresult cuMemcpyDtoHAsync_v2(void* dst_host, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Copy(__func__, AddressOf(dst_host), Want::kAny, src, Want::kDevice, bytes, &stream);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Copy(__func__, dst, Want::kDevice, src, Want::kDevice, bytes, nullptr);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Copy(__func__, dst, Want::kDevice, src, Want::kDevice, bytes, &stream);
}
CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                      size_t bytes) {
  const CUresult checked = CheckPeers(dst_context, src_context);
  return checked != CUDA_SUCCESS ? checked
                                 : Copy(__func__, dst, Want::kDevice, src, Want::kDevice, bytes, nullptr);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                           size_t bytes, CUstream stream) {
  const CUresult checked = CheckPeers(dst_context, src_context);
  return checked != CUDA_SUCCESS ? checked
                                 : Copy(__func__, dst, Want::kDevice, src, Want::kDevice, bytes, &stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrs_idxs, size_t num_attrs,
                               CUstream stream) {
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || count == 0 || num_attrs == 0 ||
      attrs == nullptr || attrs_idxs == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult copied = Copy(__func__, dsts[i], Want::kAny, srcs[i], Want::kAny, sizes[i], &stream);
    if (copied != CUDA_SUCCESS) return copied;
  }
  return CUDA_SUCCESS;
}
CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrs_idxs, size_t num_attrs, size_t* fail_idx,
                            CUstream stream) {
  const CUresult result =
      cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrs_idxs, num_attrs, stream);
  if (result != CUDA_SUCCESS && fail_idx != nullptr) *fail_idx = ~std::size_t{0};
  return result;
}

}  // namespace gpuman::sim::cuda
