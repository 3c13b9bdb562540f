#include "shim/accounting/pools.h"

#include "shim/accounting/meter.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

std::uint64_t NumberOf(CUmemoryPool pool) { return reinterpret_cast<std::uintptr_t>(pool); }
CUmemoryPool PoolOf(std::uint64_t number) {
  return reinterpret_cast<CUmemoryPool>(static_cast<std::uintptr_t>(number));
}

// The caller of these two functions is RelaxedCapture (driver_calls.h).
bool Read(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t& value) {
  auto* const get = GPUMAN_REAL(cuMemPoolGetAttribute);
  cuuint64_t answer = 0;
  if (get == nullptr || get(pool, attribute, &answer) != CUDA_SUCCESS) return false;
  value = answer;
  return true;
}

void Trim(CUmemoryPool pool) {
  if (auto* const trim = GPUMAN_REAL(cuMemPoolTrimTo)) trim(pool, 0);
}

bool IsCounted(int device) { return device >= 0 && device < kMaxDevices; }

bool IsNearLimit(AccountingState& state, int device) {
  const ReportedMemory told = ReportedMemoryOf(state, device);
  return told.limit != UINT64_MAX && (told.used >= told.limit || told.limit - told.used < kNearLimit);
}

std::uint64_t HeldOn(AccountingState& state, int device) {
  std::uint64_t held = 0;
  state.pool.ForEach([&](std::uint64_t, const Pool& pool) { held += pool.device == device ? pool.held : 0; });
  return held;
}

void FillHeadroom(AccountingState& state, int device) {
  std::uint64_t& headroom = state.headroom[device];
  while (headroom < kHeadroomBytes && IsNearLimit(state, device) && ReserveAtOnce(state, device, kPoolPiece))
    headroom += kPoolPiece;
}

// Pools of the device have given back `bytes`.
void CameBack(AccountingState& state, int device, std::uint64_t bytes) {
  std::uint64_t& headroom = state.headroom[device];
  if (headroom < kHeadroomBytes && HeldOn(state, device) != 0 && IsNearLimit(state, device)) {
    const std::uint64_t kept = bytes < kHeadroomBytes - headroom ? bytes : kHeadroomBytes - headroom;
    headroom += kept;
    Retain(state, device, MemoryKind::kPool, kept);
    bytes -= kept;
  }
  GiveBack(state, device, MemoryKind::kPool, bytes);
}

}  // namespace

void RefreshPools(AccountingState& state) {
  const RelaxedCapture relaxed;
  std::uint64_t gone[kMaxDevices] = {};
  state.pool.ForEach([&](std::uint64_t number, Pool& pool) {
    if (!IsCounted(pool.device)) return;
    std::uint64_t has = 0;
    if (!Read(PoolOf(number), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, has) || has == pool.held) return;
    if (has < pool.held)
      gone[pool.device] += pool.held - has;
    else
      Charge(state, pool.device, MemoryKind::kPool, has - pool.held);
    pool.held = has;
  });
  for (int device = 0; device < kMaxDevices; ++device) {
    if (gone[device] != 0) CameBack(state, device, gone[device]);
    std::uint64_t& headroom = state.headroom[device];
    if (headroom == 0 || HeldOn(state, device) != 0) continue;
    Withdraw(state, device, headroom);
    headroom = 0;
  }
}

bool TrimPools(AccountingState& state, int device) {
  const std::uint64_t before = HeldOn(state, device);
  const RelaxedCapture relaxed;
  const bool released = state.release_unused != nullptr && state.release_unused(state, device) != 0;
  if (before == 0) return released;
  state.pool.ForEach([&](std::uint64_t number, const Pool& pool) {
    if (pool.device == device && pool.held != 0) Trim(PoolOf(number));
  });
  RefreshPools(state);
  return HeldOn(state, device) < before || released;
}

bool CoverGrowth(AccountingState& state, int device, std::uint64_t bytes, std::uint64_t& reserved) {
  const std::uint64_t most = RoundUp(bytes, kPoolPiece);
  reserved = most;
  if (!IsCounted(device) || ReserveBesidePools(state, device, most)) return true;
  std::uint64_t& headroom = state.headroom[device];
  if (most > headroom && TrimPools(state, device) && ReserveAtOnce(state, device, most)) return true;
  if (most <= headroom) {
    reserved = 0;
    return true;
  }
  // The request is larger than the headroom. Use the headroom as a part of the room.
  if (headroom == 0 || !ReserveAtOnce(state, device, most - headroom)) return false;
  headroom = 0;
  return true;
}

PoolGrowthResult CommitPool(AccountingState& state, CUmemoryPool pool, int device, std::uint64_t reserved) {
  if (!IsCounted(device)) return PoolGrowthResult::kCovered;
  const RelaxedCapture relaxed;
  const bool fresh = state.pool.Find(NumberOf(pool)) == nullptr;
  Pool* const entry = state.pool.Insert(NumberOf(pool));
  std::uint64_t has = 0;
  if (entry == nullptr || !Read(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, has)) {
    Granted(state, device, MemoryKind::kPool, reserved);  // it stays counted
    return PoolGrowthResult::kCovered;
  }
  __atomic_store_n(&state.pools_used, true, __ATOMIC_RELEASE);
  if (fresh) *entry = {device, 0};
  const std::uint64_t before = entry->held;
  entry->held = has;
  if (has < before) CameBack(state, device, before - has);
  const std::uint64_t grown = has > before ? has - before : 0;
  if (grown <= reserved) {
    Withdraw(state, device, reserved - grown);
    Granted(state, device, MemoryKind::kPool, grown);
    FillHeadroom(state, device);
    return PoolGrowthResult::kCovered;
  }
  const std::uint64_t more = grown - reserved;
  if (ReserveWithPools(state, device, more)) {
    Granted(state, device, MemoryKind::kPool, grown);
    return PoolGrowthResult::kCovered;
  }
  std::uint64_t& headroom = state.headroom[device];
  const bool enough = more <= headroom;
  const std::uint64_t of_headroom = enough ? more : headroom;
  headroom -= of_headroom;
  Granted(state, device, MemoryKind::kPool, reserved + of_headroom);
  if (!enough) Charge(state, device, MemoryKind::kPool, more - of_headroom);
  return enough ? PoolGrowthResult::kOnHeadroom : PoolGrowthResult::kTooFar;
}

void PoolMade(AccountingState& state, CUmemoryPool pool, const CUmemLocation& location) {
  Pool stale{};
  if (state.pool.Take(NumberOf(pool), stale)) GiveBack(state, stale.device, MemoryKind::kPool, stale.held);
  const bool on_host = location.type == CU_MEM_LOCATION_TYPE_HOST ||
                       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
                       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  if (!on_host && location.type != CU_MEM_LOCATION_TYPE_DEVICE) return;
  if (Pool* const entry = state.pool.Insert(NumberOf(pool))) *entry = {on_host ? kNoDevice : location.id, 0};
}

CUmemoryPool CurrentPool(int device) {
  auto* const ask = GPUMAN_REAL(cuDeviceGetMemPool);
  CUmemoryPool pool = nullptr;
  return ask != nullptr && ask(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

int DeviceOfPool(AccountingState& state, CUmemoryPool pool, int of_stream) {
  if (const Pool* const known = state.pool.Find(NumberOf(pool))) return known->device;
  auto* const ask = GPUMAN_REAL(cuDeviceGetDefaultMemPool);
  const RelaxedCapture relaxed;
  CUmemoryPool its = nullptr;
  for (int device = 0; ask != nullptr && device < kMaxDevices && ask(&its, device) == CUDA_SUCCESS; ++device)
    if (its == pool) return device;
  return of_stream;
}

bool HasUnused(CUmemoryPool pool, std::uint64_t bytes) {
  const RelaxedCapture relaxed;
  std::uint64_t has = 0, used = 0;
  return Read(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, has) &&
         Read(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used) && used <= has && bytes <= has - used;
}

std::uint64_t UnusedOn(AccountingState& state, int device, bool ask) {
  std::uint64_t unused = state.unused_bytes != nullptr ? state.unused_bytes(state, device) : 0;
  const RelaxedCapture relaxed;
  bool told = true;
  state.pool.ForEach([&](std::uint64_t number, const Pool& pool) {
    if (pool.device != device || pool.held == 0) return;
    std::uint64_t used = 0;
    told = told && ask && Read(PoolOf(number), CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used);
    unused += used < pool.held ? pool.held - used : 0;
  });
  return told ? unused : UINT64_MAX;
}

DestroyedPool BeforeDestroy(AccountingState& state, CUmemoryPool pool) {
  const Pool* const found = state.pool.Find(NumberOf(pool));
  if (found == nullptr) return {};
  if (!IsCounted(found->device)) return {true, true, 0};
  const RelaxedCapture relaxed;
  Trim(pool);
  RefreshPools(state);
  const Pool* const entry = state.pool.Find(NumberOf(pool));
  std::uint64_t used = 0;
  return {true, !Read(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used) || used != 0, entry->held};
}

void AfterDestroy(AccountingState& state, CUmemoryPool pool, const DestroyedPool& leaving) {
  Pool entry{};
  if (!leaving.known || !state.pool.Take(NumberOf(pool), entry)) return;
  if (!leaving.in_use) state.ending[entry.device] += leaving.left;
  RefreshPools(state);
}

std::uint64_t EndingOn(AccountingState& state, int device) {
  return IsCounted(device) ? state.ending[device] : 0;
}

void GiveBackEnded(AccountingState& state, int device, std::uint64_t bytes) {
  if (!IsCounted(device)) return;
  std::uint64_t& ending = state.ending[device];
  if (bytes > ending) bytes = ending;
  ending -= bytes;
  GiveBack(state, device, MemoryKind::kPool, bytes);
}

}  // namespace gpuman::shim
