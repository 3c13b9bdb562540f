#include "mover/gpus.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/numa.h"
#include "mover/hasher.h"
#include "mover/host_node.h"
#include "suspend/request.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Result;
namespace abi = driver::abi;

// The function's name (for errors) and its pointer.
#define GPUMAN_CALL(name, symbol) name, driver_.calls().symbol

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this == &other) return *this;
  Drop();
  gpus_ = std::exchange(other.gpus_, nullptr);
  handle_ = other.handle_;
  address_ = std::exchange(other.address_, 0);
  bytes_ = other.bytes_;
  gpu_ = other.gpu_;
  mapped_ = std::exchange(other.mapped_, false);
  return *this;
}

void DeviceMemory::Drop() {
  if (!gpus_) return;
  const auto& cu = gpus_->driver_.calls();
  if (mapped_) cu.cuMemUnmap(address_, bytes_);
  if (address_ != 0) cu.cuMemAddressFree(address_, bytes_);
  cu.cuMemRelease(handle_);
  gpus_ = nullptr;
  address_ = 0;
  mapped_ = false;
}

Gpus::Gpus(const driver::CudaDriver& driver) : driver_(driver) {}
Gpus::~Gpus() = default;

Result<int> Gpus::Find(const std::string& uuid) const {
  GPUMAN_ASSIGN(const auto devices, driver_.Devices());
  for (const auto& device : devices)
    if (uuid.empty() || suspend::BareUuid(device.uuid) == suspend::BareUuid(uuid)) return device.handle;
  return Fail(ErrorCode::kNotFound, fmt::format("there is no GPU {}", uuid));
}

Result<std::string> Gpus::UuidOf(int gpu) const {
  GPUMAN_ASSIGN(const auto devices, driver_.Devices());
  for (const auto& device : devices)
    if (device.handle == gpu) return device.uuid;
  return Fail(ErrorCode::kNotFound, fmt::format("there is no device {}", gpu));
}

Result<std::uint64_t> Gpus::MemoryOf(int gpu) const {
  GPUMAN_ASSIGN(const auto devices, driver_.Devices());
  for (const auto& device : devices)
    if (device.handle == gpu) return device.memory.count;
  return Fail(ErrorCode::kNotFound, fmt::format("there is no device {}", gpu));
}

std::optional<int> Gpus::HostNode(int gpu) const {
  int value = -1;
  const auto told = driver_.Invoke(GPUMAN_CALL("cuDeviceGetAttribute", cuDeviceGetAttribute), &value,
                                   abi::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu);
  const std::optional<int> by_driver = told ? std::optional(value) : std::nullopt;
  if (by_driver && value >= 0) return by_driver;
  std::array<char, 32> bus{};
  const auto named = driver_.Invoke(GPUMAN_CALL("cuDeviceGetPCIBusId", cuDeviceGetPCIBusId), bus.data(),
                                    static_cast<int>(bus.size()), gpu);
  return HostNodeOf(by_driver, named ? base::NodeOfPciDevice(bus.data()) : std::nullopt);
}

Result<> Gpus::Use(int gpu) {
  const std::lock_guard lock(mutex_);
  auto found = contexts_.find(gpu);
  if (found == contexts_.end()) {
    abi::CUcontext context = nullptr;
    GPUMAN_TRY(
        driver_.Invoke(GPUMAN_CALL("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain), &context, gpu));
    found = contexts_.emplace(gpu, context).first;
  }
  return driver_.Invoke(GPUMAN_CALL("cuCtxSetCurrent", cuCtxSetCurrent), found->second);
}

bool Gpus::IsLost() {
  const std::lock_guard lock(mutex_);
  const auto& cu = driver_.calls();
  for (const auto& [gpu, context] : contexts_) {
    if (cu.cuCtxSetCurrent(context) != abi::CUDA_SUCCESS) return true;
    const auto says = cu.cuStreamQuery(nullptr);
    if (says != abi::CUDA_SUCCESS && says != abi::CUDA_ERROR_NOT_READY) return true;
  }
  return false;
}

Result<> Gpus::Map(DeviceMemory& memory) {
  GPUMAN_TRY(driver_.Invoke(GPUMAN_CALL("cuMemAddressReserve", cuMemAddressReserve), &memory.address_,
                            memory.bytes_, std::size_t{0}, abi::CUdeviceptr{0}, 0ull));
  GPUMAN_TRY(driver_.Invoke(GPUMAN_CALL("cuMemMap", cuMemMap), memory.address_, memory.bytes_, std::size_t{0},
                            memory.handle_, 0ull));
  memory.mapped_ = true;
  return Allow(memory, memory.gpu_);
}

Result<> Gpus::Allow(const DeviceMemory& memory, int gpu) {
  abi::CUmemAccessDesc access{};
  access.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, gpu};
  access.flags = abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver_.Invoke(GPUMAN_CALL("cuMemSetAccess", cuMemSetAccess), memory.address_, memory.bytes_,
                        &access, std::size_t{1});
}

Result<DeviceMemory> Gpus::Import(int descriptor, std::uint64_t bytes) {
  DeviceMemory memory;
  memory.bytes_ = bytes;
  GPUMAN_TRY(driver_.Invoke(GPUMAN_CALL("cuMemImportFromShareableHandle", cuMemImportFromShareableHandle),
                            &memory.handle_, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                            abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  memory.gpus_ = this;
  abi::CUmemAllocationProp prop{};
  GPUMAN_TRY(driver_.Invoke(
      GPUMAN_CALL("cuMemGetAllocationPropertiesFromHandle", cuMemGetAllocationPropertiesFromHandle), &prop,
      memory.handle_));
  memory.gpu_ = prop.location.id;
  GPUMAN_TRY(Use(memory.gpu_));
  GPUMAN_TRY(Map(memory));
  return memory;
}

Result<DeviceMemory> Gpus::Create(int gpu, std::uint64_t bytes) {
  GPUMAN_TRY(Use(gpu));
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, gpu};
  DeviceMemory memory;
  memory.bytes_ = bytes;
  memory.gpu_ = gpu;
  GPUMAN_TRY(driver_.Invoke(GPUMAN_CALL("cuMemCreate", cuMemCreate), &memory.handle_, bytes, &prop, 0ull));
  memory.gpus_ = this;
  GPUMAN_TRY(Map(memory));
  return memory;
}

Result<base::Fd> Gpus::Export(const DeviceMemory& memory) const {
  int descriptor = -1;
  GPUMAN_TRY(driver_.Invoke(GPUMAN_CALL("cuMemExportToShareableHandle", cuMemExportToShareableHandle),
                            &descriptor, memory.handle_, abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            0ull));
  return base::Fd(descriptor);
}

bool Gpus::Reaches(int reader, int other) const {
  int can = 0;
  return driver_.Invoke(GPUMAN_CALL("cuDeviceCanAccessPeer", cuDeviceCanAccessPeer), &can, reader, other) &&
         can != 0;
}

Result<> Gpus::LetRead(const DeviceMemory& memory, int reader) {
  GPUMAN_TRY(Use(reader));
  return Allow(memory, reader);
}

bool Gpus::Register(void* at, std::uint64_t bytes) const {
  constexpr unsigned kPortable = abi::CU_MEMHOSTREGISTER_PORTABLE;
  return driver_.Invoke(GPUMAN_CALL("cuMemHostRegister", cuMemHostRegister_v2), at, bytes, kPortable)
      .has_value();
}

void Gpus::Unregister(void* at) const {
  (void)driver_.Invoke(GPUMAN_CALL("cuMemHostUnregister", cuMemHostUnregister), at);
}

Gpus::HasherEntry& Gpus::EntryOf(int gpu) {
  std::unique_lock lock(hashers_mutex_);
  HasherEntry& entry = hashers_[gpu];
  lock.unlock();  // GPUs do not wait for one another's
  std::call_once(entry.made, [&] {
    entry.hasher = Hasher::Make(*this, gpu, hash_key_);
    if (entry.hasher) return;
    const std::lock_guard made(hashers_mutex_);
    hasher_errors_.emplace(gpu, entry.hasher.error());
  });
  return entry;
}

Hasher* Gpus::HasherOf(int gpu) {
  const auto& hasher = EntryOf(gpu).hasher;
  return hasher ? hasher->get() : nullptr;
}

std::map<int, base::Error> Gpus::HasherErrors() {
  const std::lock_guard lock(hashers_mutex_);
  return hasher_errors_;
}

}  // namespace gpuman::mover

#undef GPUMAN_CALL
