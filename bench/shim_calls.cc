// The cost of a kernel launch, and of an allocation with its free, for a program: shim_calls [LAUNCHES [PAIRS
// [BLOCKS]]]
//
// Finds the driver as the CUDA runtime does: libcuda.so.1 by dlopen, cuGetProcAddress_v2 by dlsym, all other
// functions by cuGetProcAddress_v2. Times BLOCKS blocks of LAUNCHES or PAIRS calls and prints one line of
// JSON, nanoseconds of one call: the median of the blocks, their tenth and ninetieth percentile and the
// least. Exit status 5: a call of the driver failed.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "driver/abi/cuda.h"

namespace {

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kSmall = 1000;
constexpr std::size_t kLarge = std::size_t{8} << 20;
constexpr const char* kKernel = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry nothing()
{
	ret;
}
)";

[[noreturn]] void Give(const char* what, int status) {
  std::fprintf(stderr, "shim_calls: %s: %d\n", what, status);
  std::exit(5);
}

void Must(const char* what, CUresult result) {
  if (result != CUDA_SUCCESS) Give(what, static_cast<int>(result));
}

struct Driver {
  fn::cuGetProcAddress_v2* get = nullptr;
  int version = 12000;

  template <typename Function>
  Function* Find(const char* name) const {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    Must(name, get(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    if (found == nullptr) Give(name, static_cast<int>(status));
    return reinterpret_cast<Function*>(found);
  }
};

Driver Load() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) Give(::dlerror(), 0);
  Driver driver;
  driver.get = reinterpret_cast<fn::cuGetProcAddress_v2*>(::dlsym(library, "cuGetProcAddress_v2"));
  if (driver.get == nullptr) Give("cuGetProcAddress_v2", 0);
  Must("cuDriverGetVersion", driver.Find<fn::cuDriverGetVersion>("cuDriverGetVersion")(&driver.version));
  return driver;
}

// The time of one call in each block, in nanoseconds, ascending.
template <typename Call, typename After>
std::vector<double> Time(int blocks, int calls, Call call, After after) {
  std::vector<double> times;
  for (int block = -1; block < blocks; ++block) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    after();
    if (block >= 0) times.push_back(time.count() / calls);  // the first block warms up
  }
  std::sort(times.begin(), times.end());
  return times;
}

void Print(const char* name, const std::vector<double>& times) {
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  std::printf(", \"%s\": {\"median\": %.2f, \"p10\": %.2f, \"p90\": %.2f, \"least\": %.2f}", name, at(0.5),
              at(0.1), at(0.9), times.front());
}

}  // namespace

int main(int count, char** words) {
  const auto number = [&](int index, int otherwise) {
    return count > index ? std::max(1, std::atoi(words[index])) : otherwise;
  };
  const int launches = number(1, 10000), pairs = number(2, 1000), blocks = number(3, 200);

  const Driver driver = Load();
  CUcontext context = nullptr;
  CUuuid uuid{};
  Must("cuInit", driver.Find<fn::cuInit>("cuInit")(0));
  Must("cuDeviceGetUuid", driver.Find<fn::cuDeviceGetUuid_v2>("cuDeviceGetUuid")(&uuid, 0));
  Must("context", driver.Find<fn::cuDevicePrimaryCtxRetain>("cuDevicePrimaryCtxRetain")(&context, 0));
  Must("cuCtxSetCurrent", driver.Find<fn::cuCtxSetCurrent>("cuCtxSetCurrent")(context));
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  Must("module", driver.Find<fn::cuModuleLoadData>("cuModuleLoadData")(&module, kKernel));
  Must("function", driver.Find<fn::cuModuleGetFunction>("cuModuleGetFunction")(&kernel, module, "nothing"));
  const auto launch = driver.Find<fn::cuLaunchKernel>("cuLaunchKernel");
  const auto synchronize = driver.Find<fn::cuCtxSynchronize>("cuCtxSynchronize");
  const auto allocate = driver.Find<fn::cuMemAlloc_v2>("cuMemAlloc");
  const auto release = driver.Find<fn::cuMemFree_v2>("cuMemFree");

  // Programs have an allocation already; the first one connects to the daemon.
  CUdeviceptr kept = 0;
  Must("cuMemAlloc", allocate(&kept, kSmall));
  const auto pair = [&](std::size_t bytes) {
    return [&, bytes] {
      CUdeviceptr pointer = 0;
      Must("cuMemAlloc", allocate(&pointer, bytes));
      Must("cuMemFree", release(pointer));
    };
  };
  const auto wait = [&] { Must("cuCtxSynchronize", synchronize()); };

  std::printf("{\"uuid\": \"GPU-");
  for (int i = 0; i < 16; ++i)
    std::printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  std::printf("\", \"driver\": %d", driver.version);
  const auto launch_one = [&] {
    Must("cuLaunchKernel", launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  };
  Print("launch_ns", Time(blocks, launches, launch_one, wait));
  Print("small_ns", Time(blocks, pairs, pair(kSmall), wait));
  Print("large_ns", Time(blocks, std::max(1, pairs / 10), pair(kLarge), wait));
  std::printf("}\n");
  return 0;
}
