// The simulated CUDA driver of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/cuda/address_space.h"
#include "sim/cuda/context.h"
#include "sim/cuda/device.h"
#include "sim/cuda/handles.h"
#include "sim/cuda/physical.h"
#include "sim/cuda/rw_lock.h"
#include "sim/state/state.h"

namespace gpuman::sim::cuda {

struct Array;
struct Event;
struct Function;
struct Library;
struct MipmappedArray;
struct Module;
struct VirtualHandle;
class MemoryPool;

// The context that callers of cuDevicePrimaryCtxRetain share.
struct Primary {
  std::mutex mutex;
  unsigned references = 0;
  unsigned flags = 0;
  std::shared_ptr<Context> context;
};

// A process has one driver object, which is never destroyed: threads of streams and of the program may use it
// until the process ends. Thread-safe.
class Driver {
 public:
  // A forked child gets a new driver. If the parent's driver was initialised, the child's driver always
  // answers CUDA_ERROR_NOT_INITIALIZED: contexts do not survive a fork.
  static Driver& Get();

  CUresult Init();
  bool initialized() const { return initialized_.load(); }

  // A kernel's fault spoils all contexts of the process, until it ends (measured: a new context fails, too).
  CUresult fault() const { return static_cast<CUresult>(fault_.load()); }
  void SetFault(CUresult fault);

  State& state() { return *state_; }
  Client& client() { return *client_; }
  int cuda_version();

  std::size_t device_count() const { return devices_.size(); }
  Device* FindDevice(CUdevice ordinal) const;
  Primary& primary(const Device& device) { return *primaries_[static_cast<std::size_t>(device.ordinal())]; }
  MemoryPool& default_pool(const Device& device);
  // The pool that cuMemAllocAsync uses; never null.
  MemoryPool* current_pool(const Device& device);
  void set_current_pool(const Device& device, MemoryPool* pool);

  // Keeps a destroyed pool that has allocations left: their records point to it.
  void KeepForever(std::shared_ptr<MemoryPool> pool);

  CUresult CreateContext(Device& device, unsigned flags, bool is_primary, std::shared_ptr<Context>& context);
  // Waits for the context's work and frees all that it holds.
  void DestroyContext(const std::shared_ptr<Context>& context);
  // Waits for the work of all contexts.
  void SynchronizeAll();
  std::vector<std::shared_ptr<Context>> LiveContexts() const;

  // Every call of the API holds this lock shared; a checkpoint of this process holds it exclusively from lock
  // to unlock.
  RwLock calls;
  // A thread holds this lock shared while it touches device memory, and exclusively while it removes
  // mappings.
  RwLock execution;
  std::mutex mappings;  // orders changes of virtual memory; taken before `execution`
  Heap heap;
  AddressSpace memory;
  Handles<Context, CUcontext> contexts;  // destroyed contexts stay, to tell them from wrong pointers
  Handles<StreamHandle, CUstream> streams;
  Handles<Event, CUevent> events;
  Handles<Module, CUmodule> modules;
  Handles<Function, CUfunction> functions;
  Handles<Library, CUlibrary> libraries;
  Handles<MemoryPool, CUmemoryPool> pools;
  Handles<VirtualHandle, VirtualHandle*> virtual_handles;
  Handles<Array, CUarray> arrays;
  Handles<MipmappedArray, CUmipmappedArray> mipmapped_arrays;
  Handles<Graph, CUgraph> graphs;
  Handles<GraphNode, CUgraphNode> graph_nodes;
  Handles<GraphExec, CUgraphExec> graph_execs;

  // The active captures, for the calls that they forbid.
  void AddCapture(const std::shared_ptr<Capture>& capture);
  void RemoveCapture(const std::shared_ptr<Capture>& capture);
  // Whether a capture forbids potentially blocking calls of this thread; if so, it is invalidated.
  bool CaptureForbids(CUstreamCaptureMode thread_mode);

  // Managed memory and legacy IPC make a checkpoint impossible.
  std::atomic<bool> uses_ipc{false};
  bool UsesManaged();

  // For handles that live as long as the driver.
  std::uint64_t NextId() { return next_id_++; }

 private:
  Driver() = default;
  static void AfterForkInChild();
  bool MayMakeContext(const Device& device);

  std::mutex init_mutex_;
  std::atomic<bool> initialized_{false};
  bool lost_in_fork_ = false;
  bool is_mps_client_ = false;
  std::atomic<unsigned> fault_{CUDA_SUCCESS};
  std::optional<State> state_;
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Primary>> primaries_;
  std::vector<std::shared_ptr<MemoryPool>> default_pools_;
  std::vector<std::atomic<MemoryPool*>> current_pools_;
  std::atomic<std::uint64_t> next_id_{1};
  std::vector<std::shared_ptr<MemoryPool>> kept_pools_;  // guarded by init_mutex_
  std::mutex captures_mutex_;
  std::atomic<unsigned> capture_count_{0};
  std::vector<std::shared_ptr<Capture>> captures_;
};

// The calling thread's stack of contexts; the last one is current.
std::vector<std::shared_ptr<Context>>& CurrentContexts();

}  // namespace gpuman::sim::cuda
