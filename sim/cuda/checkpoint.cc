#include "sim/cuda/checkpoint.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <thread>

namespace gpuman::sim::cuda {
namespace {

std::uint64_t RealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void SleepFor(std::uint64_t ns) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  left.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  while (nanosleep(&left, &left) != 0) {
  }
}

// Runs on one thread of the process, without end. That thread holds Driver::calls from lock to unlock.
class Service {
 public:
  Service(Driver& driver, ProcessSlot& slot) : driver_(driver), mailbox_(slot.checkpoint) {}

  [[noreturn]] void Run() {
    mailbox_.restore_thread.store(static_cast<std::uint32_t>(gettid()));
    FutexWakeAll(mailbox_.restore_thread);
    while (true) {
      const std::uint32_t answered = mailbox_.answered.load();
      const std::uint32_t asked = mailbox_.asked.load();
      if (asked == answered) {
        FutexWait(mailbox_.asked, asked, -1);
        continue;
      }
      mailbox_.result.store(
          static_cast<std::int32_t>(Answer(static_cast<CheckpointRequest>(mailbox_.request.load()))));
      mailbox_.answered.store(asked);
      FutexWakeAll(mailbox_.answered);
    }
  }

 private:
  bool Is(CheckpointState state) const { return mailbox_.state.load() == static_cast<std::uint32_t>(state); }
  void Become(CheckpointState state) {
    mailbox_.state.store(static_cast<std::uint32_t>(state));
    FutexWakeAll(mailbox_.state);
  }

  CUresult Answer(CheckpointRequest request) {
    switch (request) {
      case CheckpointRequest::kLock:
        return Lock();
      case CheckpointRequest::kCheckpoint:
        return Save();
      case CheckpointRequest::kRestore:
        return Restore();
      case CheckpointRequest::kUnlock:
        return Unlock();
      case CheckpointRequest::kNone:
        break;
    }
    return CUDA_ERROR_INVALID_VALUE;
  }

  CUresult Lock() {
    if (!Is(CheckpointState::kRunning)) return CUDA_ERROR_ILLEGAL_STATE;
    const std::uint64_t limit_ns = std::uint64_t{mailbox_.timeout_ms.load()} * 1'000'000;
    const std::uint64_t deadline = RealtimeNs() + limit_ns;
    if (limit_ns == 0) {
      driver_.calls.lock();
    } else if (!driver_.calls.LockUntil(deadline)) {
      return CUDA_ERROR_NOT_READY;
    }
    for (const auto& context : driver_.LiveContexts()) {
      for (const Mark& mark : context->Marks()) {
        while (!mark.Reached()) {
          if (limit_ns != 0 && RealtimeNs() > deadline) {
            driver_.calls.unlock();
            return CUDA_ERROR_NOT_READY;
          }
          SleepFor(100'000);
        }
      }
    }
    Become(CheckpointState::kLocked);
    return CUDA_SUCCESS;
  }

  template <typename Do>
  void ForDevices(Do act) {
    for (int ordinal = 0; Device* device = driver_.FindDevice(ordinal); ++ordinal) act(*device);
  }

  bool Any(bool (Device::*holds)() const) {
    bool any = false;
    ForDevices([&](Device& device) { any = any || (device.*holds)(); });
    return any;
  }

  void TakeTime(std::uint64_t speed) {
    std::uint64_t bytes = 0;
    ForDevices([&](Device& device) { bytes += device.held(); });
    if (speed != 0)
      SleepFor(static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(speed)));
  }

  // The bytes stay where they are, in host memory; the process returns its device memory.
  CUresult Save() {
    if (!Is(CheckpointState::kLocked)) return CUDA_ERROR_ILLEGAL_STATE;
    bool is_mig = false;
    ForDevices([&](Device& device) { is_mig = is_mig || device.IsMig(); });
    if (driver_.UsesManaged() || driver_.uses_ipc || is_mig) return CUDA_ERROR_NOT_SUPPORTED;
    TakeTime(driver_.state()->checkpoint_speed.load());
    ForDevices([](Device& device) { device.Suspend(); });
    Become(CheckpointState::kCheckpointed);
    return CUDA_SUCCESS;
  }

  unsigned TargetOf(const Device& device) const {
    return mailbox_.pairs.load() != 0 ? mailbox_.gpu_map[device.gpu()].load() : device.gpu();
  }

  CUresult Restore() {
    if (!Is(CheckpointState::kCheckpointed)) return CUDA_ERROR_ILLEGAL_STATE;
    // Measured: a process with memory of another process can be saved but not restored. Exported memory comes
    // back, even while another process has it.
    if (Any(&Device::HoldsImported)) return CUDA_ERROR_NOT_SUPPORTED;
    std::vector<Device*> ready;
    bool room = true;
    ForDevices([&](Device& device) {
      if (!room) return;
      room = device.MakeRoom(TargetOf(device));
      if (room) ready.push_back(&device);
    });
    if (!room) {
      for (Device* device : ready) device->GiveUp(TargetOf(*device));
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    TakeTime(driver_.state()->restore_speed.load());
    ForDevices([&](Device& device) { device.Resume(TargetOf(device)); });
    Become(CheckpointState::kLocked);
    return CUDA_SUCCESS;
  }

  CUresult Unlock() {
    if (!Is(CheckpointState::kLocked)) return CUDA_ERROR_ILLEGAL_STATE;
    Become(CheckpointState::kRunning);
    driver_.calls.unlock();
    return CUDA_SUCCESS;
  }

  Driver& driver_;
  Checkpoint& mailbox_;
};

}  // namespace

void StartCheckpointService(Driver& driver) {
  ProcessSlot* const slot = driver.client().Slot();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread must not take the program's signals
  std::thread([&driver, slot] { Service(driver, *slot).Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // From here on, other processes can checkpoint this process.
  while (slot->checkpoint.restore_thread.load() == 0) FutexWait(slot->checkpoint.restore_thread, 0, -1);
}

}  // namespace gpuman::sim::cuda
