// The effects of processes on one another: capacity, death, IPC, and the checkpoint.
#include <signal.h>

#include <array>
#include <atomic>

#include "driver/abi/nvml.h"
#include "sim/cuda/test_cuda.h"

namespace gpuman::sim::cuda {
namespace {

// A process with a context on device 0 that runs steps on demand: one byte in, one byte out.
class Worker {
 public:
  using Steps = std::function<void(const Cuda&, const std::function<void()>& tell_and_wait)>;

  Worker(TestState& state, const Steps& body) {
    if (pipe(to_.data()) != 0 || pipe(from_.data()) != 0) return;
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ != 0) {
      close(to_[0]);
      close(from_[1]);
      return;
    }
    close(to_[1]);
    close(from_[0]);
    setenv(kDirectoryVariable, state.directory().c_str(), 1);
    const Cuda cu;
    Start(cu);
    body(cu, [&] {
      char byte = 'x';
      if (write(from_[1], &byte, 1) != 1 || read(to_[0], &byte, 1) != 1) _exit(3);
    });
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ~Worker() {
    if (pid_ > 0) Kill();
    close(to_[1]);
    close(from_[0]);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  pid_t pid() const { return pid_; }
  // Waits until the worker reports the next step; false if it ended.
  bool Await() {
    char byte = 0;
    return read(from_[0], &byte, 1) == 1;
  }
  void GoOn() {
    const char byte = 'x';
    EXPECT_EQ(write(to_[1], &byte, 1), 1);
  }
  // Lets the worker run to its end; true if all its expectations held.
  bool Finish() {
    GoOn();
    int status = 1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status == 0;
  }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  std::array<int, 2> to_{}, from_{};
  pid_t pid_ = -1;
};

TEST(SimCudaProcesses, TheCapacityIsSharedToTheLastByte) {
  TestState state({.memory_total = 8192 * kMegabyte});
  const std::uint64_t overhead = state.shared().gpu_static[0].context_overhead;
  std::array<std::uint64_t, 4> taken{};
  std::vector<std::unique_ptr<Worker>> workers;
  std::array<int, 2> counts{};
  ASSERT_EQ(pipe(counts.data()), 0);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    workers.push_back(std::make_unique<Worker>(state, [&](const Cuda& cu, const std::function<void()>& tell) {
      tell();
      std::uint64_t blocks = 0;
      CUdeviceptr pointer = 0;
      CUresult result = CUDA_SUCCESS;
      while ((result = cu.cuMemAlloc_v2(&pointer, 2 * kMegabyte)) == CUDA_SUCCESS) ++blocks;
      EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, result);
      EXPECT_EQ(write(counts[1], &blocks, sizeof blocks), static_cast<ssize_t>(sizeof blocks));
      tell();
    }));
    ASSERT_TRUE(workers.back()->Await());
  }
  for (auto& worker : workers) worker->GoOn();
  std::uint64_t sum = 0;
  for (std::uint64_t& blocks : taken) {
    ASSERT_EQ(read(counts[0], &blocks, sizeof blocks), static_cast<ssize_t>(sizeof blocks));
    sum += blocks;
  }
  const std::uint64_t capacity = DeviceCapacity(state.shared(), 0);
  EXPECT_EQ(sum, (capacity - taken.size() * overhead) / (2 * kMegabyte));
  EXPECT_LT(capacity - DeviceUsed(state.shared(), 0), 2 * kMegabyte);
  for (auto& worker : workers) {
    ASSERT_TRUE(worker->Await());
    EXPECT_TRUE(worker->Finish());
  }
}

TEST(SimCudaProcesses, AKilledProcessGivesItsMemoryBack) {
  TestState state;
  Worker observer(state, [](const Cuda& cu, const std::function<void()>& tell) {
    const std::uint64_t before = FreeBytes(cu);
    tell();
    EXPECT_LT(FreeBytes(cu) + 1024 * kMegabyte, before);
    tell();
    EXPECT_EQ(FreeBytes(cu), before);
  });
  ASSERT_TRUE(observer.Await());
  {
    Worker victim(state, [](const Cuda& cu, const std::function<void()>& tell) {
      Allocate(cu, 1024 * kMegabyte);
      CUdeviceptr pointer = 0;
      EXPECT_OK(cu.cuMemAllocAsync(&pointer, kMegabyte, nullptr));
      EXPECT_OK(Launch(cu, "spin", 1, 1, nullptr, std::uint64_t{60'000'000'000}));
      tell();
    });
    ASSERT_TRUE(victim.Await());
    observer.GoOn();
    ASSERT_TRUE(observer.Await());
    victim.Kill();
  }
  EXPECT_TRUE(observer.Finish());
}

TEST(SimCudaProcesses, AGpuInExclusiveModeHasContextsOfOneProcess) {
  namespace nvml = gpuman::driver::abi;
  TestState state;
  const auto set = [&](nvml::nvmlComputeMode_t mode) { state.shared().gpu[0].compute_mode.store(mode); };
  const auto create = [](const Cuda& cu) {
    CUcontext context = nullptr;
    return cu.cuCtxCreate_v2(&context, 0, 0);
  };
  Worker first(state, [&](const Cuda& cu, const std::function<void()>& tell) {
    tell();
    EXPECT_OK(create(cu)) << "its second";
    tell();
  });
  ASSERT_TRUE(first.Await());
  set(nvml::NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
  first.GoOn();
  ASSERT_TRUE(first.Await());
  set(nvml::NVML_COMPUTEMODE_DEFAULT);
  Worker second(state, [&](const Cuda& cu, const std::function<void()>& tell) {
    tell();
    EXPECT_CU(CUDA_ERROR_DEVICE_UNAVAILABLE, create(cu)) << "exclusive";
    tell();
    EXPECT_CU(CUDA_ERROR_DEVICE_UNAVAILABLE, create(cu)) << "prohibited";
    tell();
    EXPECT_OK(create(cu)) << "default";
  });
  ASSERT_TRUE(second.Await());
  for (const auto mode : {nvml::NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, nvml::NVML_COMPUTEMODE_PROHIBITED}) {
    set(mode);
    second.GoOn();
    ASSERT_TRUE(second.Await());
  }
  set(nvml::NVML_COMPUTEMODE_DEFAULT);
  EXPECT_TRUE(second.Finish());
  EXPECT_TRUE(first.Finish());
}

TEST(SimCudaProcesses, LegacyIpcSharesTheBytes) {
  TestState state;
  std::array<int, 2> handles{};
  ASSERT_EQ(pipe(handles.data()), 0);
  Worker exporter(state, [&](const Cuda& cu, const std::function<void()>& tell) {
    Allocate(cu, 100);
    const CUdeviceptr words = Allocate(cu, 4096);
    EXPECT_OK(cu.cuMemsetD32_v2(words, 11, 1024));
    CUipcMemHandle handle{};
    EXPECT_OK(cu.cuIpcGetMemHandle(&handle, words));
    CUdeviceptr own = 0;
    EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT,
              cu.cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(write(handles[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    tell();
    EXPECT_EQ(ReadWords(cu, words, 1).front(), 13u);
  });
  ASSERT_TRUE(exporter.Await());
  Worker importer(state, [&](const Cuda& cu, const std::function<void()>& tell) {
    CUipcMemHandle handle{};
    EXPECT_EQ(read(handles[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    const std::uint64_t before = FreeBytes(cu);
    CUdeviceptr words = 0;
    EXPECT_OK(cu.cuIpcOpenMemHandle_v2(&words, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(FreeBytes(cu), before);
    EXPECT_TRUE(AllWordsAre(cu, words, 1024, 11u));
    EXPECT_OK(Launch(cu, "add", 1, 1, nullptr, words, 2u));
    EXPECT_OK(cu.cuCtxSynchronize());
    EXPECT_OK(cu.cuIpcCloseMemHandle(words));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuIpcCloseMemHandle(words));
    handle.reserved[0] ^= 1;
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cu.cuIpcOpenMemHandle_v2(&words, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    tell();
  });
  ASSERT_TRUE(importer.Await());
  EXPECT_TRUE(importer.Finish());
  EXPECT_TRUE(exporter.Finish());
}

// Runs the caller's side of a checkpoint in a process of its own.
void AsCaller(TestState& state, const std::function<void(const Cuda&)>& body) {
  const bool passed = Forked([&] {
    setenv(kDirectoryVariable, state.directory().c_str(), 1);
    const Cuda cu;
    EXPECT_OK(cu.cuInit(0));
    body(cu);
  });
  EXPECT_TRUE(passed);
}

CUprocessState StateOf(const Cuda& cu, pid_t pid) {
  CUprocessState state{};
  EXPECT_OK(cu.cuCheckpointProcessGetState(pid, &state));
  return state;
}

// Exports words of its own, and waits in a kernel until another process has written 7 to the first.
void ExportAndAwait(const Cuda& cu, int handles, const std::function<void()>& tell) {
  const CUdeviceptr words = Allocate(cu, 4096);
  EXPECT_OK(cu.cuMemsetD32_v2(words, 0, 1024));
  CUipcMemHandle handle{};
  EXPECT_OK(cu.cuIpcGetMemHandle(&handle, words));
  CUstream waits = nullptr, works = nullptr;
  EXPECT_OK(cu.cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
  EXPECT_OK(cu.cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
  EXPECT_OK(Launch(cu, "await", 1, 1, waits, words, 7u));
  // Meanwhile other work goes on, and mappings change, which no kernel may see happen.
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address = 0;
  EXPECT_OK(cu.cuMemAddressReserve(&address, 2 * kMegabyte, 0, 0, 0));
  for (unsigned round = 0; round < 20; ++round) {
    CUmemGenericAllocationHandle piece = 0;
    EXPECT_OK(cu.cuMemCreate(&piece, 2 * kMegabyte, &prop, 0));
    EXPECT_OK(cu.cuMemMap(address, 2 * kMegabyte, 0, piece, 0));
    EXPECT_OK(cu.cuMemSetAccess(address, 2 * kMegabyte, &access, 1));
    EXPECT_OK(Launch(cu, "fill", 1, 32, works, address, round));
    EXPECT_OK(cu.cuStreamSynchronize(works));
    EXPECT_OK(cu.cuMemUnmap(address, 2 * kMegabyte));
    EXPECT_OK(cu.cuMemRelease(piece));
  }
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(waits));
  EXPECT_EQ(write(handles, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  tell();
  EXPECT_OK(cu.cuStreamSynchronize(waits));
  tell();
}

// Opens the words on its own device and stores 7 there.
void OpenAndStore(const Cuda& cu, int handles, CUdevice device) {
  CUcontext context = nullptr;
  EXPECT_OK(cu.cuDevicePrimaryCtxRetain(&context, device));
  EXPECT_OK(cu.cuCtxSetCurrent(context));
  CUipcMemHandle handle{};
  EXPECT_EQ(read(handles, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  CUdeviceptr words = 0;
  EXPECT_OK(cu.cuIpcOpenMemHandle_v2(&words, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT_OK(Launch(cu, "store", 1, 1, nullptr, words));
  EXPECT_OK(cu.cuCtxSynchronize());
}

TEST(SimCudaProcesses, AKernelWaitsForWhatAKernelOfAnotherProcessOnAnotherDeviceWrites) {
  for (const CUdevice device : {0, 1}) {
    TestState state({.gpus = 2});
    std::array<int, 2> handles{};
    ASSERT_EQ(pipe(handles.data()), 0);
    Worker exporter(state, [&](const Cuda& cu, const std::function<void()>& tell) {
      ExportAndAwait(cu, handles[1], tell);
    });
    ASSERT_TRUE(exporter.Await());
    Worker importer(state, [&](const Cuda& cu, const std::function<void()>& tell) {
      OpenAndStore(cu, handles[0], device);
      tell();
    });
    ASSERT_TRUE(importer.Await());
    EXPECT_TRUE(importer.Finish());
    exporter.GoOn();
    ASSERT_TRUE(exporter.Await());
    EXPECT_TRUE(exporter.Finish());
  }
}

TEST(SimCudaProcesses, LegacyIpcIsRefusedWhereDevicesDoNotReachEachOther) {
  TestState state({.profile = "rtx4050", .gpus = 2});
  std::array<int, 2> handles{};
  ASSERT_EQ(pipe(handles.data()), 0);
  Worker exporter(state, [&](const Cuda& cu, const std::function<void()>& tell) {
    CUipcMemHandle handle{};
    EXPECT_OK(cu.cuIpcGetMemHandle(&handle, Allocate(cu, 4096)));
    EXPECT_EQ(write(handles[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    tell();
  });
  ASSERT_TRUE(exporter.Await());
  Worker importer(state, [&](const Cuda& cu, const std::function<void()>& tell) {
    CUipcMemHandle handle{};
    EXPECT_EQ(read(handles[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    CUcontext second = nullptr;
    EXPECT_OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    EXPECT_OK(cu.cuCtxSetCurrent(second));
    CUdeviceptr words = 0;
    EXPECT_CU(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
              cu.cuIpcOpenMemHandle_v2(&words, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    tell();
  });
  ASSERT_TRUE(importer.Await());
  EXPECT_TRUE(importer.Finish());
  EXPECT_TRUE(exporter.Finish());
}

TEST(SimCudaCheckpoint, TakesAProcessOffTheDeviceAndBack) {
  TestState state;
  const std::uint64_t overhead = state.shared().gpu_static[0].context_overhead;
  Worker target(state, [](const Cuda& cu, const std::function<void()>& tell) {
    const CUdeviceptr words = Allocate(cu, 64 * kMegabyte);
    EXPECT_OK(cu.cuMemsetD32_v2(words, 0xfeed, 16 * kMegabyte));
    tell();
    EXPECT_TRUE(AllWordsAre(cu, words, 16 * kMegabyte, 0xfeedu));
    Allocate(cu, 4);
  });
  ASSERT_TRUE(target.Await());
  const pid_t pid = target.pid();
  AsCaller(state, [&](const Cuda& cu) {
    const std::uint64_t running = overhead + 64 * kMegabyte;
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_RUNNING);
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuCheckpointProcessCheckpoint(pid, nullptr));
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuCheckpointProcessUnlock(pid, nullptr));
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuCheckpointProcessRestore(pid, nullptr));
    CUcheckpointLockArgs args{};
    args.timeoutMs = 10'000;
    EXPECT_OK(cu.cuCheckpointProcessLock(pid, &args));
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_LOCKED);
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuCheckpointProcessLock(pid, nullptr));
    EXPECT_EQ(DeviceUsed(state.shared(), 0), running);
    EXPECT_OK(cu.cuCheckpointProcessCheckpoint(pid, nullptr));
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_CHECKPOINTED);
    EXPECT_EQ(DeviceUsed(state.shared(), 0), 4 * kMegabyte);
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuCheckpointProcessUnlock(pid, nullptr));
    int thread = 0;
    EXPECT_OK(cu.cuCheckpointProcessGetRestoreThreadId(pid, &thread));
    EXPECT_NE(thread, 0);
    EXPECT_OK(cu.cuCheckpointProcessRestore(pid, nullptr));
    EXPECT_EQ(DeviceUsed(state.shared(), 0), running);
    EXPECT_OK(cu.cuCheckpointProcessUnlock(pid, nullptr));
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_RUNNING);
    CUprocessState ignored{};
    EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM, cu.cuCheckpointProcessGetState(999'999'999, &ignored));
    EXPECT_CU(CUDA_ERROR_NOT_INITIALIZED, cu.cuCheckpointProcessGetState(getppid(), &ignored));
  });
  EXPECT_TRUE(target.Finish());
}

TEST(SimCudaCheckpoint, ALockedProcessWaitsAndALockGivesUpInTime) {
  TestState state;
  Worker target(state, [](const Cuda& cu, const std::function<void()>& tell) {
    const CUdeviceptr word = Allocate(cu, 4);
    EXPECT_OK(Launch(cu, "spin", 1, 1, nullptr, std::uint64_t{3'000'000'000}));
    tell();
    Allocate(cu, 4);  // blocks while locked
    EXPECT_OK(cu.cuMemsetD32_v2(word, 1, 1));
    tell();
  });
  ASSERT_TRUE(target.Await());
  const pid_t pid = target.pid();
  AsCaller(state, [&](const Cuda& cu) {
    CUcheckpointLockArgs args{};
    args.timeoutMs = 20;
    EXPECT_CU(CUDA_ERROR_NOT_READY, cu.cuCheckpointProcessLock(pid, &args));
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_RUNNING);
    EXPECT_OK(cu.cuCheckpointProcessLock(pid, nullptr));
  });
  target.GoOn();
  AsCaller(state, [&](const Cuda& cu) {
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_LOCKED);
    EXPECT_OK(cu.cuCheckpointProcessUnlock(pid, nullptr));
  });
  ASSERT_TRUE(target.Await());
  EXPECT_TRUE(target.Finish());
}

TEST(SimCudaCheckpoint, RestoreNeedsRoom) {
  TestState state({.memory_total = 8192 * kMegabyte});
  Worker target(state, [](const Cuda& cu, const std::function<void()>& tell) {
    Allocate(cu, 4096 * kMegabyte);
    tell();
  });
  ASSERT_TRUE(target.Await());
  const pid_t pid = target.pid();
  AsCaller(state, [&](const Cuda& cu) {
    EXPECT_OK(cu.cuCheckpointProcessLock(pid, nullptr));
    EXPECT_OK(cu.cuCheckpointProcessCheckpoint(pid, nullptr));
  });
  {
    Worker other(state, [](const Cuda& cu, const std::function<void()>& tell) {
      Allocate(cu, 4096 * kMegabyte);
      tell();
    });
    ASSERT_TRUE(other.Await());
    AsCaller(state, [&](const Cuda& cu) {
      EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.cuCheckpointProcessRestore(pid, nullptr));
      EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_CHECKPOINTED);
    });
    EXPECT_TRUE(other.Finish());
  }
  AsCaller(state, [&](const Cuda& cu) {
    EXPECT_OK(cu.cuCheckpointProcessRestore(pid, nullptr));
    EXPECT_OK(cu.cuCheckpointProcessUnlock(pid, nullptr));
  });
  EXPECT_TRUE(target.Finish());
}

void KeepsItsWords(const Cuda& cu, const std::function<void()>& tell) {
  const CUdeviceptr words = Allocate(cu, 8 * kMegabyte);
  EXPECT_OK(cu.cuMemsetD32_v2(words, 0xbeef, 2 * kMegabyte));
  tell();
  EXPECT_TRUE(AllWordsAre(cu, words, 2 * kMegabyte, 0xbeefu));
  tell();
}

// For a restore on the other of two GPUs.
std::array<CUcheckpointGpuPair, 2> Exchanged(const Cuda& cu) {
  std::array<CUcheckpointGpuPair, 2> swap{};
  EXPECT_OK(cu.cuDeviceGetUuid_v2(&swap[0].oldUuid, 0));
  EXPECT_OK(cu.cuDeviceGetUuid_v2(&swap[1].oldUuid, 1));
  swap[0].newUuid = swap[1].oldUuid;
  swap[1].newUuid = swap[0].oldUuid;
  return swap;
}

TEST(SimCudaCheckpoint, AProcessCanComeBackOnAnotherGpu) {
  TestState state({.gpus = 2});
  Worker target(state, KeepsItsWords);
  ASSERT_TRUE(target.Await());
  const std::uint64_t used = DeviceUsed(state.shared(), 0);
  EXPECT_EQ(DeviceUsed(state.shared(), 1), 0u);
  AsCaller(state, [&](const Cuda& cu) {
    auto swap = Exchanged(cu);
    CUcheckpointRestoreArgs args{};
    args.gpuPairs = swap.data();
    args.gpuPairsCount = 1;
    EXPECT_OK(cu.cuCheckpointProcessLock(target.pid(), nullptr));
    EXPECT_OK(cu.cuCheckpointProcessCheckpoint(target.pid(), nullptr));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.cuCheckpointProcessRestore(target.pid(), &args));
    args.gpuPairsCount = 2;
    EXPECT_OK(cu.cuCheckpointProcessRestore(target.pid(), &args));
    EXPECT_OK(cu.cuCheckpointProcessUnlock(target.pid(), nullptr));
  });
  EXPECT_EQ(DeviceUsed(state.shared(), 0), 0u);
  EXPECT_EQ(DeviceUsed(state.shared(), 1), used);
  target.GoOn();
  ASSERT_TRUE(target.Await());
  EXPECT_TRUE(target.Finish());
}

TEST(SimCudaCheckpoint, TheRestoreOfACallerThatDiedEndsAsItWasAskedFor) {
  TestState state({.gpus = 2, .restore_speed = 1024 * kMegabyte});
  Worker target(state, KeepsItsWords);
  ASSERT_TRUE(target.Await());
  const pid_t pid = target.pid();
  const std::uint64_t used = DeviceUsed(state.shared(), 0);
  Worker caller(state, [pid](const Cuda& cu, const std::function<void()>& tell) {
    auto swap = Exchanged(cu);
    CUcheckpointRestoreArgs args{};
    args.gpuPairs = swap.data();
    args.gpuPairsCount = swap.size();
    EXPECT_OK(cu.cuCheckpointProcessLock(pid, nullptr));
    EXPECT_OK(cu.cuCheckpointProcessCheckpoint(pid, nullptr));
    tell();
    (void)cu.cuCheckpointProcessRestore(pid, &args);
  });
  ASSERT_TRUE(caller.Await());
  Client onlooker(state.state());
  ProcessSlot* const slot = onlooker.SlotOf(static_cast<std::uint32_t>(pid));
  ASSERT_NE(slot, nullptr);
  const std::uint32_t before = slot->checkpoint.asked.load();
  caller.GoOn();
  while (slot->checkpoint.asked.load() == before) FutexWait(slot->checkpoint.asked, before, -1);
  caller.Kill();
  AsCaller(state, [&](const Cuda& cu) {
    EXPECT_EQ(StateOf(cu, pid), CU_PROCESS_STATE_LOCKED) << "the answer waits for the end of the restore";
    EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.cuCheckpointProcessRestore(pid, nullptr)) << "it is restored";
    EXPECT_OK(cu.cuCheckpointProcessUnlock(pid, nullptr));
  });
  EXPECT_EQ(DeviceUsed(state.shared(), 0), 0u);
  EXPECT_EQ(DeviceUsed(state.shared(), 1), used);
  target.GoOn();
  ASSERT_TRUE(target.Await());
  EXPECT_TRUE(target.Finish());
}

TEST(SimCudaCheckpoint, RefusesManagedMemoryAndIpc) {
  TestState state;
  Worker managed(state, [](const Cuda& cu, const std::function<void()>& tell) {
    CUdeviceptr pointer = 0;
    EXPECT_OK(cu.cuMemAllocManaged(&pointer, kMegabyte, CU_MEM_ATTACH_GLOBAL));
    tell();
  });
  Worker ipc(state, [](const Cuda& cu, const std::function<void()>& tell) {
    CUipcMemHandle handle{};
    EXPECT_OK(cu.cuIpcGetMemHandle(&handle, Allocate(cu, 4)));
    tell();
  });
  ASSERT_TRUE(managed.Await());
  ASSERT_TRUE(ipc.Await());
  AsCaller(state, [&](const Cuda& cu) {
    for (const pid_t pid : {managed.pid(), ipc.pid()}) {
      EXPECT_OK(cu.cuCheckpointProcessLock(pid, nullptr));
      EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cu.cuCheckpointProcessCheckpoint(pid, nullptr));
      EXPECT_OK(cu.cuCheckpointProcessUnlock(pid, nullptr));
    }
  });
  EXPECT_TRUE(managed.Finish());
  EXPECT_TRUE(ipc.Finish());
}

TEST(SimCudaCheckpoint, ATargetThatDiesEndsTheWait) {
  TestState state;
  Worker target(state, [](const Cuda& cu, const std::function<void()>& tell) {
    EXPECT_OK(Launch(cu, "spin", 1, 1, nullptr, std::uint64_t{60'000'000'000}));
    tell();
  });
  ASSERT_TRUE(target.Await());
  const pid_t pid = target.pid();
  std::fflush(nullptr);
  const pid_t caller = fork();
  if (caller == 0) {
    setenv(kDirectoryVariable, state.directory().c_str(), 1);
    const Cuda cu;
    EXPECT_OK(cu.cuInit(0));
    EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM, cu.cuCheckpointProcessLock(pid, nullptr));
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  Client onlooker(state.state());
  ProcessSlot* const slot = onlooker.SlotOf(static_cast<std::uint32_t>(pid));
  ASSERT_NE(slot, nullptr);
  while (slot->checkpoint.asked.load() == slot->checkpoint.answered.load())
    FutexWait(slot->checkpoint.asked, slot->checkpoint.answered.load(), -1);
  target.Kill();
  int status = 1;
  waitpid(caller, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SimCudaCheckpoint, ATargetThatHasEndedIsNoProcessWithoutCuda) {
  TestState state;
  AsCaller(state, [](const Cuda& cu) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    CUprocessState ignored{};
    EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM, cu.cuCheckpointProcessGetState(child, &ignored)) << "a zombie";
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM, cu.cuCheckpointProcessGetState(child, &ignored)) << "reaped";
  });
}

}  // namespace
}  // namespace gpuman::sim::cuda
