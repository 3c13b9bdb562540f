// A driver in front of the simulated one, for evict_test.py: it refuses functions that the test names, and
// writes into a file what a thread of the shim that waits for a context has met.
//
// The program finds it as libcuda.so.1. The functions that it lacks are found in the driver behind it, which
// it is linked with. The shim looks for all functions where it has found the first one: so this has those
// that a program calls first.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "driver/abi/cuda.h"

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

#define WATCHED extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<int> waiting = 0;

template <typename Function>
Function* Behind(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool IsThreadOfShim() {
  char name[16] = {};
  return ::pthread_getname_np(::pthread_self(), name, sizeof name) == 0 && std::strcmp(name, "gpuman") == 0;
}

void WriteDown(const char* line) {
  const char* const path = std::getenv("WATCHED_DRIVER_FILE");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || ::write(file, line, std::strlen(line)) < 0) std::abort();
  ::close(file);
}

void Meet(const char* line) {
  if (waiting != 0) WriteDown(line);
}

bool Refuses(const char* name) {
  const char* const refused = std::getenv("WATCHED_DRIVER_REFUSES");
  if (refused == nullptr || std::strcmp(refused, name) != 0) return false;
  WriteDown("refused\n");
  return true;
}

// Runs after all that the program does at its end.
__attribute__((destructor)) void End() { Meet("end\n"); }

}  // namespace

WATCHED CUresult cuInit(unsigned flags) { return Behind<fn::cuInit>("cuInit")(flags); }

WATCHED CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return Behind<fn::cuCtxCreate_v2>("cuCtxCreate_v2")(context, flags, device);
}

WATCHED CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Behind<fn::cuDevicePrimaryCtxRetain>("cuDevicePrimaryCtxRetain")(context, device);
}

WATCHED CUresult cuCtxSynchronize() {
  const bool counts = IsThreadOfShim();
  if (counts) ++waiting;
  const CUresult result = Behind<fn::cuCtxSynchronize>("cuCtxSynchronize")();
  if (counts) --waiting;
  return result;
}

WATCHED CUresult cuCtxDestroy_v2(CUcontext context) {
  Meet("destroy\n");
  return Behind<fn::cuCtxDestroy_v2>("cuCtxDestroy_v2")(context);
}

WATCHED CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Meet("reset\n");
  return Behind<fn::cuDevicePrimaryCtxReset_v2>("cuDevicePrimaryCtxReset_v2")(device);
}

WATCHED CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                                       unsigned flags) {
  if (Refuses("cuStreamBatchMemOp_v2")) return CUDA_ERROR_NOT_SUPPORTED;
  return Behind<fn::cuStreamBatchMemOp_v2>("cuStreamBatchMemOp_v2")(stream, count, operations, flags);
}

WATCHED CUresult cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
  if (Refuses("cuMemHostRegister_v2")) return CUDA_ERROR_NOT_PERMITTED;
  return Behind<fn::cuMemHostRegister_v2>("cuMemHostRegister_v2")(address, bytes, flags);
}
