// The checkpoint of another process, requested through that process's mailbox in the state.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "sim/cuda/api.h"
#include "sim/state/identity.h"

namespace gpuman::sim::cuda {
namespace {

// Finds the slot of a process that has initialised CUDA. NOT_INITIALIZED for a process without CUDA;
// OPERATING_SYSTEM where no process runs (it never did, has ended, is a zombie).
CUresult FindTarget(int pid, ProcessSlot*& slot) {
  Driver& driver = Driver::Get();
  if (!driver.initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  slot = pid > 0 ? driver.client().SlotOf(static_cast<std::uint32_t>(pid)) : nullptr;
  if (slot == nullptr || slot->checkpoint.restore_thread.load() == 0) {
    // In this order: a process that ends in between counts as ended, not as a process without CUDA.
    const bool runs = pid > 0 && ReadStartTicks(static_cast<std::uint32_t>(pid)).has_value();
    return runs ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_OPERATING_SYSTEM;
  }
  return slot->euid.load() == geteuid() || geteuid() == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
}

// One caller at a time holds the mailbox; the next replaces a caller that died.
class Turn {
 public:
  explicit Turn(Word64& caller) : caller_(caller) {
    const Sight sight(Driver::Get().state().shared().machine_space);
    const std::uint64_t own = OwnIdentity();
    while (true) {
      std::uint64_t other = 0;
      if (caller_.compare_exchange_strong(other, own)) return;
      if (!sight.Find(other) && caller_.compare_exchange_strong(other, own)) return;
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
  }
  ~Turn() { caller_.store(0); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Word64& caller_;
};

struct Arguments {
  std::uint32_t timeout_ms = 0;
  std::optional<std::array<std::uint32_t, kMaxGpus>> gpu_map{};
};

// The process that is asked. It lives as long as it owns its slot.
struct Target {
  std::uint32_t pid;
  ProcessSlot& slot;
  std::uint64_t owner;
  bool Lives() const { return slot.owner.load() == owner && Driver::Get().client().SlotOf(pid) == &slot; }
};

// Waits until the process has answered request `number`. Returns false where the process died.
bool AwaitAnswer(const Target& target, std::uint32_t number) {
  Checkpoint& mailbox = target.slot.checkpoint;
  while (true) {
    const std::uint32_t answered = mailbox.answered.load();
    if (static_cast<std::int32_t>(answered - number) >= 0) return true;
    FutexWait(mailbox.answered, answered, 100);
    if (!target.Lives()) return false;
  }
}

CUresult Ask(int pid, CheckpointRequest request, const Arguments& arguments) {
  ProcessSlot* slot = nullptr;
  const CUresult found = FindTarget(pid, slot);
  if (found != CUDA_SUCCESS) return found;
  Checkpoint& mailbox = slot->checkpoint;
  const Target target{static_cast<std::uint32_t>(pid), *slot, slot->owner.load()};
  const Turn turn(mailbox.caller);
  if (!target.Lives()) return CUDA_ERROR_OPERATING_SYSTEM;  // its slot may have a new owner
  // The process may still carry out the request of a caller that died, and reads the arguments meanwhile.
  if (!AwaitAnswer(target, mailbox.asked.load())) return CUDA_ERROR_OPERATING_SYSTEM;
  mailbox.timeout_ms.store(arguments.timeout_ms);
  mailbox.pairs.store(arguments.gpu_map ? 1 : 0);
  for (unsigned gpu = 0; arguments.gpu_map && gpu < kMaxGpus; ++gpu) {
    mailbox.gpu_map[gpu].store((*arguments.gpu_map)[gpu]);
  }
  mailbox.request.store(static_cast<std::uint32_t>(request));
  const std::uint32_t number = mailbox.asked.fetch_add(1) + 1;
  FutexWakeAll(mailbox.asked);
  if (!AwaitAnswer(target, number)) return CUDA_ERROR_OPERATING_SYSTEM;
  return static_cast<CUresult>(mailbox.result.load());
}

// Fills in the new GPU of every GPU of the machine, each once.
CUresult MapGpus(const CUcheckpointRestoreArgs& args, std::array<std::uint32_t, kMaxGpus>& map) {
  const Shared& shared = Driver::Get().state().shared();
  if (args.gpuPairs == nullptr || args.gpuPairsCount != shared.gpus) return CUDA_ERROR_INVALID_VALUE;
  const auto find = [&](const CUuuid& uuid) {
    for (unsigned gpu = 0; gpu < shared.gpus; ++gpu) {
      const CUuuid known = ParseUuid(shared.gpu_static[gpu].uuid);
      if (std::memcmp(&known, &uuid, sizeof uuid) == 0) return gpu;
    }
    return kMaxGpus;
  };
  std::uint32_t from = 0, to = 0;
  for (unsigned i = 0; i < args.gpuPairsCount; ++i) {
    const unsigned before = find(args.gpuPairs[i].oldUuid), after = find(args.gpuPairs[i].newUuid);
    if (before == kMaxGpus || after == kMaxGpus) return CUDA_ERROR_INVALID_VALUE;
    if (std::strcmp(shared.gpu_static[before].name, shared.gpu_static[after].name) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    from |= 1u << before;
    to |= 1u << after;
    map[before] = after;
  }
  const std::uint32_t all = (1u << shared.gpus) - 1;
  return from == all && to == all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* args) {
  return Ask(pid, CheckpointRequest::kLock, {.timeout_ms = args != nullptr ? args->timeoutMs : 0});
}
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs*) {
  return Ask(pid, CheckpointRequest::kCheckpoint, {});
}
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* args) {
  if (!Driver::Get().initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  Arguments arguments;
  if (args != nullptr && (args->gpuPairs != nullptr || args->gpuPairsCount != 0)) {
    const CUresult mapped = MapGpus(*args, arguments.gpu_map.emplace());
    if (mapped != CUDA_SUCCESS) return mapped;
  }
  return Ask(pid, CheckpointRequest::kRestore, arguments);
}
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  return Ask(pid, CheckpointRequest::kUnlock, {});
}

// Measured: while the process is being checkpointed or restored the answer waits for the end of that, also
// where the caller died.
CUresult cuCheckpointProcessGetState(int pid, CUprocessState* state) {
  ProcessSlot* slot = nullptr;
  const CUresult found = FindTarget(pid, slot);
  if (found != CUDA_SUCCESS) return found;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Target target{static_cast<std::uint32_t>(pid), *slot, slot->owner.load()};
  const std::uint32_t asked = slot->checkpoint.asked.load();
  const auto request = static_cast<CheckpointRequest>(slot->checkpoint.request.load());
  const bool waits = request == CheckpointRequest::kCheckpoint || request == CheckpointRequest::kRestore;
  if (waits && !AwaitAnswer(target, asked)) return CUDA_ERROR_OPERATING_SYSTEM;
  *state = static_cast<CUprocessState>(slot->checkpoint.state.load());
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int* tid) {
  ProcessSlot* slot = nullptr;
  const CUresult found = FindTarget(pid, slot);
  if (found != CUDA_SUCCESS) return found;
  if (tid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *tid = static_cast<int>(slot->checkpoint.restore_thread.load());
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
