// The parts of the shim that depend on the processor, in one program; reports each as a word of JSON.
//
// Needs no driver but small_driver.cc. `small_program plain` uses no CUDA.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "driver/abi/cuda.h"

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kMiB = 1 << 20;

const char* OwnerOf(void* function) {
  Dl_info info{};
  if (function == nullptr || ::dladdr(function, &info) == 0) return "nobody";
  return std::strstr(info.dli_fname, "libgpuman") != nullptr ? "shim"
         : std::strstr(info.dli_fname, "libcuda") != nullptr ? "driver"
                                                             : "other";
}

template <typename Function>
Function* Find(void* library, const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(library, symbol));
}

// For other symbols dlsym answers as without the shim, RTLD_NEXT and dlerror included.
bool PlainAnswers() {
  const bool next = ::dlsym(RTLD_NEXT, "malloc") != nullptr && ::dlsym(RTLD_DEFAULT, "strlen") != nullptr;
  const bool none = ::dlsym(RTLD_DEFAULT, "no_such_function") == nullptr && ::dlerror() != nullptr;
  return next && none;
}

}  // namespace

int main(int count, char** words) {
  if (count > 1 && std::strcmp(words[1], "plain") == 0) {
    std::printf("{\"plain\": %s}\n", PlainAnswers() ? "true" : "false");
    return 0;
  }
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return 2;
  auto* const init = Find<fn::cuInit>(library, "cuInit");
  auto* const create = Find<fn::cuCtxCreate_v2>(library, "cuCtxCreate_v2");
  auto* const allocate = Find<fn::cuMemAlloc_v2>(library, "cuMemAlloc_v2");
  auto* const release = Find<fn::cuMemFree_v2>(library, "cuMemFree_v2");
  auto* const info = Find<fn::cuMemGetInfo_v2>(library, "cuMemGetInfo_v2");
  auto* const launch = Find<fn::cuLaunchKernel>(library, "cuLaunchKernel");
  CUcontext context = nullptr;
  if (init(0) != CUDA_SUCCESS || create(&context, 0, 0) != CUDA_SUCCESS) return 3;
  errno = 77;
  std::size_t free = 0, total = 0, left = 0;
  CUdeviceptr pointer = 0, beyond = 0;
  const int first = allocate(&pointer, 64 * kMiB);
  info(&free, &total);
  const int second = allocate(&beyond, std::size_t{1} << 40);
  const int kept = errno;
  int done = -1;
  // On a thread of its own, which is new to the gate.
  std::thread([&] { done = launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); }).join();
  release(pointer);
  info(&left, &total);
  std::printf(
      "{\"plain\": %s, \"of\": \"%s\", \"init_of\": \"%s\", \"launch_of\": \"%s\", \"status\": [%d, %d, %d], "
      "\"free\": %zu, \"left\": %zu, \"total\": %zu, \"errno\": %d}\n",
      PlainAnswers() ? "true" : "false", OwnerOf(reinterpret_cast<void*>(allocate)),
      OwnerOf(reinterpret_cast<void*>(init)), OwnerOf(reinterpret_cast<void*>(launch)), first, second, done,
      free, left, total, kept);
  return 0;
}
