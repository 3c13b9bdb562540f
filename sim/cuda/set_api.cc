// cuMemset.
#include "sim/cuda/api.h"
#include "sim/cuda/copy.h"

namespace gpuman::sim::cuda {
namespace {

// `stream` null: the form that waits for the end.
CUresult Set(const char* function, const CUstream* stream, const Fill& fill) {
  const Call call(function);
  if (!call) return call.error();
  const StreamReference on = ResolveStream(call, stream != nullptr ? *stream : nullptr);
  return on ? SubmitFill(call, on, fill, stream == nullptr) : CUDA_ERROR_INVALID_HANDLE;
}

Fill Row(CUdeviceptr address, std::size_t count, unsigned element, std::uint32_t value) {
  return {.address = address, .count = count, .element = element, .value = value};
}
Fill Rows(CUdeviceptr address, std::size_t pitch, std::size_t count, std::size_t height, unsigned element,
          std::uint32_t value) {
  return {.address = address,
          .pitch = pitch,
          .count = count,
          .height = height,
          .element = element,
          .value = value};
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
  return Set(__func__, nullptr, Row(dst, count, 1, value));
}
CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count) {
  return Set(__func__, nullptr, Row(dst, count, 2, value));
}
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t count) {
  return Set(__func__, nullptr, Row(dst, count, 4, value));
}
CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width,
                         size_t height) {
  return Set(__func__, nullptr, Rows(dst, dst_pitch, width, height, 1, value));
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width,
                          size_t height) {
  return Set(__func__, nullptr, Rows(dst, dst_pitch, width, height, 2, value));
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width,
                          size_t height) {
  return Set(__func__, nullptr, Rows(dst, dst_pitch, width, height, 4, value));
}
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return Set(__func__, &stream, Row(dst, count, 1, value));
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  return Set(__func__, &stream, Row(dst, count, 2, value));
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream) {
  return Set(__func__, &stream, Row(dst, count, 4, value));
}
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return Set(__func__, &stream, Rows(dst, dst_pitch, width, height, 1, value));
}
CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return Set(__func__, &stream, Rows(dst, dst_pitch, width, height, 2, value));
}
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return Set(__func__, &stream, Rows(dst, dst_pitch, width, height, 4, value));
}

}  // namespace gpuman::sim::cuda
