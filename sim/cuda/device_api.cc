// Devices and their properties.
#include <cstdio>
#include <cstring>

#include "sim/cuda/api.h"
#include "sim/cuda/device_attributes.h"

namespace gpuman::sim::cuda {
namespace {

// Looks a device up for a call that needs no context.
struct DeviceCall {
  DeviceCall(const char* function, CUdevice ordinal) : call(function, Need::kInit) {
    device = call ? call.driver().FindDevice(ordinal) : nullptr;
    error = !call ? call.error() : device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  }
  Call call;
  Device* device;
  CUresult error;
};

void CopyText(char* to, int size, const char* text) {
  std::snprintf(to, static_cast<std::size_t>(size), "%s", text);
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(call.driver().device_count());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const DeviceCall call(__func__, ordinal);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  CopyText(name, len, call.device->name().c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *uuid = ParseUuid(call.device->uuid());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceGetLuid(char*, unsigned int*, CUdevice device) {
  const DeviceCall call(__func__, device);
  return call.error != CUDA_SUCCESS ? call.error : CUDA_ERROR_NOT_SUPPORTED;  // exists only on Windows
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = call.device->Capacity();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attrib, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : DeviceAttribute(*call.device, attrib, *value);
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = static_cast<int>(call.device->info().compute_major);
  *minor = static_cast<int>(call.device->info().compute_minor);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto get = [&](CUdevice_attribute attribute) {
    int value = 0;
    DeviceAttribute(*call.device, attribute, value);
    return value;
  };
  *prop = {get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
           {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
            get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
           {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
            get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
           get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
           get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
           get(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
           get(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
           get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
           get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
           get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* pci_bus_id, int len, CUdevice device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  const GpuStatic& info = call.device->info();
  char text[16];
  const int length = std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", info.pci_domain & 0xffff,
                                   info.pci_bus & 0xff, info.pci_device & 0xff);
  if (pci_bus_id == nullptr || len <= length) return CUDA_ERROR_INVALID_VALUE;
  CopyText(pci_bus_id, len, text);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* pci_bus_id) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  unsigned domain = 0, bus = 0, slot = 0;
  if (device == nullptr || pci_bus_id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::sscanf(pci_bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(pci_bus_id, "%x:%x", &bus, &slot) != 2) return CUDA_ERROR_INVALID_VALUE;
  }
  for (int ordinal = 0; const Device* found = call.driver().FindDevice(ordinal); ++ordinal) {
    const GpuStatic& info = found->info();
    if (info.pci_domain == domain && info.pci_bus == bus && info.pci_device == slot) {
      *device = ordinal;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can_access_peer, CUdevice device, CUdevice peer_device) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Device* const peer = call.call.driver().FindDevice(peer_device);
  if (peer == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (can_access_peer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can_access_peer = call.call.driver().FindDevice(device)->CanAccess(*peer) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst) {
  const DeviceCall call(__func__, src);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Device* const peer = call.call.driver().FindDevice(dst);
  if (peer == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || src == dst) return CUDA_ERROR_INVALID_VALUE;
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = call.call.driver().FindDevice(src)->CanAccess(*peer) ? 1 : 0;
      return CUDA_SUCCESS;
    default:  // the rank of performance is 0 as well
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  const DeviceCall call(__func__, device);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr || attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  const cuuint64_t nothing = 0;  // graphs here allocate no memory
  std::memcpy(value, &nothing, sizeof nothing);
  return CUDA_SUCCESS;
}
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  cuuint64_t ignored = 0;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : cuDeviceGetGraphMemAttribute(device, attr, &ignored);
}
CUresult cuDeviceGraphMemTrim(CUdevice device) { return DeviceCall(__func__, device).error; }

}  // namespace gpuman::sim::cuda
