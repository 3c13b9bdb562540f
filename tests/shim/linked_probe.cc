// A program that is linked with libcuda.so.1, for tests that Python cannot do: `linked_probe NAME` prints
// JSON.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "driver/abi/cuda.h"

namespace gpuman::driver::abi {
extern "C" {
fn::cuInit cuInit;
fn::cuCtxCreate_v2 cuCtxCreate_v2;
fn::cuMemAlloc_v2 cuMemAlloc_v2;
fn::cuMemFree_v2 cuMemFree_v2;
fn::cuMemGetInfo_v2 cuMemGetInfo_v2;
fn::cuGetProcAddress_v2 cuGetProcAddress_v2;
}
}  // namespace gpuman::driver::abi

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::size_t Free() {
  std::size_t free = 0, total = 0;
  cuMemGetInfo_v2(&free, &total);
  return free;
}

int Allocate(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  return static_cast<int>(cuMemAlloc_v2(&pointer, bytes));
}

bool Start() {
  CUcontext context = nullptr;
  return cuInit(0) == CUDA_SUCCESS && cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS;
}

// Allocates up to the limit by direct calls of the functions.
int Linked() {
  const std::size_t before = Free();
  const int status = Allocate(64 * kMiB), beyond = Allocate(std::size_t{1} << 36);
  std::printf("{\"status\": %d, \"beyond\": %d, \"held\": %zu}\n", status, beyond, before - Free());
  return 0;
}

// Each way to look up a function gives the same answer; only a lookup of the next definition gives the
// driver's.
int Addresses() {
  void* const handle = ::dlopen("libcuda.so.1", RTLD_LAZY);
  void* const by_handle = ::dlsym(handle, "cuMemAlloc_v2");
  void* const by_default = ::dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
  void* by_procedure = nullptr;
  CUdriverProcAddressQueryResult status{};
  cuGetProcAddress_v2("cuMemAlloc", &by_procedure, 12000, 0, &status);
  Dl_info info{}, other{};
  ::dladdr(by_handle, &info);
  ::dladdr(::dlsym(handle, "cuLaunchKernel"), &other);
  const bool none = ::dlsym(handle, "cuMemAlloc_v") == nullptr && ::dlerror() != nullptr;
  const auto own_malloc = reinterpret_cast<void* (*)(std::size_t)>(::dlsym(RTLD_NEXT, "malloc"));
  std::printf("{\"same\": %s, \"of\": \"%s\", \"other\": \"%s\", \"none\": %s, \"malloc\": %s}\n",
              by_handle == by_default && by_handle == by_procedure ? "true" : "false",
              std::strstr(info.dli_fname, "libgpuman") != nullptr ? "shim" : "driver",
              std::strstr(other.dli_fname, "libgpuman") != nullptr ? "shim" : "driver",
              none ? "true" : "false", own_malloc != nullptr ? "true" : "false");
  return 0;
}

// Closes the library and the descriptor that the shim keeps, and opens another file in its place.
int Closing() {
  void* const handle = ::dlopen("libcuda.so.1", RTLD_LAZY);
  const auto allocate = reinterpret_cast<fn::cuMemAlloc_v2*>(::dlsym(handle, "cuMemAlloc_v2"));
  ::dlclose(handle);
  const int other = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  int closed = 0;
  for (int fd = 3; fd < 4096; ++fd) {
    char target[256] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target, sizeof target - 1) < 0 ||
        std::strstr(target, "gpuman-ledger") == nullptr)
      continue;
    ::dup2(other, fd);
    ++closed;
  }
  CUdeviceptr pointer = 0;
  const int status = static_cast<int>(allocate(&pointer, 64 * kMiB)), beyond = Allocate(std::size_t{1} << 36);
  std::printf("{\"status\": %d, \"beyond\": %d, \"closed\": %d}\n", status, beyond, closed);
  return 0;
}

// Overwrites the ledger, again and again, and continues.
int Scribble() {
  std::ifstream maps("/proc/self/maps");
  unsigned long begin = 0, end = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("gpuman-ledger") != std::string::npos) std::sscanf(line.c_str(), "%lx-%lx", &begin, &end);
  if (begin == 0) return 1;
  auto* const page = reinterpret_cast<unsigned char*>(begin);
  std::mt19937_64 random(1);
  std::size_t answered = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3000; ++i) page[random() % 8192] = static_cast<unsigned char>(random());
    if (round % 10 == 9) std::memset(page, static_cast<int>(random() & 0xff), end - begin);
    CUdeviceptr pointer = 0;
    const CUresult status = cuMemAlloc_v2(&pointer, 3 * kMiB);
    answered += status == CUDA_SUCCESS || status == CUDA_ERROR_OUT_OF_MEMORY;
    if (status == CUDA_SUCCESS) answered += cuMemFree_v2(pointer) == CUDA_SUCCESS ? 0U : 1000U;
    (void)Free();
  }
  std::printf("{\"answered\": %zu}\n", answered);
  return 0;
}

// The nanoseconds of one allocation and its free: the median of many.
int Cost() {
  std::vector<double> times;
  for (int round = 0; round < 200; ++round) {
    const auto start = std::chrono::steady_clock::now();
    constexpr int kCalls = 100;
    for (int i = 0; i < kCalls; ++i) {
      CUdeviceptr pointer = 0;
      if (cuMemAlloc_v2(&pointer, 1000) != CUDA_SUCCESS) return 1;
      cuMemFree_v2(pointer);
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count() / kCalls);
  }
  std::sort(times.begin(), times.end());
  std::printf("{\"ns\": %.0f}\n", times[times.size() / 2]);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2 || !Start()) return 2;
  CUdeviceptr kept = 0;
  cuMemAlloc_v2(&kept, 1000);
  const std::string name = words[1];
  return name == "linked"      ? Linked()
         : name == "addresses" ? Addresses()
         : name == "closing"   ? Closing()
         : name == "scribble"  ? Scribble()
         : name == "cost"      ? Cost()
                               : 2;
}
