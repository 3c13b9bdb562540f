// Legacy IPC of memory that the shim backs: the driver shares no mapped memory so (cuIpcGetMemHandle answers
// CUDA_ERROR_INVALID_VALUE), so handles of such memory are the shim's own, and what is behind them passes
// from process to process as descriptors (ipc_server.h).
//
// What is shared stays on the device from then on, until it is freed; it counts where it was made. Functions
// are for calls that have passed the gate. Thread-safe.
#pragma once

#include <pthread.h>

#include "driver/abi/cuda.h"
#include "shim/accounting/table.h"

namespace gpuman::shim {

struct BackingState;
struct Region;

// What another process shared and is mapped here, by its address here.
struct Opened {
  std::uint8_t exporter[16];
  std::uint64_t number;   // of the export
  std::uint64_t bytes;    // as mapped
  std::uint64_t context;  // that opened it
  std::uint64_t opens;    // and is to close it so many times
  int device;
};

struct Ipc {
  pthread_mutex_t mutex;          // held around the driver's calls for it; after contexts, before books
  Table<std::uint64_t> exported;  // numbers, by the address of the region
  Table<Opened> opened;
  std::uint32_t exports, openings;  // atomic: entries of those
  std::uint64_t last;               // number of an export
};

// False: not memory that the shim allocated for cuMemAlloc, the driver is to be asked. Else `result` is what
// cuIpcGetMemHandle answers.
bool ShareBacked(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUipcMemHandle* handle,
                 driver::abi::CUresult& result);
// The region is given up: nobody can open it any more. Who has it open keeps the memory.
void Unshare(BackingState& state, const Region& region);

// False: no handle of a shim's.
bool OpenShared(BackingState& state, driver::abi::CUdeviceptr* pointer,
                const driver::abi::CUipcMemHandle& handle, unsigned flags, driver::abi::CUresult& result);
// False: nothing was opened there.
bool CloseShared(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUresult& result);
// All of a context that is gone. For who holds state.contexts.
void CloseSharedOf(BackingState& state, std::uint64_t context);
// The mapping that the pointer is in, where that was opened.
bool FindShared(BackingState& state, driver::abi::CUdeviceptr pointer, std::uint64_t& address,
                Opened& opened);

}  // namespace gpuman::shim
