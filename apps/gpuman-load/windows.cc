#include "windows.h"

namespace gpuman::load {
namespace {

using base::Result;
namespace abi = driver::abi;

// A window that others can map, and the message that tells them how.
struct Own {
  abi::CUdeviceptr address = 0;
  Message message{};
};

class Opener {
 public:
  explicit Opener(Session& session) : session_(session), cuda_(session.cuda()), calls_(session.calls()) {}

  Result<Own> MakeByDescriptor() {
    abi::CUmemAllocationProp wanted{};
    wanted.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.requestedHandleTypes = abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    wanted.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, session_.device().handle};
    abi::CUmemGenericAllocationHandle handle = 0;
    GPUMAN_TRY(
        cuda_.Invoke("cuMemCreate", calls_.cuMemCreate, &handle, std::size_t{kWindowBytes}, &wanted, 0ull));
    Own own;
    int descriptor = -1;
    GPUMAN_TRY(cuda_.Invoke("cuMemExportToShareableHandle", calls_.cuMemExportToShareableHandle, &descriptor,
                            handle, abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull));
    own.message.descriptor = base::Fd(descriptor);
    GPUMAN_ASSIGN(own.address, Map(handle));
    return own;
  }

  Result<abi::CUdeviceptr> OpenByDescriptor(const Message& message) {
    abi::CUmemGenericAllocationHandle handle = 0;
    GPUMAN_TRY(cuda_.Invoke("cuMemImportFromShareableHandle", calls_.cuMemImportFromShareableHandle, &handle,
                            reinterpret_cast<void*>(static_cast<std::intptr_t>(message.descriptor.get())),
                            abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return Map(handle);
  }

  Result<Own> MakeByIpc() {
    Own own;
    GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls_.cuMemAlloc_v2, &own.address, std::size_t{kWindowBytes}));
    GPUMAN_TRY(cuda_.Invoke("cuIpcGetMemHandle", calls_.cuIpcGetMemHandle, &own.message.handle, own.address));
    return own;
  }

  Result<abi::CUdeviceptr> OpenByIpc(const Message& message) {
    abi::CUdeviceptr address = 0;
    GPUMAN_TRY(cuda_.Invoke("cuIpcOpenMemHandle", calls_.cuIpcOpenMemHandle_v2, &address, message.handle,
                            static_cast<unsigned>(abi::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
    return address;
  }

  Result<Own> MakeDirect() {
    Own own;
    GPUMAN_TRY(cuda_.Invoke("cuMemAlloc", calls_.cuMemAlloc_v2, &own.address, std::size_t{kWindowBytes}));
    own.message.address = own.address;
    own.message.context = session_.context();
    return own;
  }

  Result<abi::CUdeviceptr> OpenDirect(const Message& message) {
    GPUMAN_TRY(cuda_.Invoke("cuCtxEnablePeerAccess", calls_.cuCtxEnablePeerAccess, message.context, 0u));
    return message.address;
  }

  Result<Own> Make(Peer peer) {
    return peer == Peer::kDirect ? MakeDirect() : peer == Peer::kIpc ? MakeByIpc() : MakeByDescriptor();
  }

  Result<abi::CUdeviceptr> OpenOther(Peer peer, const Message& message) {
    if (peer == Peer::kDirect) return OpenDirect(message);
    return peer == Peer::kIpc ? OpenByIpc(message) : OpenByDescriptor(message);
  }

  Result<std::vector<abi::CUdeviceptr>> OpenHostPages(void* pages, unsigned ranks) {
    abi::CUdeviceptr address = 0;
    GPUMAN_TRY(cuda_.Invoke("cuMemHostRegister", calls_.cuMemHostRegister_v2, pages,
                            std::size_t{ranks * kWindowBytes},
                            abi::CU_MEMHOSTREGISTER_PORTABLE | abi::CU_MEMHOSTREGISTER_DEVICEMAP));
    GPUMAN_TRY(
        cuda_.Invoke("cuMemHostGetDevicePointer", calls_.cuMemHostGetDevicePointer_v2, &address, pages, 0u));
    std::vector<abi::CUdeviceptr> windows;
    for (unsigned rank = 0; rank < ranks; ++rank) windows.push_back(address + rank * kWindowBytes);
    return windows;
  }

  Result<> Clear(abi::CUdeviceptr address) {
    GPUMAN_TRY(cuda_.Invoke("cuMemsetD8Async", calls_.cuMemsetD8Async, address, static_cast<unsigned char>(0),
                            std::size_t{kWindowBytes}, session_.stream()));
    return session_.Synchronize();
  }

 private:
  Result<abi::CUdeviceptr> Map(abi::CUmemGenericAllocationHandle handle) {
    const std::size_t size = kWindowBytes;
    abi::CUdeviceptr address = 0;
    GPUMAN_TRY(cuda_.Invoke("cuMemAddressReserve", calls_.cuMemAddressReserve, &address, size, std::size_t{0},
                            0ull, 0ull));
    GPUMAN_TRY(cuda_.Invoke("cuMemMap", calls_.cuMemMap, address, size, std::size_t{0}, handle, 0ull));
    const abi::CUmemAccessDesc access{{abi::CU_MEM_LOCATION_TYPE_DEVICE, session_.device().handle},
                                      abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    GPUMAN_TRY(cuda_.Invoke("cuMemSetAccess", calls_.cuMemSetAccess, address, size, &access, std::size_t{1}));
    GPUMAN_TRY(cuda_.Invoke("cuMemRelease", calls_.cuMemRelease, handle));  // the mapping keeps the memory
    return address;
  }

  Session& session_;
  const driver::CudaDriver& cuda_;
  const driver::CudaCalls& calls_;
};

}  // namespace

Result<std::vector<abi::CUdeviceptr>> OpenWindows(Session& session, const Options& options,
                                                  const Shared& shared, unsigned rank) {
  Opener opener(session);
  if (options.peer == Peer::kHost) return opener.OpenHostPages(shared.board->windows(), options.ranks);
  GPUMAN_ASSIGN(Own own, opener.Make(options.peer));
  GPUMAN_TRY(opener.Clear(own.address));  // before anybody can write to it
  own.message.from = rank;
  for (unsigned other = 0; other < options.ranks; ++other)
    if (other != rank) GPUMAN_TRY(shared.mailboxes->Send(other, own.message));
  std::vector<abi::CUdeviceptr> windows(options.ranks);
  windows[rank] = own.address;
  for (unsigned heard = 1; heard < options.ranks; ++heard) {
    GPUMAN_ASSIGN(const Message message, shared.mailboxes->Receive(rank));
    GPUMAN_ASSIGN(windows[message.from], opener.OpenOther(options.peer, message));
  }
  return windows;
}

}  // namespace gpuman::load
