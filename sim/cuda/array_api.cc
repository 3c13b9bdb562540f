// Arrays and mipmapped arrays.
#include <algorithm>

#include "sim/cuda/api.h"
#include "sim/cuda/array.h"
#include "sim/cuda/memory.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kArrayPitch = 512;
constexpr std::uint64_t kLargestExtent = 1u << 17;

unsigned BytesOfFormat(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

bool IsGood(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  const unsigned channels = descriptor.NumChannels;
  return descriptor.Width > 0 && descriptor.Width <= kLargestExtent && descriptor.Height <= kLargestExtent &&
         descriptor.Depth <= 16384 &&
         (descriptor.Height > 0 || descriptor.Depth == 0 || descriptor.Flags != 0) &&
         (channels == 1 || channels == 2 || channels == 4) && BytesOfFormat(descriptor.Format) > 0;
}

// The shape of one level, without memory.
std::shared_ptr<Array> Shape(const std::shared_ptr<Context>& context,
                             const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  auto array = std::make_shared<Array>();
  array->context = context;
  array->descriptor = descriptor;
  array->row_bytes = descriptor.Width * BytesOfFormat(descriptor.Format) * descriptor.NumChannels;
  array->pitch = descriptor.Height == 0 ? array->row_bytes : RoundUp(array->row_bytes, kArrayPitch);
  array->rows = std::max<std::size_t>(descriptor.Height, 1);
  array->slices = std::max<std::size_t>(descriptor.Depth, 1);
  return array;
}

CUresult Allocate(Driver& driver, Context& context, std::uint64_t bytes, std::uint64_t& address,
                  std::shared_ptr<void>& storage) {
  CUdeviceptr pointer = 0;
  const CUresult allocated = AllocateDevice(driver, context, bytes, pointer);
  if (allocated != CUDA_SUCCESS) return allocated;
  address = pointer;
  storage = std::shared_ptr<void>(reinterpret_cast<void*>(address),
                                  [&driver, address](void*) { FreeDevice(driver, address); });
  return CUDA_SUCCESS;
}

std::uint64_t BytesOf(const Array& array) { return array.pitch * array.rows * array.slices; }

CUresult Create(const char* function, CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  const Call call(function, Need::kContextUncaught);
  if (!call) return call.error();
  if (out == nullptr || descriptor == nullptr || !IsGood(*descriptor)) return CUDA_ERROR_INVALID_VALUE;
  auto array = Shape(call.shared_context(), *descriptor);
  const CUresult allocated =
      Allocate(call.driver(), call.context(), BytesOf(*array), array->address, array->storage);
  if (allocated == CUDA_SUCCESS) *out = call.driver().arrays.Add(std::move(array));
  return allocated;
}

CUresult Requirements(const char* function, CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUdevice device, bool known,
                      std::uint64_t bytes) {
  const Call call(function);
  if (!call) return call.error();
  if (call.driver().FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
  *out = {RoundUp(bytes, kDeviceStep), kDeviceStep, {}};
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuArray3DCreate_v2(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* allocate_array) {
  return Create(__func__, handle, allocate_array);
}
CUresult cuArrayCreate_v2(CUarray* handle, const CUDA_ARRAY_DESCRIPTOR* allocate_array) {
  if (allocate_array == nullptr) return Create(__func__, handle, nullptr);
  const CUDA_ARRAY3D_DESCRIPTOR descriptor{allocate_array->Width,  allocate_array->Height,      0,
                                           allocate_array->Format, allocate_array->NumChannels, 0};
  return Create(__func__, handle, &descriptor);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* array_descriptor, CUarray array) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().arrays.Find(array);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (array_descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *array_descriptor = found->descriptor;
  return CUDA_SUCCESS;
}
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* array_descriptor, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR full{};
  const CUresult got = cuArray3DGetDescriptor_v2(&full, array);
  if (got != CUDA_SUCCESS) return got;
  if (array_descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *array_descriptor = {full.Width, full.Height, full.Format, full.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray array) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  const auto found = call.driver().arrays.Find(array);
  if (found == nullptr || found->level) return CUDA_ERROR_INVALID_HANDLE;
  found->context->Synchronize();
  call.driver().arrays.Take(array);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* handle, const CUDA_ARRAY3D_DESCRIPTOR* mipmapped_array_desc,
                                unsigned int num_mipmap_levels) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  if (handle == nullptr || mipmapped_array_desc == nullptr || !IsGood(*mipmapped_array_desc) ||
      num_mipmap_levels == 0 || num_mipmap_levels > 32) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto mipmap = std::make_shared<MipmappedArray>();
  mipmap->context = call.shared_context();
  CUDA_ARRAY3D_DESCRIPTOR level = *mipmapped_array_desc;
  std::uint64_t bytes = 0;
  while (mipmap->levels.size() < num_mipmap_levels) {
    mipmap->levels.push_back(Shape(call.shared_context(), level));
    mipmap->levels.back()->level = true;
    bytes += BytesOf(*mipmap->levels.back());
    if (level.Width == 1 && level.Height <= 1 && level.Depth <= 1) break;
    level.Width = std::max<std::size_t>(level.Width / 2, 1);
    level.Height = level.Height == 0 ? 0 : std::max<std::size_t>(level.Height / 2, 1);
    level.Depth = level.Depth == 0 ? 0 : std::max<std::size_t>(level.Depth / 2, 1);
  }
  std::uint64_t address = 0;
  std::shared_ptr<void> storage;
  const CUresult allocated = Allocate(call.driver(), call.context(), bytes, address, storage);
  if (allocated != CUDA_SUCCESS) return allocated;
  for (const auto& array : mipmap->levels) {
    array->address = address;
    array->storage = storage;
    address += BytesOf(*array);
    call.driver().arrays.Add(array);
  }
  *handle = call.driver().mipmapped_arrays.Add(std::move(mipmap));
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray* level_array, CUmipmappedArray mipmapped_array,
                                  unsigned int level) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto found = call.driver().mipmapped_arrays.Find(mipmapped_array);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (level_array == nullptr || level >= found->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *level_array = HandleOf<CUarray>(found->levels[level]);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped_array) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  const auto found = call.driver().mipmapped_arrays.Take(mipmapped_array);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->context->Synchronize();
  for (const auto& array : found->levels) call.driver().arrays.Take(HandleOf<CUarray>(array));
  return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memory_requirements, CUarray array,
                                      CUdevice device) {
  const auto found = Driver::Get().arrays.Find(array);
  return Requirements(__func__, memory_requirements, device, found != nullptr,
                      found != nullptr ? BytesOf(*found) : 0);
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memory_requirements,
                                               CUmipmappedArray mipmap, CUdevice device) {
  const auto found = Driver::Get().mipmapped_arrays.Find(mipmap);
  std::uint64_t bytes = 0;
  if (found != nullptr) {
    for (const auto& array : found->levels) bytes += BytesOf(*array);
  }
  return Requirements(__func__, memory_requirements, device, found != nullptr, bytes);
}

}  // namespace gpuman::sim::cuda
