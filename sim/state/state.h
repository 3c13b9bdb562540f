// The shared state of the simulated driver: creates and opens it, and makes this process a client.
//
// GPUMAN_SIM_DIR names a directory (made by `gpuman-sim exec`) that holds the file `state` (layout.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "sim/state/layout.h"

namespace gpuman::sim {

template <typename T>
using Expected = tl::expected<T, std::string>;  // the error is a sentence

inline constexpr const char* kDirectoryVariable = "GPUMAN_SIM_DIR";

struct CreateOptions {
  std::string profile = "h200";
  std::string driver_version = "580.159.04";
  unsigned gpus = 1;
  std::uint64_t memory_total = 0;  // of each GPU; 0 = the profile's
  // Copies between the host and each GPU, bytes a second; 0: unlimited.
  std::array<std::uint64_t, kMaxGpus> bus_to_device{}, bus_to_host{};
  std::uint64_t checkpoint_speed = 0, restore_speed = 0;
  // Groups of GPUs joined by NVLink, as "0-3,1-2"; "none". Empty: the profile's groups.
  std::string nvlink{};
};

// A mapping of the shared state. Movable; the mapping ends with the object. Reads and writes through it are
// safe from any thread and any process.
class State {
 public:
  // Makes DIR/state; the directory must exist. Fails if the file exists.
  [[nodiscard]] static Expected<State> Create(const std::string& directory, const CreateOptions& options);
  [[nodiscard]] static Expected<State> Open(const std::string& directory);
  // Opens the state in the directory of GPUMAN_SIM_DIR. An unset variable is an error, too.
  [[nodiscard]] static Expected<State> OpenFromEnvironment();

  State(State&& other) noexcept;
  State& operator=(State&& other) noexcept;
  ~State();

  Shared& shared() const { return *shared_; }
  Shared* operator->() const { return shared_; }
  unsigned gpus() const { return shared_->gpus; }

 private:
  explicit State(Shared* shared) : shared_(shared) {}
  Shared* shared_;
};

// The most bytes of the device that programs can have, and the bytes that all of them use now. Managed memory
// counts as far as there is room beside other memory.
std::uint64_t DeviceCapacity(const Shared& shared, unsigned gpu);
std::uint64_t DeviceUsed(const Shared& shared, unsigned gpu);
// The bytes of one process, without managed memory and without memory that another process shows (sharing.h).
std::uint64_t HeldBy(const Shared& shared, const ProcessSlot& slot, unsigned gpu);

// Percent of the last second in which the device, or one process on it, ran a kernel.
unsigned DeviceUtilization(const Shared& shared, unsigned gpu, std::uint64_t now_ns);
unsigned ProcessUtilization(const ProcessSlot& slot, unsigned gpu, std::uint64_t now_ns);
std::uint64_t MonotonicNs();

// This process as a client of the simulated driver: its slot in the process table. Claims the slot on first
// use, and a new one in a forked child. Thread-safe. One library of a process (libcuda) accounts memory and
// kernels; any number of clients in a process share one slot.
class Client {
 public:
  explicit Client(const State& state);  // borrows the state
  ~Client();                            // releases the slot
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // nullptr when all slots are taken by live processes. Valid until Release or fork.
  ProcessSlot* Slot();
  // The slot of another live process; nullptr if it is not a client or not in sight.
  ProcessSlot* SlotOf(std::uint32_t pid);
  // The pid, in this process's namespace, of a slot from LiveSlots; 0 if the process is not in sight
  // (identity.h).
  std::uint32_t PidOf(const ProcessSlot& slot);

  // Takes `bytes`, rounded up to kAccountingUnit, out of the GPU's capacity. False if that many are not free
  // after the memory of dead processes was returned, for an injected fault, or by a limit of a cgroup
  // (limits.h). Exact under any concurrency.
  bool ReserveDeviceBytes(unsigned gpu, std::uint64_t bytes);
  // Returns reserved bytes; must not be more than this process holds.
  void ReturnDeviceBytes(unsigned gpu, std::uint64_t bytes);
  // Counts memory that this process shares with others and holds, by the inode of its file: the memory takes
  // room on the GPU only once.
  void SharingBegan(unsigned gpu, std::uint64_t inode, std::uint64_t bytes);
  void SharingEnded(std::uint64_t inode);
  // Counts bytes of managed memory that came to the GPU, or left it (negative). These bytes need no room:
  // bytes without room count as sent back to the host.
  void ManagedMoved(unsigned gpu, std::int64_t bytes);

  void ContextCreated(unsigned gpu);
  void ContextDestroyed(unsigned gpu);
  // Kernels of all streams nest; busy time is counted from the first to the last.
  void KernelBegan(unsigned gpu);
  void KernelEnded(unsigned gpu);

  // Returns the memory and slots of processes that died, by any signal, reaped or not.
  void SweepDead();
  // Slots of live processes, this one included. Sweeps first.
  std::vector<ProcessSlot*> LiveSlots();

  // Returns memory, contexts and slot. The next use claims a new slot.
  void Release();

 private:
  struct Local;
  Local& Current();
  bool ReserveAnyDeviceBytes(unsigned gpu, std::uint64_t bytes);  // whatever limits there are

  const State& state_;
  std::atomic<Local*> local_{nullptr};
};

// Posts an Xid or another event, and wakes every waiter.
void PostEvent(Shared& shared, unsigned gpu, std::uint64_t type, std::uint64_t data);
// The first event at or after `next` that passes the filter by GPU and type; `next` moves past it. Waits up
// to timeout_ms (forever if negative); nullopt on time-out. Events older than the ring are skipped.
struct EventFilter {
  std::uint64_t types[kMaxGpus] = {};  // types wanted by GPU
};
struct EventRecord {
  unsigned gpu;
  std::uint64_t type, data;
};
std::optional<EventRecord> WaitEvent(Shared& shared, const EventFilter& filter, std::uint64_t& next,
                                     std::int64_t timeout_ms);

// Sleeps for the injected faults of this call. Without faults it returns at once, in a few nanoseconds.
void ObeySlowCalls(Shared& shared, const char* function, unsigned gpu);

// Waits while *word == expected, up to timeout_ms (forever if negative). False on time-out.
bool FutexWait(Word32& word, std::uint32_t expected, std::int64_t timeout_ms);
void FutexWakeAll(Word32& word);

}  // namespace gpuman::sim
