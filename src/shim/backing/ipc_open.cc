// Opens memory that other processes share by legacy IPC.
#include <unistd.h>

#include <cstring>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "shim/accounting/meter.h"
#include "shim/backing/backing.h"
#include "shim/backing/backing_state.h"
#include "shim/backing/ipc.h"
#include "shim/backing/ipc_handle.h"
#include "shim/backing/ipc_server.h"
#include "shim/libc/lock.h"
#include "shim/libc/threads.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 46;
// How often, and for how long, an exporter that hangs up is asked again.
constexpr int kAttempts = 10, kPatienceMs = 10'000;

// Returns the device with this UUID; below 0: the process sees no such device.
int DeviceWith(const std::uint8_t (&uuid)[16]) {
  auto* const count_devices = GPUMAN_REAL(cuDeviceGetCount);
  auto* const ask = GPUMAN_REAL(cuDeviceGetUuid_v2);
  int devices = 0;
  CUuuid one{};
  if (count_devices == nullptr || ask == nullptr || count_devices(&devices) != CUDA_SUCCESS) return -1;
  for (int device = 0; device < devices && device < kMaxDevices; ++device) {
    if (ask(&one, device) == CUDA_SUCCESS && std::memcmp(one.bytes, uuid, sizeof uuid) == 0) return device;
  }
  return -1;
}

void UnmapPieces(const Region& region, unsigned pieces) {
  auto* const unmap = GPUMAN_REAL(cuMemUnmap);
  auto* const free = GPUMAN_REAL(cuMemAddressFree);
  for (unsigned i = 0; i < pieces && unmap != nullptr; ++i) {
    const Piece piece = PieceOf(region, i);
    unmap(piece.address, piece.bytes);
  }
  if (free != nullptr) free(region.address, region.bytes);
}

// Maps the descriptor's memory at the piece's addresses. It closes the descriptor: the mapping keeps the
// memory.
CUresult MapForeign(const Piece& piece, int descriptor) {
  auto* const import = GPUMAN_REAL(cuMemImportFromShareableHandle);
  auto* const map = GPUMAN_REAL(cuMemMap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (import != nullptr && map != nullptr && release != nullptr)
    result = import(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) {
    result = map(piece.address, piece.bytes, 0, handle, 0);
    release(handle);
  }
  ::close(descriptor);
  return result;
}

// Maps the pieces that the exporter sends in one conversation, but for the first `mapped`, which are mapped
// already.
CUresult FetchIn(IpcConnection& connection, std::uint64_t number, const Region& region, unsigned& mapped) {
  CUresult result = connection.Ask(number) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  unsigned seen = 0;
  for (bool last = false; result == CUDA_SUCCESS && !last;) {
    int descriptors[wire::kMaxParts];
    unsigned count = 0;
    if (!connection.Next(descriptors, count, last)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i, ++seen) {
      const bool expected = result == CUDA_SUCCESS && seen == mapped && mapped < PiecesOf(region);
      if (!expected) {
        ::close(descriptors[i]);
        continue;
      }
      result = MapForeign(PieceOf(region, mapped), descriptors[i]);
      if (result == CUDA_SUCCESS) ++mapped;
    }
  }
  if (result == CUDA_SUCCESS && mapped < PiecesOf(region)) result = CUDA_ERROR_INVALID_VALUE;
  return result;
}

// Fetches all pieces from the exporter, and maps them. `mapped`: how many pieces are mapped. On a loaded
// machine this process may be too slow for the exporter, which hangs up then; it is asked again.
CUresult Fetch(const IpcHandleContents& handle, const Region& region, unsigned& mapped) {
  const std::int64_t end = wire::EndAfter(kPatienceMs);
  for (int attempt = 1;; ++attempt) {
    IpcConnection connection(handle.exporter);
    const CUresult result = FetchIn(connection, handle.number, region, mapped);
    const bool over = attempt == kAttempts || wire::MonotonicMs() >= end;
    if (result == CUDA_SUCCESS || !connection.HungUp() || over) return result;
  }
}

// The caller holds ipc.mutex.
CUresult MapShared(BackingState& state, const IpcHandleContents& handle, const AllocationTarget& where,
                   std::uint64_t& address) {
  auto* const reserve = GPUMAN_REAL(cuMemAddressReserve);
  const int device = DeviceWith(handle.device);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  if (reserve == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  Region region{0, handle.bytes, handle.bytes, where.context, device};
  region.readers = region.writers = DeviceBit(device) | DeviceBit(where.device);
  CUdeviceptr begin = 0;
  CUresult result = reserve(&begin, region.bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  region.address = address = begin;
  unsigned mapped = 0;
  result = Fetch(handle, region, mapped);
  if (result == CUDA_SUCCESS) result = GiveAccess(region);
  OpenedExport* const entry = result == CUDA_SUCCESS ? state.ipc.opened.Insert(address) : nullptr;
  if (entry == nullptr) {
    UnmapPieces(region, mapped);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
  }
  *entry = {{}, handle.number, handle.bytes, where.context, 0, device};
  std::memcpy(entry->exporter, handle.exporter, sizeof entry->exporter);
  __atomic_fetch_add(&state.ipc.openings, 1, __ATOMIC_SEQ_CST);
  {
    const Locked lock(state.books);
    ++state.foreign;
  }
  TellImported(state);
  return CUDA_SUCCESS;
}

// The caller has taken the entry out of the table, and holds ipc.mutex.
void UnmapShared(BackingState& state, std::uint64_t address, const OpenedExport& opened) {
  const Region region{address, opened.bytes, opened.bytes, opened.context, opened.device};
  UnmapPieces(region, PiecesOf(region));
  __atomic_fetch_sub(&state.ipc.openings, 1, __ATOMIC_SEQ_CST);
  {
    const Locked lock(state.books);
    --state.foreign;
  }
  TellImported(state);
}

// The caller holds ipc.mutex.
bool FindOpened(Ipc& ipc, CUdeviceptr pointer, std::uint64_t& address) {
  bool found = false;
  ipc.opened.ForEach([&](std::uint64_t at, const OpenedExport& opened) {
    if (pointer < at || pointer - at >= opened.bytes) return;
    address = at;
    found = true;
  });
  return found;
}

CUresult Open(BackingState& state, CUdeviceptr* pointer, const IpcHandleContents& handle) {
  AllocationTarget where{};
  if (!CurrentWhere(state, where)) return CUDA_ERROR_INVALID_CONTEXT;
  Ipc& ipc = state.ipc;
  const NoCancellation whole;
  const Locked lock(ipc.mutex);
  if (std::memcmp(handle.exporter, state.ipc_server.name, sizeof handle.exporter) == 0)
    return CUDA_ERROR_INVALID_CONTEXT;  // as the driver answers
  std::uint64_t address = 0;
  ipc.opened.ForEach([&](std::uint64_t at, const OpenedExport& opened) {
    if (opened.number == handle.number && opened.context == where.context && opened.bytes == handle.bytes &&
        std::memcmp(opened.exporter, handle.exporter, sizeof opened.exporter) == 0)
      address = at;
  });
  if (address == 0) {
    const CUresult result = MapShared(state, handle, where, address);
    if (result != CUDA_SUCCESS) return result;
  }
  ++ipc.opened.Find(address)->opens;
  *pointer = address + handle.offset;
  return CUDA_SUCCESS;
}

}  // namespace

bool OpenShared(BackingState& state, CUdeviceptr* pointer, const CUipcMemHandle& handle, unsigned flags,
                CUresult& result) {
  IpcHandleContents shared;
  std::memcpy(&shared, &handle, sizeof shared);
  if (shared.magic != IpcHandleContents::kMagic) return false;
  const bool good = pointer != nullptr && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS && shared.number != 0 &&
                    shared.bytes != 0 && shared.bytes <= kMaxBytes && shared.offset < shared.bytes;
  result = good ? Open(state, pointer, shared) : CUDA_ERROR_INVALID_VALUE;
  return true;
}

bool CloseShared(BackingState& state, CUdeviceptr pointer, CUresult& result) {
  Ipc& ipc = state.ipc;
  if (wire::Load(ipc.openings) == 0) return false;
  const NoCancellation whole;
  const Locked lock(ipc.mutex);
  std::uint64_t address = 0;
  if (!FindOpened(ipc, pointer, address)) return false;
  OpenedExport* const opened = ipc.opened.Find(address);
  result = CUDA_SUCCESS;
  if (opened->opens > 1) {
    --opened->opens;
    return true;
  }
  result = SynchronizeContext(opened->context);
  if (result != CUDA_SUCCESS) return true;
  OpenedExport gone{};
  ipc.opened.Take(address, gone);
  UnmapShared(state, address, gone);
  return true;
}

void CloseSharedOf(BackingState& state, std::uint64_t context) {
  Ipc& ipc = state.ipc;
  if (wire::Load(ipc.openings) == 0) return;
  const Locked lock(ipc.mutex);
  for (std::uint64_t address = 1; address != 0;) {
    address = 0;
    ipc.opened.ForEach([&](std::uint64_t at, const OpenedExport& opened) {
      if (opened.context == context) address = at;
    });
    OpenedExport gone{};
    if (ipc.opened.Take(address, gone)) UnmapShared(state, address, gone);
  }
}

bool FindShared(BackingState& state, CUdeviceptr pointer, std::uint64_t& address, OpenedExport& opened) {
  Ipc& ipc = state.ipc;
  if (wire::Load(ipc.openings) == 0) return false;
  const Locked lock(ipc.mutex);
  if (!FindOpened(ipc, pointer, address)) return false;
  opened = *ipc.opened.Find(address);
  return true;
}

}  // namespace gpuman::shim
