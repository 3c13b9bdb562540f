// Copies of two and three dimensions, and copies of arrays.
#include "sim/cuda/api.h"
#include "sim/cuda/array.h"
#include "sim/cuda/copy.h"

namespace gpuman::sim::cuda {
namespace {

// One end of a copy as the API's structures describe it.
struct End {
  CUmemorytype type;
  std::uint64_t host;
  CUdeviceptr device;
  CUarray array;
  std::size_t x, y, z, pitch, height;
};

CUresult ArraySide(Driver& driver, const End& end, const CopyBox& box, CopySide& side) {
  const auto array = driver.arrays.Find(end.array);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto fits = [](std::uint64_t from, std::uint64_t size, std::uint64_t limit) {
    return from <= limit && size <= limit - from;
  };
  if (!fits(end.x, box.width, array->row_bytes) || !fits(end.y, box.height, array->rows) ||
      !fits(end.z, box.depth, array->slices)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  side.pitch = array->pitch;
  side.slice = array->pitch * array->rows;
  side.address = array->address + end.z * side.slice + end.y * side.pitch + end.x;
  return CUDA_SUCCESS;
}

CUresult MakeSide(Driver& driver, const End& end, const CopyBox& box, bool write, CopySide& side) {
  if (end.type == CU_MEMORYTYPE_ARRAY) {
    const CUresult made = ArraySide(driver, end, box, side);
    return made != CUDA_SUCCESS ? made : ResolveSide(driver, side, box, write, true);
  }
  const bool rows = box.height > 1 || box.depth > 1 || end.y > 0 || end.z > 0;
  side.pitch = end.pitch;
  if (rows && (end.pitch < box.width || (box.depth > 1 && end.height < box.height)))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t base = end.type == CU_MEMORYTYPE_HOST ? end.host : end.device;
  std::uint64_t row = 0, offset = 0;
  if (__builtin_mul_overflow(end.pitch, end.height, &side.slice) ||
      __builtin_mul_overflow(end.z, std::uint64_t{end.height}, &row) ||
      __builtin_add_overflow(row, std::uint64_t{end.y}, &row) ||
      __builtin_mul_overflow(row, std::uint64_t{end.pitch}, &offset) ||
      __builtin_add_overflow(offset, std::uint64_t{end.x}, &offset) ||
      __builtin_add_overflow(base, offset, &side.address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (end.type) {
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_UNIFIED:
      return base == 0 ? CUDA_ERROR_INVALID_VALUE : ResolveSide(driver, side, box, write, false);
    case CU_MEMORYTYPE_DEVICE:
      return ResolveSide(driver, side, box, write, true);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CopyBetween(const char* function, const End& from, const End& to, const CopyBox& box,
                     const CUstream* stream) {
  const Call call(function);
  if (!call) return call.error();
  const StreamReference on = ResolveStream(call, stream != nullptr ? *stream : nullptr);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  if (box.Empty()) return CUDA_SUCCESS;
  CopySide source, destination;
  CUresult made = MakeSide(call.driver(), from, box, false, source);
  if (made == CUDA_SUCCESS) made = MakeSide(call.driver(), to, box, true, destination);
  if (made != CUDA_SUCCESS) return made;
  return SubmitCopy(call, on, source, destination, box, stream == nullptr);
}

CUresult Copy2D(const char* function, const CUDA_MEMCPY2D* copy, const CUstream* stream) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto pitch = [&](std::size_t given) { return given != 0 ? given : copy->WidthInBytes; };
  const End from{copy->srcMemoryType,
                 AddressOf(copy->srcHost),
                 copy->srcDevice,
                 copy->srcArray,
                 copy->srcXInBytes,
                 copy->srcY,
                 0,
                 pitch(copy->srcPitch),
                 copy->Height};
  const End to{copy->dstMemoryType,
               AddressOf(copy->dstHost),
               copy->dstDevice,
               copy->dstArray,
               copy->dstXInBytes,
               copy->dstY,
               0,
               pitch(copy->dstPitch),
               copy->Height};
  return CopyBetween(function, from, to, {copy->WidthInBytes, copy->Height, 1}, stream);
}

// Serves CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, whose fields have the same names.
template <typename Parameters>
CUresult Copy3D(const char* function, const Parameters* copy, const CUstream* stream) {
  if (copy == nullptr || copy->srcLOD != 0 || copy->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto pitch = [&](std::size_t given) { return given != 0 ? given : copy->WidthInBytes; };
  const auto height = [&](std::size_t given) { return given != 0 ? given : copy->Height; };
  const End from{copy->srcMemoryType, AddressOf(copy->srcHost), copy->srcDevice,
                 copy->srcArray,      copy->srcXInBytes,        copy->srcY,
                 copy->srcZ,          pitch(copy->srcPitch),    height(copy->srcHeight)};
  const End to{copy->dstMemoryType, AddressOf(copy->dstHost), copy->dstDevice,
               copy->dstArray,      copy->dstXInBytes,        copy->dstY,
               copy->dstZ,          pitch(copy->dstPitch),    height(copy->dstHeight)};
  return CopyBetween(function, from, to, {copy->WidthInBytes, copy->Height, copy->Depth}, stream);
}

End Linear(CUmemorytype type, std::uint64_t address) {
  return {type, address, address, nullptr, 0, 0, 0, 0, 1};
}

// An offset into an array counts bytes over its rows; a copy of more than one row must begin at a row.
CUresult ArrayCopy(const char* function, CUarray array, std::size_t offset, const End& other,
                   std::size_t bytes, bool to_array, const CUstream* stream) {
  const auto found = Driver::Get().arrays.Find(array);
  if (found == nullptr)
    return Driver::Get().initialized() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_INITIALIZED;
  const std::size_t row = found->row_bytes;
  End end{CU_MEMORYTYPE_ARRAY, 0, 0, array, offset % row, offset / row, 0, 0, 0};
  CopyBox box{bytes, 1, 1};
  End linear = other;
  linear.pitch = bytes;
  if (end.x + bytes > row) {
    if (end.x != 0 || bytes % row != 0) return CUDA_ERROR_INVALID_VALUE;
    box = {row, bytes / row, 1};
    linear.pitch = row;
    linear.height = box.height;
  }
  return to_array ? CopyBetween(function, linear, end, box, stream)
                  : CopyBetween(function, end, linear, box, stream);
}

}  // namespace

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(__func__, copy, nullptr); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(__func__, copy, nullptr); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(__func__, copy, &stream);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) { return Copy3D(__func__, copy, nullptr); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(__func__, copy, &stream);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) { return Copy3D(__func__, copy, nullptr); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return Copy3D(__func__, copy, &stream);
}

CUresult cuMemcpyDtoA_v2(CUarray dst_array, size_t dst_offset, CUdeviceptr src, size_t bytes) {
  return ArrayCopy(__func__, dst_array, dst_offset, Linear(CU_MEMORYTYPE_DEVICE, src), bytes, true, nullptr);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src_array, size_t src_offset, size_t bytes) {
  return ArrayCopy(__func__, src_array, src_offset, Linear(CU_MEMORYTYPE_DEVICE, dst), bytes, false, nullptr);
}
CUresult cuMemcpyHtoA_v2(CUarray dst_array, size_t dst_offset, const void* src_host, size_t bytes) {
  return ArrayCopy(__func__, dst_array, dst_offset, Linear(CU_MEMORYTYPE_HOST, AddressOf(src_host)), bytes,
                   true, nullptr);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dst_array, size_t dst_offset, const void* src_host, size_t bytes,
                              CUstream stream) {
  return ArrayCopy(__func__, dst_array, dst_offset, Linear(CU_MEMORYTYPE_HOST, AddressOf(src_host)), bytes,
                   true, &stream);
}
CUresult cuMemcpyAtoH_v2(void* dst_host, CUarray src_array, size_t src_offset, size_t bytes) {
  return ArrayCopy(__func__, src_array, src_offset, Linear(CU_MEMORYTYPE_HOST, AddressOf(dst_host)), bytes,
                   false, nullptr);
}
CUresult cuMemcpyAtoHAsync_v2(void* dst_host, CUarray src_array, size_t src_offset, size_t bytes,
                              CUstream stream) {
  return ArrayCopy(__func__, src_array, src_offset, Linear(CU_MEMORYTYPE_HOST, AddressOf(dst_host)), bytes,
                   false, &stream);
}
CUresult cuMemcpyAtoA_v2(CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset,
                         size_t bytes) {
  const auto source = Driver::Get().arrays.Find(src_array);
  if (source == nullptr)
    return Driver::Get().initialized() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_INITIALIZED;
  const std::size_t row = source->row_bytes;
  if (src_offset % row + bytes > row) return CUDA_ERROR_NOT_SUPPORTED;  // only within one row
  const End from{CU_MEMORYTYPE_ARRAY, 0, 0, src_array, src_offset % row, src_offset / row, 0, 0, 0};
  return ArrayCopy(__func__, dst_array, dst_offset, from, bytes, true, nullptr);
}

}  // namespace gpuman::sim::cuda
