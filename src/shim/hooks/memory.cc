// Plain, pitched and managed memory.
#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/accounting/trace_memory.h"
#include "shim/backing/backing.h"
#include "shim/backing/paging.h"
#include "shim/backing/stream_memory.h"
#include "shim/gate/activity.h"
#include "shim/gate/streams.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kPitch = 512;  // measured; what the driver really took is counted afterwards

// Forgets an entry whose memory has ended unseen (a call from before CUDA 4 ended its context): the driver
// has given out its address again.
void ForgetStale(ProcessState& state, std::uint64_t address) {
  Allocation stale{};
  if (state.allocations.Take(address, stale))
    GiveBack(state, stale.device, MemoryKind::kAllocation, state.allocations.Freed(stale));
}

bool Enter(ProcessState& state, const Allocation& allocation, std::uint64_t& cost) {
  const Locked lock(state.books);
  ForgetStale(state, allocation.address);
  return state.allocations.Add(allocation, cost);
}

// Takes back an allocation that costs more than the limit holds.
void Undo(ProcessState& state, std::uint64_t address) {
  Allocation allocation{};
  {
    const Locked lock(state.books);
    if (state.allocations.Take(address, allocation)) state.allocations.Freed(allocation);
  }
  CUresult ignored{};
  if (FreeBacked(state, address, ignored)) return;
  if (auto* const free = GPUMAN_REAL(cuMemFree_v2)) free(address);
}

// Allocates for cuMemAlloc: backed memory, managed memory, or plain memory of the driver. While a stream is
// being captured, a small allocation goes to the driver: the driver may refuse it, and its free must not
// wait. `managed`: the driver pages the memory.
template <typename Plain>
CUresult BackedOr(ProcessState* state, const AllocationTarget& where, CUdeviceptr* pointer,
                  std::uint64_t bytes, bool& managed, Plain plain) {
  managed = false;
  if (state == nullptr || bytes == 0) return plain();
  const bool capturing = __atomic_load_n(&state->captures, __ATOMIC_SEQ_CST) != 0;
  if (IsBackedOn(*state, where.device)) {
    if (bytes < kMinBacked && capturing) return plain();
    StartServiceThread(*state);
    return AllocateBacked(*state, where, pointer, bytes);
  }
  managed = bytes >= kMinBacked && IsManaged(*state, where.device);
  return managed ? AllocateManaged(*state, where, pointer, bytes) : plain();
}

struct Taken {
  std::uint64_t size;
  bool managed;
};

// `allocate` is the driver's call, or the call that stands for it. `reserved` is the most that it takes;
// `made` tells afterwards what it took. `full`: the device had no room, or the job has no room there for now.
template <typename Allocate, typename Tell>
CUresult TryWithin(ProcessState& state, const AllocationTarget& where, CUdeviceptr* pointer,
                   std::uint64_t reserved, Allocate allocate, Tell made, bool& full) {
  if (!Reserve(state, where.device, reserved)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr before = *pointer;
  full = !IsWithinRoom(state, where.device);
  const CUresult result = full ? CUDA_ERROR_OUT_OF_MEMORY : allocate(&state, where);
  if (result != CUDA_SUCCESS) {
    Withdraw(state, where.device, reserved);
    full = result == CUDA_ERROR_OUT_OF_MEMORY;
    return result;
  }
  std::uint64_t cost = 0;
  const auto [size, managed] = made();
  if (Enter(state, {*pointer, size, where.context, where.granule, where.device, managed}, cost) &&
      Commit(state, where.device, MemoryKind::kAllocation, reserved, cost)) {
    if (managed) TellManaged(state);
    return CUDA_SUCCESS;
  }
  Undo(state, *pointer);
  Withdraw(state, where.device, reserved);
  *pointer = before;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Allocate, typename Tell>
CUresult AllocateWithin(CUdeviceptr* pointer, std::uint64_t asked, Allocate allocate, Tell made) {
  const HookErrnoScope scope;
  AllocationTarget where{};
  if (!scope || pointer == nullptr || asked == 0 || !CurrentWhere(*scope, where))
    return allocate(nullptr, where);
  const std::uint64_t reserved = RoundUp(asked, where.granule);
  (void)IsBackedOn(*scope, where.device);  // the daemon has to know of this home before the program waits
  const CUresult got = WithRoom(*scope, where.device, reserved, [&](bool& full) {
    const CUresult result = TryWithin(*scope, where, pointer, reserved, allocate, made, full);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !TrimForOthers(*scope, where.device)) return result;
    full = false;
    return TryWithin(*scope, where, pointer, reserved, allocate, made, full);
  });
  if (got == CUDA_SUCCESS) NoteAllocated(*scope, where.device, *pointer, asked);
  return got;
}

std::uint64_t PitchedBytes(std::uint64_t pitch, std::uint64_t height) {
  std::uint64_t bytes = 0;
  return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

// Frees for cuMemFree and cuMemFreeAsync. The shim takes the entry out before it asks the driver: when the
// driver has freed the address, another thread may get it at once.
template <typename Free>
CUresult FreeAt(CUdeviceptr pointer, Free free) {
  const HookErrnoScope scope;
  if (!scope || pointer == 0) return free();
  NoteFreed(*scope, pointer);
  Allocation allocation{};
  bool known = false;
  {
    const Locked lock((*scope).books);
    known = (*scope).allocations.Take(pointer, allocation);
  }
  CUresult result{};
  if (!FreeBacked(*scope, pointer, result)) result = free();
  if (!known) {
    // The memory is a pool's, or the pointer is no allocation.
    if (result == CUDA_SUCCESS && __atomic_load_n(&(*scope).pools_used, __ATOMIC_ACQUIRE)) {
      const Locked lock((*scope).pools);
      RefreshPools(*scope);
    }
    return result;
  }
  std::uint64_t bytes = 0;
  {
    const Locked lock((*scope).books);
    if (result == CUDA_SUCCESS)
      bytes = (*scope).allocations.Freed(allocation);
    else
      (*scope).allocations.PutBack(allocation);
  }
  if (allocation.managed) TellManaged(*scope);
  GiveBack(*scope, allocation.device, MemoryKind::kAllocation, bytes);
  return result;
}

// Frees in the order of `queried`, the stream as functions without the per-thread default stream name it.
template <typename Free>
CUresult FreeIn(CUstream queried, CUdeviceptr pointer, Free free) {
  if (const HookErrnoScope scope; scope && pointer != 0) {
    NoteFreed(*scope, pointer);
    CUresult result{};
    switch (FreeInOrder(*scope, pointer, queried, result)) {
      case AsyncFreeResult::kDone:
        return result;
      case AsyncFreeResult::kDriver:
        return free();
      case AsyncFreeResult::kNotOfPools:
        break;
    }
  }
  return FreeAt(pointer, free);
}

}  // namespace

namespace hook {

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  auto* const real = GPUMAN_REAL(cuMemAlloc_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  bool managed = false;
  return AllocateWithin(
      pointer, bytes,
      [&](ProcessState* state, const AllocationTarget& where) {
        return BackedOr(state, where, pointer, bytes, managed, [&] { return real(pointer, bytes); });
      },
      [&] {
        return Taken{bytes, managed};
      });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width_in_bytes, size_t height,
                            unsigned int element_size_bytes) {
  auto* const real = GPUMAN_REAL(cuMemAllocPitch_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  bool managed = false;
  return AllocateWithin(
      pointer, pitch == nullptr ? 0 : PitchedBytes(RoundUp(width_in_bytes, kPitch), height),
      [&](ProcessState* state, const AllocationTarget& where) {
        const auto plain = [&] { return real(pointer, pitch, width_in_bytes, height, element_size_bytes); };
        const bool good = width_in_bytes != 0 && height != 0 &&
                          (element_size_bytes == 4 || element_size_bytes == 8 || element_size_bytes == 16);
        if (!good) return plain();
        const std::uint64_t row = RoundUp(width_in_bytes, kPitch);
        const CUresult result = BackedOr(state, where, pointer, PitchedBytes(row, height), managed, plain);
        // The driver has not set the pitch: it becomes the pitch that the driver would set.
        FoundAllocation found{};
        if (result == CUDA_SUCCESS && state != nullptr && (managed || FindBacked(*state, *pointer, found)))
          *pitch = row;
        return result;
      },
      [&] {
        return Taken{PitchedBytes(*pitch, height), managed};
      });
}

// All managed memory counts, since all of it may come to the device, as the device touches it.
CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned int flags) {
  auto* const real = GPUMAN_REAL(cuMemAllocManaged);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateWithin(
      pointer, bytes, [&](ProcessState*, const AllocationTarget&) { return real(pointer, bytes, flags); },
      [&] {
        return Taken{bytes, true};
      });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  auto* const real = GPUMAN_REAL(cuMemFree_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return FreeAt(pointer, [&] { return real(pointer); });
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  auto* const real = GPUMAN_REAL(cuMemFreeAsync);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return FreeIn(stream, pointer, [&] { return real(pointer, stream); });
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuMemFreeAsync, _ptsz);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return FreeIn(PerThread(stream), pointer, [&] { return real(pointer, stream); });
}

}  // namespace hook

}  // namespace gpuman::shim
