#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "sim/state/lifecycle.h"
#include "sim/state/limits.h"
#include "sim/state/liveness.h"
#include "sim/state/memory.h"
#include "sim/state/sharing.h"
#include "sim/state/state.h"

namespace gpuman::sim {
namespace {

// Sixteen random bytes that the kernel gives each program image; a fork keeps them, an execve changes them.
std::uint64_t ImageId() {
  std::uint64_t id = 1;
  if (const auto* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM)))
    std::memcpy(&id, bytes, sizeof id);
  return id;
}

void ReadOwnName(char (&name)[64]) {
  std::memset(name, 0, sizeof name);
  if (std::FILE* file = std::fopen("/proc/self/comm", "re")) {
    if (std::fgets(name, sizeof name, file) != nullptr) name[std::strcspn(name, "\n")] = '\0';
    std::fclose(file);
  }
}

void ClearSlot(ProcessSlot& slot) {
  slot.checkpoint.state.store(0);
  slot.checkpoint.caller.store(0);
  slot.checkpoint.request.store(0);
  slot.checkpoint.answered.store(slot.checkpoint.asked.load());
  slot.checkpoint.restore_thread.store(0);
  for (ProcessGpu& gpu : slot.gpu) {
    gpu.contexts.store(0);
    gpu.graphics.store(0);
    gpu.busy_since_ns.store(0);
    gpu.last_activity_ns.store(0);
    gpu.context_created_us.store(0);
    gpu.managed.store(0);
    gpu.compute_instance.store(0);
    for (Word64& bucket : gpu.busy) bucket.store(0);
  }
}

void RaiseLimit(Word32& limit, std::uint32_t to) {
  std::uint32_t now = limit.load();
  while (now < to && !limit.compare_exchange_weak(now, to)) {
  }
}

// Adds a span of time to the buckets that it touches; only the slot's own process calls it, one thread at a
// time.
void AddBusy(ProcessGpu& gpu, std::uint64_t from_ns, std::uint64_t to_ns) {
  constexpr std::uint64_t kKept = kBusyBuckets * kBusyBucketNs;
  if (to_ns - from_ns > kKept) from_ns = to_ns - kKept;
  while (from_ns < to_ns) {
    const std::uint64_t bucket = from_ns / kBusyBucketNs;
    const std::uint64_t end = std::min(to_ns, (bucket + 1) * kBusyBucketNs);
    Word64& word = gpu.busy[bucket % kBusyBuckets];
    const std::uint64_t now = word.load();
    const std::uint64_t before = now >> 32 == (bucket & 0xffffffff) ? now & 0xffffffff : 0;
    word.store((bucket & 0xffffffff) << 32 | (before + (end - from_ns) / 1000));
    from_ns = end;
  }
}

}  // namespace

// The part of one process; a forked child makes its own and does not touch the parent's (whose locks may be
// held).
struct Client::Local {
  explicit Local(const Shared& shared) : liveness(shared.machine_space) {}

  pid_t pid = getpid();
  std::mutex mutex;  // guards everything below
  ProcessSlot* slot = nullptr;
  unsigned index = 0;
  bool accounts = false;
  std::uint64_t identity = 0;
  std::array<std::uint32_t, kMaxDevices> kernels{};
  Liveness liveness;
  std::vector<std::uint64_t> watched;  // by slot: the owner at the last sweep
  unsigned sweeps = 0;

  ProcessSlot* Claim(Shared& shared);
  void Sweep(Shared& shared, bool thoroughly = false);
  std::uint32_t PidOf(std::uint64_t owner) const;
  void FindOwn(Shared& shared, std::uint64_t image);
  bool TakeFree(Shared& shared, std::uint64_t image);
};

Client::Client(const State& state) : state_(state) {}

Client::~Client() {
  Release();
  if (Local* local = local_.load(); local != nullptr && local->pid == getpid()) delete local;
}

Client::Local& Client::Current() {
  Local* local = local_.load();
  const pid_t pid = getpid();
  while (local == nullptr || local->pid != pid) {
    auto* fresh = new Local(state_.shared());
    if (local_.compare_exchange_strong(local, fresh)) return *fresh;
    delete fresh;
  }
  return *local;
}

// Looks at each slot that was ever used and makes one system call; `thoroughly` also checks each process.
void Client::Local::Sweep(Shared& shared, bool thoroughly) {
  const std::uint32_t limit = shared.slot_limit.load();
  watched.resize(limit);
  std::vector<std::uint64_t> dead;
  for (unsigned i = 0; i < limit; ++i) {
    const std::uint64_t owner = shared.processes[i].owner.load();
    if (owner == watched[i]) continue;
    liveness.Forget(watched[i]);
    watched[i] = owner;
    if (owner != 0 && owner != identity && !liveness.Watch(owner)) dead.push_back(owner);
  }
  constexpr unsigned kThoroughEvery = 1024;
  const bool look = thoroughly || ++sweeps % kThoroughEvery == 0;
  const std::vector<std::uint64_t> ended = look ? liveness.EndedByProc() : liveness.Ended();
  dead.insert(dead.end(), ended.begin(), ended.end());
  for (unsigned i = 0; !dead.empty() && i < limit; ++i) {
    if (watched[i] == 0 || std::find(dead.begin(), dead.end(), watched[i]) == dead.end()) continue;
    std::uint64_t owner = std::exchange(watched[i], 0);
    GiveBackAll(shared, i, owner);
    shared.processes[i].owner.compare_exchange_strong(owner, 0);
  }
}

std::uint32_t Client::Local::PidOf(std::uint64_t owner) const {
  return owner == identity ? static_cast<std::uint32_t>(pid) : liveness.PidOf(owner);
}

// Finds the slot of this process. Another library of the process may have claimed one: shares the lowest.
// Clears and takes over the slot of an earlier program image (execve).
void Client::Local::FindOwn(Shared& shared, std::uint64_t image) {
  const std::uint32_t limit = shared.slot_limit.load();
  const unsigned end = slot == nullptr ? limit : index;
  for (unsigned i = 0; i < end; ++i) {
    ProcessSlot& candidate = shared.processes[i];
    if (candidate.owner.load() != identity) continue;
    while (candidate.published.load() != identity) sched_yield();  // a thread of this process fills it
    if (candidate.image.exchange(image) != image) {
      GiveBackAll(shared, i, identity);
      ClearSlot(candidate);
      ReadOwnName(candidate.name);
      NoteGroups(candidate);
      candidate.users.store(0);
    }
    candidate.users.fetch_add(1);
    if (slot != nullptr) slot->owner.store(0);
    slot = &candidate;
    index = i;
    return;
  }
}

bool Client::Local::TakeFree(Shared& shared, std::uint64_t image) {
  for (unsigned i = 0; i < kMaxProcesses; ++i) {
    ProcessSlot& candidate = shared.processes[i];
    std::uint64_t expected = 0;
    if (candidate.owner.load() != 0) continue;
    RaiseLimit(shared.slot_limit, i + 1);
    if (!candidate.owner.compare_exchange_strong(expected, identity)) continue;
    ClearSlot(candidate);
    ReadOwnName(candidate.name);
    NoteGroups(candidate);
    candidate.image.store(image);
    candidate.users.store(1);
    candidate.euid.store(geteuid());
    candidate.published.store(identity);
    slot = &candidate;
    index = i;
    return true;
  }
  return false;
}

ProcessSlot* Client::Local::Claim(Shared& shared) {
  if (slot != nullptr) return slot;
  if (identity == 0) identity = OwnIdentity();
  if (identity == 0) return nullptr;
  const std::uint64_t image = ImageId();
  const std::uint32_t loads = shared.driver_loads.load();
  Sweep(shared);
  LoadDriverIfUnused(shared, loads);
  FindOwn(shared, image);
  if (slot == nullptr && TakeFree(shared, image)) FindOwn(shared, image);
  return slot;
}

ProcessSlot* Client::Slot() {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  return local.Claim(state_.shared());
}

ProcessSlot* Client::SlotOf(std::uint32_t pid) {
  SweepDead();
  Shared& shared = state_.shared();
  const std::uint32_t limit = shared.slot_limit.load();
  for (unsigned i = 0; i < limit; ++i) {
    ProcessSlot& slot = shared.processes[i];
    const std::uint64_t owner = slot.owner.load();
    if (owner != 0 && slot.published.load() == owner && PidOf(slot) == pid) return &slot;
  }
  return nullptr;
}

std::uint32_t Client::PidOf(const ProcessSlot& slot) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  return local.PidOf(slot.owner.load());
}

// Where the GPU has limits for cgroups, the reservation is looked at again once it is made: of two processes
// that take the last bytes of a limit at once, each sees the other's. Then both may be refused.
bool Client::ReserveDeviceBytes(unsigned gpu, std::uint64_t bytes) {
  Shared& shared = state_.shared();
  if (!HasGroupLimits(shared, gpu)) return ReserveAnyDeviceBytes(gpu, bytes);
  {
    Local& local = Current();
    const std::lock_guard lock(local.mutex);
    if (local.Claim(shared) == nullptr) return false;
    local.Sweep(shared);
    NoteGroups(*local.slot);
    if (PassesGroupLimit(shared, *local.slot, gpu, bytes)) return false;
  }
  if (!ReserveAnyDeviceBytes(gpu, bytes)) return false;
  Local& local = Current();
  if (!PassesGroupLimit(shared, *local.slot, gpu, 0)) return true;
  ReturnDeviceBytes(gpu, bytes);
  return false;
}

bool Client::ReserveAnyDeviceBytes(unsigned gpu, std::uint64_t bytes) {
  Shared& shared = state_.shared();
  const std::uint64_t capacity = DeviceCapacity(shared, gpu) / kAccountingUnit + CountedAgain(shared, gpu);
  const std::uint64_t units = UnitsForBytes(bytes);
  if (units > capacity) return false;
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.Claim(shared) == nullptr || FaultStrikes(shared.faults.allocation_fails_in[gpu])) return false;
  local.accounts = true;
  local.slot->gpu[gpu].last_activity_ns.store(MonotonicNs());
  if (units == 0 || ChangeHeld(shared, gpu, local.index, static_cast<std::int64_t>(units), capacity))
    return true;
  local.Sweep(shared, true);
  return ChangeHeld(shared, gpu, local.index, static_cast<std::int64_t>(units), capacity);
}

void Client::ReturnDeviceBytes(unsigned gpu, std::uint64_t bytes) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.slot == nullptr || bytes == 0) return;
  ChangeHeld(state_.shared(), gpu, local.index, -static_cast<std::int64_t>(UnitsForBytes(bytes)), 0);
}

void Client::SharingBegan(unsigned gpu, std::uint64_t inode, std::uint64_t bytes) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.Claim(state_.shared()) != nullptr) BeginSharing(state_.shared(), local.index, gpu, inode, bytes);
}

void Client::SharingEnded(std::uint64_t inode) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.slot != nullptr) EndSharing(state_.shared(), local.index, inode);
}

void Client::ManagedMoved(unsigned gpu, std::int64_t bytes) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.Claim(state_.shared()) != nullptr) local.slot->gpu[gpu].managed.fetch_add(bytes);
}

void Client::ContextCreated(unsigned gpu) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.Claim(state_.shared()) == nullptr) return;
  local.accounts = true;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  ProcessGpu& entry = local.slot->gpu[gpu];
  if (entry.contexts.fetch_add(1) == 0) {
    entry.context_created_us.store(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
                                   static_cast<std::uint64_t>(now.tv_nsec) / 1000);
  }
}

void Client::ContextDestroyed(unsigned gpu) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.slot != nullptr && local.slot->gpu[gpu].contexts.load() != 0)
    local.slot->gpu[gpu].contexts.fetch_sub(1);
}

void Client::KernelBegan(unsigned gpu) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.Claim(state_.shared()) == nullptr) return;
  if (local.kernels[gpu]++ == 0) local.slot->gpu[gpu].busy_since_ns.store(MonotonicNs());
}

void Client::KernelEnded(unsigned gpu) {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.slot == nullptr || local.kernels[gpu] == 0 || --local.kernels[gpu] != 0) return;
  ProcessGpu& entry = local.slot->gpu[gpu];
  const std::uint64_t now = MonotonicNs();
  const std::uint64_t since = entry.busy_since_ns.exchange(0);
  AddBusy(entry, since, now);
  if (gpu < kMaxGpus) state_.shared().gpu[gpu].worked_ns.fetch_add(now - since);
  entry.last_activity_ns.store(now);
}

void Client::SweepDead() {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  local.Sweep(state_.shared());
}

std::vector<ProcessSlot*> Client::LiveSlots() {
  SweepDead();
  Shared& shared = state_.shared();
  std::vector<ProcessSlot*> slots;
  const std::uint32_t limit = shared.slot_limit.load();
  for (unsigned i = 0; i < limit; ++i) {
    ProcessSlot& slot = shared.processes[i];
    const std::uint64_t owner = slot.owner.load();
    if (owner != 0 && slot.published.load() == owner) slots.push_back(&slot);
  }
  return slots;
}

void Client::Release() {
  Local& local = Current();
  const std::lock_guard lock(local.mutex);
  if (local.slot == nullptr) return;
  Shared& shared = state_.shared();
  if (local.accounts) {
    GiveBackAll(shared, local.index, local.identity);
    ClearSlot(*local.slot);
  }
  if (local.slot->users.fetch_sub(1) == 1) {
    GiveBackAll(shared, local.index, local.identity);
    local.slot->owner.store(0);
  }
  local.slot = nullptr;
  local.accounts = false;
  local.kernels = {};
}

}  // namespace gpuman::sim
