#include "sim/cuda/device_attributes.h"

namespace gpuman::sim::cuda {
namespace {

// All attributes in the order of their numbers, from 1, as an H200 reports them (driver 580, CUDA 13.0). The
// code below computes the values that differ between models.
constexpr int kOfH200[] = {
    1024,       1024,    1024,    64,    2147483647, 65535,   65535,  49152,    65536,     32,
    2147483647, 65536,   1980000, 512,   1,          132,     0,      0,        1,         0,
    131072,     131072,  65536,   16384, 16384,      16384,   32768,  32768,    2048,      512,
    1,          1,       0,       6,     0,          3201000, 6016,   62914560, 2048,      3,
    1,          32768,   2048,    1,     32768,      32768,   8192,   8192,     32768,     0,
    32,         32768,   32768,   2046,  32768,      131072,  65536,  16384,    16384,     16384,
    32768,      2048,    32768,   32768, 2048,       32768,   32768,  2046,     268435456, 131072,
    65000,      2097120, 32768,   32768, 9,          0,       32768,  1,        1,         1,
    233472,     65536,   1,       0,     0,          0,       2,      0,        1,         1,
    1,          0,       0,       0,     1,          1,       232448, 0,        1,         0,
    0,          1,       1,       0,     0,          32,      1,      39321600, 134217728, 1,
    1024,       1,       1,       1,     1,          1,       1,      100,      9,         1,
    1,          1,       1,       1,     1,          4,       1,      1,        1,         0,
    -1,         0,       0,       0,     0,          0,       0,      0,        590680286, 415174878,
    1,          1,       0,       1,     1,          0,       0};
constexpr unsigned kAttributes = sizeof kOfH200 / sizeof *kOfH200;

int Clock(const GpuStatic& info, ClockKind kind) {
  return static_cast<int>(info.clock_max_mhz[static_cast<unsigned>(kind)]) * 1000;
}

}  // namespace

CUresult DeviceAttribute(const Device& device, CUdevice_attribute attribute, int& value) {
  const GpuStatic& info = device.info();
  if (attribute < 1 || attribute > kAttributes) return CUDA_ERROR_INVALID_VALUE;
  const bool vmm = (info.features & kFeatureVmm) != 0;
  const bool hopper = info.compute_major >= 9;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      value = Clock(info, ClockKind::kSm);
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      value = Clock(info, ClockKind::kMemory);
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      value = static_cast<int>(device.multiprocessors());
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      value = static_cast<int>(info.memory_bus_width);
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      value = static_cast<int>(info.l2_cache_bytes);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      value = static_cast<int>(info.max_threads_per_multiprocessor);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      value = static_cast<int>(info.shared_memory_per_multiprocessor);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      value = static_cast<int>(info.shared_memory_per_multiprocessor) - 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      value = static_cast<int>(info.compute_major);
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      value = static_cast<int>(info.compute_minor);
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      value = static_cast<int>(info.pci_domain);
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      value = static_cast<int>(info.pci_bus);
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      value = static_cast<int>(info.pci_device);
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      value = static_cast<int>(info.numa_node);
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID:
      value = static_cast<int>(info.pci_device_id);
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID:
      value = static_cast<int>(info.pci_subsystem_id);
      break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      value = device.dynamic().ecc_current.load() != 0 ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      value = static_cast<int>(device.dynamic().compute_mode.load());
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      value = vmm ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      value = (info.features & kFeatureManagedFaults) != 0 ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      value = hopper ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      value = 0;  // not simulated
      break;
    default:
      value = kOfH200[attribute - 1];
      break;
  }
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
