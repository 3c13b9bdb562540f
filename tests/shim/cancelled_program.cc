// A program that cancels its threads in the middle of calls. It prints "ready" when it has memory that can
// leave; each line on standard input starts a thread that is cancelled when it makes its call: "export" of
// memory that was made for export, or "look" at a pointer. It prints the call's answer; -1: the call did not
// return.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "driver/abi/cuda.h"

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

CUcontext context = nullptr;
CUdeviceptr memory = 0;
CUmemGenericAllocationHandle handle = 0;
std::atomic<int> answer = -1;

template <typename Function>
Function* Find(const char* symbol) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(::dlsym(driver, symbol));
}

bool Make() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return Find<fn::cuMemCreate>("cuMemCreate")(&handle, kBytes, &prop, 0) == CUDA_SUCCESS &&
         Find<fn::cuMemAddressReserve>("cuMemAddressReserve")(&memory, kBytes, 0, 0, 0) == CUDA_SUCCESS &&
         Find<fn::cuMemMap>("cuMemMap")(memory, kBytes, 0, handle, 0) == CUDA_SUCCESS &&
         Find<fn::cuMemSetAccess>("cuMemSetAccess")(memory, kBytes, &access, 1) == CUDA_SUCCESS;
}

void* Export(void*) {
  auto* const call = Find<fn::cuMemExportToShareableHandle>("cuMemExportToShareableHandle");
  int descriptor = -1;
  ::pthread_cancel(::pthread_self());
  answer = static_cast<int>(call(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  if (descriptor >= 0) ::close(descriptor);
  return nullptr;
}

void* ReadOrdinal(void*) {
  auto* const call = Find<fn::cuPointerGetAttribute>("cuPointerGetAttribute");
  int ordinal = -1;
  ::pthread_cancel(::pthread_self());
  answer = static_cast<int>(call(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
  ::pthread_testcancel();
  return nullptr;
}

}  // namespace

int main() {
  if (Find<fn::cuInit>("cuInit")(0) != CUDA_SUCCESS ||
      Find<fn::cuCtxCreate_v2>("cuCtxCreate_v2")(&context, 0, 0) != CUDA_SUCCESS || !Make())
    return 1;
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    answer = -1;
    pthread_t thread;
    if (::pthread_create(&thread, nullptr, line == "export" ? Export : ReadOrdinal, nullptr) != 0) return 1;
    ::pthread_join(thread, nullptr);
    std::cout << answer << std::endl;
  }
  return 0;
}
