// Plain, pitched and managed memory.
#include "shim/backing.h"
#include "shim/hooks.h"
#include "shim/meter.h"
#include "shim/paging.h"
#include "shim/pools.h"
#include "shim/stream_memory.h"
#include "shim/streams.h"

namespace gpuman::shim {
namespace {

constexpr std::uint64_t kPitch = 512;  // measured; what the driver really took is counted afterwards

// An address whose memory went away unseen (with a context that was ended by a call of before CUDA 4) comes
// back.
void ForgetStale(Guest& guest, std::uint64_t address) {
  Allocation stale{};
  if (guest.allocations.Take(address, stale)) GiveBack(guest, stale.device, guest.allocations.Freed(stale));
}

bool Enter(Guest& guest, const Allocation& allocation, std::uint64_t& cost) {
  const Locked lock(guest.books);
  ForgetStale(guest, allocation.address);
  return guest.allocations.Add(allocation, cost);
}

// Takes an allocation back that costs more than may be had.
void Undo(Guest& guest, std::uint64_t address) {
  Allocation allocation{};
  {
    const Locked lock(guest.books);
    if (guest.allocations.Take(address, allocation)) guest.allocations.Freed(allocation);
  }
  CUresult ignored{};
  if (FreeBacked(guest, address, ignored)) return;
  if (auto* const free = GPUMAN_REAL(cuMemFree_v2)) free(address);
}

// What cuMemAlloc allocates by: so that it can leave the device, or as the driver does. So what is small
// while a stream is captured: that may be refused, and its free must not wait. `managed`: the driver pages
// it.
template <typename Plain>
CUresult BackedOr(Guest* guest, const Where& where, CUdeviceptr* pointer, std::uint64_t bytes, bool& managed,
                  Plain plain) {
  managed = false;
  if (guest == nullptr || bytes == 0) return plain();
  const bool capturing = __atomic_load_n(&guest->captures, __ATOMIC_SEQ_CST) != 0;
  if (IsBackedOn(*guest, where.device))
    return bytes >= kLeastBacked || !capturing ? AllocateBacked(*guest, where, pointer, bytes) : plain();
  managed = bytes >= kLeastBacked && IsManaged(*guest, where.device);
  return managed ? AllocateManaged(*guest, where, pointer, bytes) : plain();
}

struct Taken {
  std::uint64_t size;
  bool managed;
};

// `allocate` is the driver's call, or what stands for it where the guest is not null; `asked` bounds what it
// takes, `made` tells afterwards what it was.
// `full`: the device had no room for it, or the job has none there for now.
template <typename Allocate, typename Tell>
CUresult TryWithin(Guest& guest, const Where& where, CUdeviceptr* pointer, std::uint64_t reserved,
                   Allocate allocate, Tell made, bool& full) {
  if (!Reserve(guest, where.device, reserved)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr before = *pointer;
  full = !IsWithinRoom(guest, where.device);
  const CUresult result = full ? CUDA_ERROR_OUT_OF_MEMORY : allocate(&guest, where);
  if (result != CUDA_SUCCESS) {
    GiveBack(guest, where.device, reserved);
    full = result == CUDA_ERROR_OUT_OF_MEMORY;
    return result;
  }
  std::uint64_t cost = 0;
  const auto [size, managed] = made();
  if (Enter(guest, {*pointer, size, where.context, where.granule, where.device, managed}, cost) &&
      Settle(guest, where.device, reserved, cost)) {
    if (managed) TellManaged(guest);
    return CUDA_SUCCESS;
  }
  Undo(guest, *pointer);
  GiveBack(guest, where.device, reserved);
  *pointer = before;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Allocate, typename Tell>
CUresult AllocateWithin(CUdeviceptr* pointer, std::uint64_t asked, Allocate allocate, Tell made) {
  const Visit visit;
  Where where{};
  if (!visit || pointer == nullptr || asked == 0 || !CurrentWhere(*visit, where))
    return allocate(nullptr, where);
  const std::uint64_t reserved = RoundUp(asked, where.granule);
  return WithRoom(*visit, where.device, reserved, [&](bool& full) {
    const CUresult result = TryWithin(*visit, where, pointer, reserved, allocate, made, full);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !TrimForOthers(*visit, where.device)) return result;
    full = false;
    return TryWithin(*visit, where, pointer, reserved, allocate, made, full);
  });
}

std::uint64_t PitchedBytes(std::uint64_t pitch, std::uint64_t height) {
  std::uint64_t bytes = 0;
  return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

// The two ways to free. The driver is asked after the entry was taken out: when it has freed the address,
// another thread may get it at once.
template <typename Free>
CUresult FreeAt(CUdeviceptr pointer, Free free) {
  const Visit visit;
  if (!visit || pointer == 0) return free();
  Allocation allocation{};
  bool known = false;
  {
    const Locked lock((*visit).books);
    known = (*visit).allocations.Take(pointer, allocation);
  }
  CUresult result{};
  if (!FreeBacked(*visit, pointer, result)) result = free();
  if (!known) {
    // Of a pool, or nobody's.
    if (result == CUDA_SUCCESS && __atomic_load_n(&(*visit).pools_used, __ATOMIC_ACQUIRE)) {
      const Locked lock((*visit).pools);
      RefreshPools(*visit);
    }
    return result;
  }
  std::uint64_t bytes = 0;
  {
    const Locked lock((*visit).books);
    if (result == CUDA_SUCCESS)
      bytes = (*visit).allocations.Freed(allocation);
    else
      (*visit).allocations.PutBack(allocation);
  }
  if (allocation.managed) TellManaged(*visit);
  GiveBack(*visit, allocation.device, bytes);
  return result;
}

// In the order of a stream, as calls without the per-thread default stream name it.
template <typename Free>
CUresult FreeIn(CUstream queried, CUdeviceptr pointer, Free free) {
  if (const Visit visit; visit && pointer != 0) {
    CUresult result{};
    switch (FreeInOrder(*visit, pointer, queried, result)) {
      case FreedInOrder::kDone:
        return result;
      case FreedInOrder::kDriver:
        return free();
      case FreedInOrder::kNotOfPools:
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
      [&](Guest* guest, const Where& where) {
        return BackedOr(guest, where, pointer, bytes, managed, [&] { return real(pointer, bytes); });
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
      [&](Guest* guest, const Where& where) {
        const auto plain = [&] { return real(pointer, pitch, width_in_bytes, height, element_size_bytes); };
        const bool good = width_in_bytes != 0 && height != 0 &&
                          (element_size_bytes == 4 || element_size_bytes == 8 || element_size_bytes == 16);
        if (!good) return plain();
        const std::uint64_t row = RoundUp(width_in_bytes, kPitch);
        const CUresult result = BackedOr(guest, where, pointer, PitchedBytes(row, height), managed, plain);
        // As the driver's own, where the driver has not said it.
        Found found{};
        if (result == CUDA_SUCCESS && guest != nullptr && (managed || FindBacked(*guest, *pointer, found)))
          *pitch = row;
        return result;
      },
      [&] {
        return Taken{PitchedBytes(*pitch, height), managed};
      });
}

// Managed memory comes to the device as it is touched there, up to all of it: all of it counts.
CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned int flags) {
  auto* const real = GPUMAN_REAL(cuMemAllocManaged);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateWithin(
      pointer, bytes, [&](Guest*, const Where&) { return real(pointer, bytes, flags); },
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
