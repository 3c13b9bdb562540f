// A GPU as this process sees it: an ordinal for one of the state's GPUs, and the bytes that this process
// holds on it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/abi/cuda.h"
#include "sim/state/mig.h"
#include "sim/state/state.h"

namespace gpuman::sim::cuda {

// NOLINTNEXTLINE(google-build-using-namespace): the vendor's names are this folder's subject
using namespace driver::abi;

inline constexpr std::uint64_t kMiB = 1u << 20;
// Device memory comes in steps of this size (measured on an H200).
inline constexpr std::uint64_t kDeviceStep = 2 * kMiB;
// The bytes that a checkpointed process keeps on the device (measured).
inline constexpr std::uint64_t kCheckpointResidue = 4 * kMiB;

// The state's GPUs that CUDA_VISIBLE_DEVICES makes visible, in its order: indices or UUIDs ("GPU-…", also a
// unique prefix). The first unknown entry ends the list; null: all GPUs. A GPU that is named twice gives an
// empty list, as with the real driver. Pure.
std::vector<unsigned> VisibleGpus(const Shared& shared, const char* variable);

// The devices of a process with this CUDA_VISIBLE_DEVICES. If a MIG device ("MIG-…") is first, it is the only
// one; GPUs in MIG mode are not devices, and if no other GPU is visible, the first MIG device of the first
// such GPU is the only device. As in CUDA 13, a process uses one MIG device.
struct Visible {
  unsigned device = 0;  // index in the state's arrays of devices
  std::optional<MigDevice> mig = {};
};
std::vector<Visible> VisibleDevices(const Shared& shared, const char* variable);

// 16 bytes from "GPU-xxxxxxxx-xxxx-…"; zero if it is malformed.
CUuuid ParseUuid(std::string_view text);

// Thread-safe.
class Device {
 public:
  Device(State& state, Client& client, int ordinal, const Visible& visible)
      : state_(state),
        client_(client),
        ordinal_(ordinal),
        home_(visible.device),
        mig_(visible.mig),
        gpu_(visible.device) {}

  int ordinal() const { return ordinal_; }
  // The index in the state; a restore may change it.
  unsigned gpu() const { return gpu_.load(); }
  bool IsAtHome() const { return gpu() == home_; }
  const GpuStatic& info() const { return state_->gpu_static[gpu()]; }
  bool IsMig() const { return mig_.has_value(); }
  std::string uuid() const;
  std::string name() const;
  unsigned multiprocessors() const;
  GpuDynamic& dynamic() const { return state_->gpu[gpu()]; }
  Client& client() const { return client_; }
  State& state() const { return state_; }
  bool CanAccess(const Device& other) const {
    return ordinal_ != other.ordinal_ && (info().features & other.info().features & kFeaturePeerAccess) != 0;
  }
  bool IsLost() const;
  std::uint64_t Capacity() const { return DeviceCapacity(state_.shared(), gpu()); }
  std::uint64_t Free() const;

  // Sets the limit of MPS for this process, in bytes; of several limits the smallest counts; 0: no limit.
  // Call it before the device is used.
  void Limit(std::uint64_t bytes);
  bool Reserve(std::uint64_t bytes);
  void Return(std::uint64_t bytes);
  // Counts memory that this process has exported or imported and holds on this device.
  void SharedBegan(std::uint64_t inode, std::uint64_t bytes, bool imported);
  void SharedEnded(std::uint64_t inode, bool imported);
  bool HoldsImported() const { return imported_.load() != 0; }
  // Counts bytes of managed memory that came to the device, or left it (negative).
  void ManagedMoved(std::int64_t bytes) { client_.ManagedMoved(gpu_, bytes); }
  void ContextCreated();
  void ContextDestroyed();

  // Takes the process's memory off the device.
  void Suspend();
  // Reserves room on `gpu` for the return; false if the bytes are not free. Call Resume or GiveUp next.
  bool MakeRoom(unsigned gpu);
  void GiveUp(unsigned gpu);
  void Resume(unsigned gpu);
  std::uint64_t held() const { return held_.load(); }

 private:
  std::uint64_t Residue() const;

  State& state_;
  Client& client_;
  const int ordinal_;
  const unsigned home_;  // the first GPU
  const std::optional<MigDevice> mig_;
  std::atomic<unsigned> gpu_;
  std::mutex mutex_;  // orders changes of held_ and contexts_ with Suspend and Resume
  std::atomic<std::uint64_t> held_{0};
  std::atomic<int> imported_{0};
  std::uint64_t limit_ = UINT64_MAX;
  unsigned contexts_ = 0;
  bool suspended_ = false;
};

}  // namespace gpuman::sim::cuda
