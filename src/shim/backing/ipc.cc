// Shares memory of this process by legacy IPC.
#include "shim/backing/ipc.h"

#include <unistd.h>

#include <cstring>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "shim/backing/backing.h"
#include "shim/backing/backing_state.h"
#include "shim/backing/ipc_handle.h"
#include "shim/backing/ipc_server.h"
#include "shim/libc/lock.h"
#include "shim/libc/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// Gives the server a descriptor of each piece of the region, which has memory behind all of it. Here and
// below, the caller holds ipc.mutex.
CUresult OfferPieces(BackingState& state, const Region& region, std::uint64_t number) {
  IpcConnection connection(state.ipc_server.name);
  const unsigned pieces = PiecesOf(region);
  CUresult result = CUDA_SUCCESS;
  for (unsigned next = 0; next < pieces && result == CUDA_SUCCESS;) {
    int descriptors[wire::kMaxParts];
    unsigned count = 0;
    for (; next < pieces && count < wire::kMaxParts; ++next) {
      descriptors[count] = DescriptorOf(state, PieceOf(region, next), result);
      if (descriptors[count] < 0) break;
      ++count;
    }
    const bool whole = next == pieces || count == wire::kMaxParts;
    if (!whole && result == CUDA_SUCCESS) result = CUDA_ERROR_OPERATING_SYSTEM;
    if (whole && !connection.Offer(number, descriptors, count, next == pieces))
      result = CUDA_ERROR_OPERATING_SYSTEM;
    for (unsigned i = 0; i < count; ++i) ::close(descriptors[i]);
  }
  return result;
}

CUresult Offer(BackingState& state, const Region& region, std::uint64_t number) {
  const CUresult result = OfferPieces(state, region, number);
  if (result != CUDA_SUCCESS) IpcConnection(state.ipc_server.name).Withdraw(number);
  return result;
}

// Finds the number of the region's export. Shares the region first where it is not shared yet.
CUresult Share(BackingState& state, const Region& region, std::uint64_t& number) {
  Ipc& ipc = state.ipc;
  if (const std::uint64_t* const known = ipc.exported.Find(region.address)) {
    number = *known;
    return CUDA_SUCCESS;
  }
  if (!StartIpcServer(state)) return CUDA_ERROR_OPERATING_SYSTEM;
  std::uint64_t* const entry = ipc.exported.Insert(region.address);
  if (entry == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  number = *entry = ++ipc.last;
  const CUresult result = Offer(state, region, number);
  if (result != CUDA_SUCCESS) {
    std::uint64_t ignored = 0;
    ipc.exported.Take(region.address, ignored);
    return result;
  }
  {
    const Locked lock(state.books);
    PinRegion(state, region);
  }
  __atomic_fetch_add(&ipc.exports, 1, __ATOMIC_SEQ_CST);
  TellEvictable(state);
  return CUDA_SUCCESS;
}

}  // namespace

bool ShareBacked(BackingState& state, CUdeviceptr pointer, CUipcMemHandle* handle, CUresult& result) {
  FoundAllocation found{};
  if (handle == nullptr || !FindBacked(state, pointer, found) || found.region.pool != 0) return false;
  const NoCancellation whole;
  const Locked lock(state.ipc.mutex);
  Region region{};
  {
    const Locked books(state.books);
    const Region* const known = state.regions.Find(pointer);
    if (known == nullptr) return false;
    region = *known;
  }
  IpcHandleContents shared{
      IpcHandleContents::kMagic, {}, 0, found.region.address - region.address, region.bytes, {}};
  result = Share(state, region, shared.number);
  if (result != CUDA_SUCCESS) return true;
  std::memcpy(shared.exporter, state.ipc_server.name, sizeof shared.exporter);
  std::memcpy(shared.device, state.devices[region.device].uuid, sizeof shared.device);
  std::memcpy(handle, &shared, sizeof shared);
  return true;
}

void Unshare(BackingState& state, const Region& region) {
  Ipc& ipc = state.ipc;
  if (wire::Load(ipc.exports) == 0) return;
  const NoCancellation whole;
  const Locked lock(ipc.mutex);
  std::uint64_t number = 0;
  if (!ipc.exported.Take(region.address, number)) return;
  __atomic_fetch_sub(&ipc.exports, 1, __ATOMIC_SEQ_CST);
  IpcConnection(state.ipc_server.name).Withdraw(number);
  TellImported(state);
}

}  // namespace gpuman::shim
