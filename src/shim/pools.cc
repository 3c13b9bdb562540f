#include "shim/pools.h"

#include "shim/driver.h"
#include "shim/meter.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // the vendor's names

std::uint64_t NumberOf(CUmemoryPool pool) { return reinterpret_cast<std::uintptr_t>(pool); }

bool Read(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t& value) {
  auto* const get = GPUMAN_REAL(cuMemPoolGetAttribute);
  cuuint64_t answer = 0;
  if (get == nullptr || get(pool, attribute, &answer) != CUDA_SUCCESS) return false;
  value = answer;
  return true;
}

}  // namespace

void RefreshPools(Guest& guest) {
  guest.pool.ForEach([&](std::uint64_t number, Pool& pool) {
    std::uint64_t has = 0;
    const auto handle = reinterpret_cast<CUmemoryPool>(static_cast<std::uintptr_t>(number));
    if (!Read(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, has) || has == pool.held) return;
    if (has < pool.held)
      GiveBack(guest, pool.device, pool.held - has);
    else
      Charge(guest, pool.device, has - pool.held);
    pool.held = has;
  });
}

bool SettlePool(Guest& guest, CUmemoryPool pool, int device, std::uint64_t reserved) {
  Pool* const entry = guest.pool.Insert(NumberOf(pool));
  std::uint64_t has = 0;
  if (entry == nullptr || !Read(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, has))
    return true;  // stays reserved
  __atomic_store_n(&guest.pools_used, true, __ATOMIC_RELEASE);
  if (entry->held == 0) entry->device = device;
  const std::uint64_t before = entry->held;
  entry->held = has;
  if (has < before) GiveBack(guest, device, before - has);
  const std::uint64_t grown = has > before ? has - before : 0;
  if (grown <= reserved) {
    GiveBack(guest, device, reserved - grown);
    return true;
  }
  if (ReserveWithPools(guest, device, grown - reserved)) return true;
  Charge(guest, device, grown - reserved);
  return false;
}

bool HasRoom(CUmemoryPool pool, std::uint64_t bytes) {
  std::uint64_t has = 0, used = 0;
  return Read(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, has) &&
         Read(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used) && used <= has && bytes <= has - used;
}

std::uint64_t UsedOf(CUmemoryPool pool) {
  std::uint64_t used = 0;
  return Read(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used) ? used : UINT64_MAX;
}

void ForgetPool(Guest& guest, CUmemoryPool pool, std::uint64_t in_use) {
  Pool entry{};
  if (!guest.pool.Take(NumberOf(pool), entry)) return;
  if (in_use < entry.held) GiveBack(guest, entry.device, RoundDown(entry.held - in_use, kPoolPiece));
}

}  // namespace gpuman::shim
