// Before cuInit, before a context, after a fork, after the end of the context.

#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"
#include "kernels.h"
#include "probe.h"

namespace gpuman::conformance {
namespace {

void SayResult(const char* call, abi::CUresult result) { Say(call, CudaErrorName(result)); }

PROBE(before_init) {
  int number = 0;
  std::size_t size = 0, other = 0;
  abi::CUdeviceptr pointer = 0;
  abi::CUcontext context = nullptr;
  const char* text = nullptr;
  void* function = nullptr;
  abi::CUdriverProcAddressQueryResult status{};
  SayResult("cuDriverGetVersion", CU(cuDriverGetVersion, &number));
  SayResult("cuGetErrorName", CU(cuGetErrorName, abi::CUDA_ERROR_INVALID_VALUE, &text));
  SayResult("cuGetProcAddress", CU(cuGetProcAddress_v2, "cuMemAlloc", &function, 12000, 0u, &status));
  SayResult("cuDeviceGetCount", CU(cuDeviceGetCount, &number));
  SayResult("cuDeviceGet", CU(cuDeviceGet, &number, 0));
  SayResult("cuMemAlloc", CU(cuMemAlloc_v2, &pointer, kMiB));
  SayResult("cuMemFree", CU(cuMemFree_v2, abi::CUdeviceptr{0}));
  SayResult("cuMemGetInfo", CU(cuMemGetInfo_v2, &size, &other));
  SayResult("cuCtxGetCurrent", CU(cuCtxGetCurrent, &context));
  SayResult("cuCtxCreate", CU(cuCtxCreate_v2, &context, 0u, 0));
  SayResult("cuInit(1)", CU(cuInit, 1u));
  SayResult("cuInit", CU(cuInit, 0u));
  SayResult("cuInit_again", CU(cuInit, 0u));
}

TEST(BeforeInit, OnlyVersionErrorTextsAndProcAddressesWork) {
  Probe probe("before_init");
  EXPECT_EQ(probe.Heard("cuDriverGetVersion"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("cuGetErrorName"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("cuGetProcAddress"), "CUDA_SUCCESS");
  for (const char* call : {"cuDeviceGetCount", "cuDeviceGet", "cuMemAlloc", "cuMemFree", "cuMemGetInfo",
                           "cuCtxGetCurrent", "cuCtxCreate"})
    EXPECT_EQ(probe.Heard(call), "CUDA_ERROR_NOT_INITIALIZED") << call;
  EXPECT_EQ(probe.Heard("cuInit(1)"), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(probe.Heard("cuInit"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("cuInit_again"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Wait(), 0);
}

PROBE(before_context) {
  CU(cuInit, 0u);
  abi::CUdeviceptr pointer = 0;
  abi::CUcontext context = nullptr;
  abi::CUmodule module = nullptr;
  abi::CUstream stream = nullptr;
  abi::CUmemGenericAllocationHandle handle = 0;
  void* host = nullptr;
  int number = 0;
  std::size_t size = 0, other = 0;
  SayResult("cuCtxGetCurrent", CU(cuCtxGetCurrent, &context));
  Say("current", context ? "some" : "none");
  SayResult("cuMemAlloc", CU(cuMemAlloc_v2, &pointer, kMiB));
  SayResult("cuMemFree", CU(cuMemFree_v2, abi::CUdeviceptr{0x7f0000000000}));
  SayResult("cuMemGetInfo", CU(cuMemGetInfo_v2, &size, &other));
  SayResult("cuCtxSynchronize", CU(cuCtxSynchronize));
  SayResult("cuCtxGetDevice", CU(cuCtxGetDevice, &number));
  SayResult("cuModuleLoadData", CU(cuModuleLoadData, &module, ".version 6.0"));
  SayResult("cuStreamCreate", CU(cuStreamCreate, &stream, 0u));
  SayResult("cuMemHostAlloc", CU(cuMemHostAlloc, &host, kMiB, 0u));
  SayResult("cuCtxPopCurrent", CU(cuCtxPopCurrent_v2, &context));
  abi::CUmemAllocationProp prop{};
  prop.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  SayResult("cuMemGetAllocationGranularity",
            CU(cuMemGetAllocationGranularity, &size, &prop, abi::CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  SayResult("cuMemCreate", CU(cuMemCreate, &handle, kGranularity, &prop, 0ull));
  SayResult("cuMemAddressReserve",
            CU(cuMemAddressReserve, &pointer, kGranularity, std::size_t{0}, abi::CUdeviceptr{0}, 0ull));
}

TEST(BeforeAContext, CallsThatNeedAContextFailWithInvalidContext) {
  Probe probe("before_context");
  EXPECT_EQ(probe.Heard("cuCtxGetCurrent"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("current"), "none");
  for (const char* call : {"cuMemAlloc", "cuMemGetInfo", "cuCtxSynchronize", "cuCtxGetDevice",
                           "cuModuleLoadData", "cuStreamCreate", "cuMemHostAlloc", "cuCtxPopCurrent"})
    EXPECT_EQ(probe.Heard(call), "CUDA_ERROR_INVALID_CONTEXT") << call;
  for (const char* call :
       {"cuMemFree", "cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve"})
    Fact(std::string("no_context.") + call, probe.Heard(call));
  EXPECT_EQ(probe.Wait(), 0);
}

PROBE(fork) {
  CU(cuInit, 0u);
  abi::CUcontext context = nullptr;
  SayResult("parent", CU(cuCtxCreate_v2, &context, 0u, 0));
  const pid_t child = ::fork();
  if (child == 0) {
    std::size_t free = 0, total = 0;
    abi::CUdeviceptr pointer = 0;
    int count = 0;
    SayResult("cuMemGetInfo", CU(cuMemGetInfo_v2, &free, &total));
    SayResult("cuMemAlloc", CU(cuMemAlloc_v2, &pointer, kMiB));
    SayResult("cuInit", CU(cuInit, 0u));
    SayResult("cuDeviceGetCount", CU(cuDeviceGetCount, &count));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Say("child_status", std::to_string(status));
  SayResult("parent_after", CU(cuCtxSynchronize));
}

TEST(AfterAFork, CallsInTheChildFailWithNotInitialized) {
  Probe probe("fork");
  EXPECT_EQ(probe.Heard("parent"), "CUDA_SUCCESS");
  for (const char* call : {"cuMemGetInfo", "cuMemAlloc", "cuInit"}) {
    Fact(std::string("forked.") + call, probe.Heard(call));
    EXPECT_EQ(probe.Heard(call), "CUDA_ERROR_NOT_INITIALIZED") << call;
  }
  Fact("forked.cuDeviceGetCount", probe.Heard("cuDeviceGetCount"));
  EXPECT_EQ(probe.Heard("parent_after"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Wait(), 0);
}

PROBE(after_destroy) {
  CU(cuInit, 0u);
  abi::CUcontext context = nullptr, current = nullptr;
  abi::CUdeviceptr pointer = 0;
  CU(cuCtxCreate_v2, &context, 0u, 0);
  CU(cuMemAlloc_v2, &pointer, kMiB);
  SayResult("cuCtxDestroy", CU(cuCtxDestroy_v2, context));
  SayResult("cuCtxGetCurrent", CU(cuCtxGetCurrent, &current));
  Say("current", current ? "some" : "none");
  SayResult("cuMemFree", CU(cuMemFree_v2, pointer));
  SayResult("cuCtxSynchronize", CU(cuCtxSynchronize));
  unsigned char byte = 0;
  SayResult("cuMemcpyDtoH", CU(cuMemcpyDtoH_v2, &byte, pointer, std::size_t{1}));
  // The test does not use the destroyed handle itself: a real driver accepts it and crashes at exit.
}

TEST(AfterAContextIsDestroyed, CallsOnContextAndItsMemoryFail) {
  Probe probe("after_destroy");
  EXPECT_EQ(probe.Heard("cuCtxDestroy"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("cuCtxGetCurrent"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("current"), "none");
  EXPECT_EQ(probe.Heard("cuCtxSynchronize"), "CUDA_ERROR_INVALID_CONTEXT");
  EXPECT_EQ(probe.Heard("cuMemFree"), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(probe.Heard("cuMemcpyDtoH"), "CUDA_ERROR_INVALID_CONTEXT");
  EXPECT_EQ(probe.Wait(), 0);
}

PROBE(contexts) {
  CU(cuInit, 0u);
  abi::CUcontext first = nullptr, second = nullptr, primary = nullptr, current = nullptr;
  CU(cuCtxCreate_v2, &first, 0u, 0);
  CU(cuCtxCreate_v2, &second, 0u, 0);
  CU(cuCtxGetCurrent, &current);
  Say("after_second", current == second ? "second" : "other");
  CU(cuCtxDestroy_v2, second);
  CU(cuCtxGetCurrent, &current);
  Say("after_destroy", current == first ? "first" : "other");
  unsigned flags = 0;
  int active = 0;
  CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
  Say("primary_before", std::to_string(active));
  SayResult("retain", CU(cuDevicePrimaryCtxRetain, &primary, 0));
  CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
  Say("primary_retained", std::to_string(active));
  CU(cuCtxGetCurrent, &current);
  Say("retain_makes_current", current == primary ? "yes" : "no");
  CU(cuDevicePrimaryCtxRelease_v2, 0);
  CU(cuDevicePrimaryCtxGetState, 0, &flags, &active);
  Say("primary_released", std::to_string(active));
  SayResult("release_again", CU(cuDevicePrimaryCtxRelease_v2, 0));
}

TEST(Contexts, StackUpAndThePrimaryOneIsCounted) {
  Probe probe("contexts");
  EXPECT_EQ(probe.Heard("after_second"), "second");
  EXPECT_EQ(probe.Heard("after_destroy"), "first");
  EXPECT_EQ(probe.Heard("primary_before"), "0");
  EXPECT_EQ(probe.Heard("retain"), "CUDA_SUCCESS");
  EXPECT_EQ(probe.Heard("primary_retained"), "1");
  EXPECT_EQ(probe.Heard("retain_makes_current"), "no");
  EXPECT_EQ(probe.Heard("primary_released"), "0");
  EXPECT_EQ(probe.Heard("release_again"), "CUDA_ERROR_INVALID_CONTEXT");
  EXPECT_EQ(probe.Wait(), 0);
}

PROBE(fault) {
  CU(cuInit, 0u);
  abi::CUcontext context = nullptr;
  CU(cuCtxCreate_v2, &context, 0u, 0);
  abi::CUmodule module = nullptr;
  CU(cuModuleLoadData, &module, load::kKernels);
  // This address is not mapped.
  SayResult("launch", Fill(module, 0x10000, 4096, 1));
  SayResult("cuCtxSynchronize", CU(cuCtxSynchronize));
  abi::CUdeviceptr pointer = 0;
  SayResult("cuMemAlloc", CU(cuMemAlloc_v2, &pointer, kMiB));
  std::size_t free = 0, total = 0;
  SayResult("cuMemGetInfo", CU(cuMemGetInfo_v2, &free, &total));
  SayResult("cuCtxDestroy", CU(cuCtxDestroy_v2, context));
}

TEST(AFaultOfAKernel, SticksToTheContext) {
  Probe probe("fault");
  EXPECT_EQ(probe.Heard("launch"), "CUDA_SUCCESS");
  for (const char* call : {"cuCtxSynchronize", "cuMemAlloc"})
    EXPECT_EQ(probe.Heard(call), "CUDA_ERROR_ILLEGAL_ADDRESS") << call;
  for (const char* call : {"cuMemGetInfo", "cuCtxDestroy"})
    Fact(std::string("faulted.") + call, probe.Heard(call));
  EXPECT_EQ(probe.Wait(), 0);
}

}  // namespace
}  // namespace gpuman::conformance
