// A program that ends while its memory is away, or moving: `ending_program [works]`. It registers an exit
// handler before its first context, as the driver does.
//
// Prints "ready"; a line on standard input ends main; the handler prints "driver ends" and continues with the
// next line: it reports whether the memory is unchanged. With "works" another thread uses the device until
// then.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "driver/abi/cuda.h"

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kBytes = std::size_t{24} << 20;
constexpr int kValue = 7;

void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
CUcontext context = nullptr;
CUdeviceptr memory = 0;
std::atomic<bool> stop = false;
std::thread worker;

template <typename Function>
Function* Find(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(driver, symbol));
}

void Say(const char* line) {
  std::puts(line);
  std::fflush(stdout);
}

void AwaitLine() {
  while (std::getchar() != '\n' && std::feof(stdin) == 0) continue;
}

void Work() {
  auto* const set = Find<fn::cuMemsetD8_v2>("cuMemsetD8_v2");
  Find<fn::cuCtxSetCurrent>("cuCtxSetCurrent")(context);
  while (!stop) set(memory, kValue, kBytes);
}

void DriverEnds() {
  Say("driver ends");
  AwaitLine();
  stop = true;
  if (worker.joinable()) worker.join();
  std::vector<unsigned char> data(kBytes);
  const CUresult result = Find<fn::cuMemcpyDtoH_v2>("cuMemcpyDtoH_v2")(data.data(), memory, kBytes);
  const std::vector<unsigned char> expected(kBytes, kValue);
  Say(result == CUDA_SUCCESS && data == expected ? "right" : "wrong");
}

}  // namespace

int main(int count, char** words) {
  std::atexit(DriverEnds);
  if (driver == nullptr || Find<fn::cuInit>("cuInit")(0) != CUDA_SUCCESS ||
      Find<fn::cuCtxCreate_v2>("cuCtxCreate_v2")(&context, 0, 0) != CUDA_SUCCESS ||
      Find<fn::cuMemAlloc_v2>("cuMemAlloc_v2")(&memory, kBytes) != CUDA_SUCCESS ||
      Find<fn::cuMemsetD8_v2>("cuMemsetD8_v2")(memory, kValue, kBytes) != CUDA_SUCCESS)
    std::_Exit(1);
  if (count > 1 && std::strcmp(words[1], "works") == 0) worker = std::thread(Work);
  Say("ready");
  AwaitLine();
  return 0;
}
