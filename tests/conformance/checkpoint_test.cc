// The driver's checkpoint of another process, and what other processes see of it.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "conformance.h"
#include "kernels.h"
#include "nvml_library.h"
#include "probe.h"

namespace gpuman::conformance {
namespace {

constexpr std::size_t kBytes = 64 * kMiB;

// Holds memory and obeys: "spin" runs a kernel of half a second; "query", "free" and "event" make one call
// each and tell its result; any other word: tells whether the memory is right.
PROBE(checkpointed) {
  CU(cuInit, 0u);
  abi::CUcontext context = nullptr;
  abi::CUmodule module = nullptr;
  abi::CUdeviceptr pointer = 0;
  CU(cuCtxCreate_v2, &context, 0u, 0);
  CU(cuModuleLoadData, &module, load::kKernels);
  CU(cuMemAlloc_v2, &pointer, kBytes);
  Fill(module, pointer, kBytes, 21);
  Say("ready", CudaErrorName(CU(cuCtxSynchronize)));
  std::uint64_t added = 0;
  for (auto line = Hear(); !line.empty(); line = Hear()) {
    if (line == "spin") {
      Spin(module, 500'000'000);
      Say("spinning", "yes");
      CU(cuCtxSynchronize);
      continue;
    }
    if (line == "query" || line == "free" || line == "event") {
      std::size_t free = 0, total = 0;
      abi::CUevent event = nullptr;
      Say(line, CudaErrorName(line == "query"  ? CU(cuStreamQuery, nullptr)
                              : line == "free" ? CU(cuMemGetInfo_v2, &free, &total)
                                               : CU(cuEventCreate, &event, 0u)));
      continue;
    }
    AddOne(module, pointer, kBytes);
    ++added;
    Say(line, Wrong(module, pointer, kBytes, 21, added) == 0 ? "whole" : "wrong");
  }
}

PROBE(no_cuda) {
  Say("ready", "yes");
  Hear();
}

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(CU(cuInit, 0u));
    if (!Cuda().CanCheckpoint()) GTEST_SKIP() << "this driver has no checkpoint calls";
    ASSERT_EQ(NvmlName(ML(nvmlInit_v2)), "NVML_SUCCESS");
  }
  void TearDown() override { ML(nvmlShutdown); }
  static int State(int pid) {
    abi::CUprocessState state{};
    const auto result = CU(cuCheckpointProcessGetState, pid, &state);
    EXPECT_OK(result);
    return result == abi::CUDA_SUCCESS ? static_cast<int>(state) : -1;
  }
  static abi::CUresult Lock(int pid, unsigned timeout = 10000) {
    abi::CUcheckpointLockArgs args{};
    args.timeoutMs = timeout;
    return CU(cuCheckpointProcessLock, pid, &args);
  }
  static abi::CUresult Save(int pid) {
    abi::CUcheckpointCheckpointArgs args{};
    return CU(cuCheckpointProcessCheckpoint, pid, &args);
  }
  static abi::CUresult Restore(int pid) {
    abi::CUcheckpointRestoreArgs args{};
    return CU(cuCheckpointProcessRestore, pid, &args);
  }
  static abi::CUresult Unlock(int pid) {
    abi::CUcheckpointUnlockArgs args{};
    return CU(cuCheckpointProcessUnlock, pid, &args);
  }
};

TEST_F(Checkpoint, LeavesTheDeviceAndComesBackWhole) {
  Probe probe("checkpointed");
  ASSERT_EQ(probe.Heard("ready"), "CUDA_SUCCESS");
  const auto held = NvmlMemoryOf(probe.pid());
  ASSERT_TRUE(held.has_value());
  EXPECT_GE(*held, kBytes);
  EXPECT_EQ(State(probe.pid()), abi::CU_PROCESS_STATE_RUNNING);
  ASSERT_OK(Lock(probe.pid()));
  EXPECT_EQ(State(probe.pid()), abi::CU_PROCESS_STATE_LOCKED);
  EXPECT_EQ(NvmlMemoryOf(probe.pid()), held);
  ASSERT_OK(Save(probe.pid()));
  EXPECT_EQ(State(probe.pid()), abi::CU_PROCESS_STATE_CHECKPOINTED);
  EXPECT_FALSE(NvmlMemoryOf(probe.pid()).has_value()) << "still in NVML's list";
  ASSERT_OK(Restore(probe.pid()));
  EXPECT_EQ(State(probe.pid()), abi::CU_PROCESS_STATE_LOCKED);
  EXPECT_EQ(NvmlMemoryOf(probe.pid()), held);
  ASSERT_OK(Unlock(probe.pid()));
  EXPECT_EQ(State(probe.pid()), abi::CU_PROCESS_STATE_RUNNING);
  probe.Tell("after");
  EXPECT_EQ(probe.Heard("after"), "whole");
  EXPECT_EQ(probe.Wait(), 0);
}

TEST_F(Checkpoint, ACallThatOnlyAsksFailsOrEndsTheProcessMeanwhileOrWaits) {
  Probe asks("checkpointed"), queries("checkpointed");
  for (Probe* probe : {&asks, &queries}) {
    ASSERT_EQ(probe->Heard("ready"), "CUDA_SUCCESS");
    ASSERT_OK(Lock(probe->pid()));
    ASSERT_OK(Save(probe->pid()));
  }
  asks.Tell("free");
  EXPECT_EQ(asks.Heard("free"), "CUDA_ERROR_OPERATING_SYSTEM");
  queries.Tell("query");
  EXPECT_EQ(queries.Heard("query"), "(ended)");
  EXPECT_EQ(queries.Wait(), 128 + SIGSEGV);
  asks.Tell("event");
  ASSERT_OK(Restore(asks.pid()));
  ASSERT_OK(Unlock(asks.pid()));
  EXPECT_EQ(asks.Heard("event"), "CUDA_SUCCESS");
  asks.Tell("after");
  EXPECT_EQ(asks.Heard("after"), "whole");
  EXPECT_EQ(asks.Wait(), 0);
}

TEST_F(Checkpoint, StepsOutOfTurnAreRefused) {
  Probe probe("checkpointed");
  ASSERT_EQ(probe.Heard("ready"), "CUDA_SUCCESS");
  for (const auto& [name, result] :
       {std::pair<const char*, abi::CUresult>{"checkpoint_unlocked", Save(probe.pid())},
        {"restore_running", Restore(probe.pid())},
        {"unlock_running", Unlock(probe.pid())}}) {
    Fact(std::string("checkpoint.") + name, result);
    EXPECT_NE(result, abi::CUDA_SUCCESS) << name;
  }
  ASSERT_OK(Lock(probe.pid()));
  const auto twice = Lock(probe.pid());
  Fact("checkpoint.lock_twice", twice);
  const auto restore = Restore(probe.pid());
  Fact("checkpoint.restore_locked", restore);
  EXPECT_NE(restore, abi::CUDA_SUCCESS);
  EXPECT_OK(Unlock(probe.pid()));
  EXPECT_EQ(State(probe.pid()), abi::CU_PROCESS_STATE_RUNNING);
  probe.Tell("after");
  EXPECT_EQ(probe.Heard("after"), "whole");
  EXPECT_EQ(probe.Wait(), 0);
}

TEST_F(Checkpoint, ALockWaitsForKernelsOrGivesUp) {
  Probe probe("checkpointed");
  ASSERT_EQ(probe.Heard("ready"), "CUDA_SUCCESS");
  probe.Tell("spin");
  ASSERT_EQ(probe.Heard("spinning"), "yes");
  const auto short_of_time = Lock(probe.pid(), 20);
  Fact("checkpoint.lock_timeout", short_of_time);
  Fact("checkpoint.state_after_timeout", static_cast<std::uint64_t>(State(probe.pid())));
  if (short_of_time == abi::CUDA_SUCCESS) {
    EXPECT_OK(Unlock(probe.pid()));
  }
  EXPECT_OK(Lock(probe.pid(), 10000));
  EXPECT_OK(Unlock(probe.pid()));
  probe.Tell("after");
  EXPECT_EQ(probe.Heard("after"), "whole");
  EXPECT_EQ(probe.Wait(), 0);
}

TEST_F(Checkpoint, ProcessesWithoutCudaHaveNoState) {
  Probe probe("no_cuda");
  ASSERT_EQ(probe.Heard("ready"), "yes");
  abi::CUprocessState state{};
  const auto none = CU(cuCheckpointProcessGetState, probe.pid(), &state);
  Fact("checkpoint.state_without_cuda", none);
  const auto nobody = CU(cuCheckpointProcessGetState, 0x3fffff, &state);
  Fact("checkpoint.state_of_nobody", nobody);
  EXPECT_NE(nobody, abi::CUDA_SUCCESS);
  const auto lock = Lock(probe.pid(), 100);
  Fact("checkpoint.lock_without_cuda", lock);
  EXPECT_NE(lock, abi::CUDA_SUCCESS);
}

TEST_F(Checkpoint, AProcessThatEndsWhileSavedLeavesNothing) {
  abi::nvmlMemory_t before{}, after{};
  ML(nvmlDeviceGetMemoryInfo, NvmlDeviceOfCuda(), &before);
  {
    Probe probe("checkpointed");
    ASSERT_EQ(probe.Heard("ready"), "CUDA_SUCCESS");
    ASSERT_OK(Lock(probe.pid()));
    ASSERT_OK(Save(probe.pid()));
  }
  ML(nvmlDeviceGetMemoryInfo, NvmlDeviceOfCuda(), &after);
  EXPECT_EQ(before.free, after.free);
}

}  // namespace
}  // namespace gpuman::conformance
