// Legacy IPC of backed memory. The driver does not share mapped memory by it (cuIpcGetMemHandle answers
// CUDA_ERROR_INVALID_VALUE). So the handles of such memory are the shim's own, and the memory passes from
// process to process as descriptors (ipc_server.h).
//
// Shared memory stays on the device until it is freed; it counts in the process that made it. The callers
// have passed the gate. Thread-safe.
#pragma once

#include <pthread.h>

#include "driver/abi/cuda.h"
#include "shim/libc/hash_table.h"

namespace gpuman::shim {

struct BackingState;
struct Region;

// Memory that another process shares and that is mapped here; the key is its address here.
struct OpenedExport {
  std::uint8_t exporter[16];
  std::uint64_t number;   // of the export
  std::uint64_t bytes;    // as mapped
  std::uint64_t context;  // the context that opened it
  std::uint64_t opens;    // how many times the program has to close it
  int device;
};

struct Ipc {
  pthread_mutex_t mutex;  // held around the driver's calls too; locked after contexts, before books
  HashTable<std::uint64_t> exported;  // numbers of exports, by the address of the region
  HashTable<OpenedExport> opened;
  std::uint32_t exports, openings;  // atomic; how many entries these tables have
  std::uint64_t last;               // number of the last export
};

// Returns false where the shim did not allocate the memory for cuMemAlloc; then the driver has to be asked.
// Otherwise `result` is the answer of cuIpcGetMemHandle.
bool ShareBacked(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUipcMemHandle* handle,
                 driver::abi::CUresult& result);
// The region is given up: no process can open it any more. A process that has it open keeps the memory.
void Unshare(BackingState& state, const Region& region);

// Returns false where the handle is no handle of a shim. Otherwise `result` is the answer of
// cuIpcOpenMemHandle.
bool OpenShared(BackingState& state, driver::abi::CUdeviceptr* pointer,
                const driver::abi::CUipcMemHandle& handle, unsigned flags, driver::abi::CUresult& result);
// Returns false where nothing was opened at the pointer.
bool CloseShared(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUresult& result);
// Closes all that an ended context has opened. The caller holds state.contexts.
void CloseSharedOf(BackingState& state, std::uint64_t context);
// Finds the opened memory in which the pointer lies. Returns false when there is none.
bool FindShared(BackingState& state, driver::abi::CUdeviceptr pointer, std::uint64_t& address,
                OpenedExport& opened);

}  // namespace gpuman::shim
