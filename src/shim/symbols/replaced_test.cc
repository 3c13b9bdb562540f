#include "shim/symbols/replaced.h"

#include <gtest/gtest.h>

#include <string>

#include "driver/abi/test_twin.h"

namespace gpuman::shim {
namespace {

using driver::abi::CU_GET_PROC_ADDRESS_DEFAULT;
using driver::abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

std::string Symbol(const char* symbol, ReplacementSet scope = ReplacementSet::kEverywhere) {
  DriverFunctionId entry{};
  return FindReplaced(symbol, scope, entry) ? SymbolOf(entry) : "";
}

std::string Procedure(const char* name, int version,
                      driver::abi::cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT,
                      ReplacementSet scope = ReplacementSet::kEverywhere) {
  DriverFunctionId entry{};
  return FindReplaced(name, version, flags, scope, entry) ? SymbolOf(entry) : "";
}

TEST(Replaced, SymbolsAreTakenByTheirExactNames) {
  EXPECT_EQ(Symbol("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(Symbol("cuMemAllocAsync_ptsz"), "cuMemAllocAsync_ptsz");
  EXPECT_EQ(Symbol("nvmlDeviceGetMemoryInfo_v2"), "nvmlDeviceGetMemoryInfo_v2");
  for (const char* other : {"cuMemAlloc", "cuMemAlloc_v", "cuMemAlloc_v22", "cuMemAlloc_v2_ptsz",
                            "cuLaunchKernel", "cuGetExportTable", "cudaMalloc", "cu", "c", "", "nvmlInit_v2",
                            "malloc", "cuInit", "cuCtxGetDevice", "nvmlDeviceGetUUID"})
    EXPECT_EQ(Symbol(other), "") << other;
}

TEST(Replaced, ProceduresAreTakenByNameVersionAndFlags) {
  EXPECT_EQ(Procedure("cuMemAlloc", 12000), "cuMemAlloc_v2");
  EXPECT_EQ(Procedure("cuMemAlloc", 3020), "cuMemAlloc_v2");
  EXPECT_EQ(Procedure("cuMemAlloc", 3010), "");  // another ABI
  EXPECT_EQ(Procedure("cuMemAlloc_v2", 12000), "");
  EXPECT_EQ(Procedure("cuGetProcAddress", 11030), "cuGetProcAddress");
  EXPECT_EQ(Procedure("cuGetProcAddress", 11990), "cuGetProcAddress");
  EXPECT_EQ(Procedure("cuGetProcAddress", 12000), "cuGetProcAddress_v2");
  EXPECT_EQ(Procedure("cuCtxCreate", 11030), "cuCtxCreate_v2");
  EXPECT_EQ(Procedure("cuCtxCreate", 11040), "cuCtxCreate_v3");
  EXPECT_EQ(Procedure("cuCtxCreate", 13000), "cuCtxCreate_v4");
  EXPECT_EQ(Procedure("cuCtxSynchronize", 12080), "cuCtxSynchronize");
  EXPECT_EQ(Procedure("cuCtxSynchronize", 13000), "cuCtxSynchronize_v2");
  EXPECT_EQ(Procedure("cuDevicePrimaryCtxRelease", 10000), "cuDevicePrimaryCtxRelease");
  EXPECT_EQ(Procedure("cuLaunchKernel", 12000), "");
}

TEST(Replaced, ThePerThreadStreamIsAnotherFunction) {
  constexpr auto kTwin = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_EQ(Procedure("cuMemAllocAsync", 12000, kTwin), "cuMemAllocAsync_ptsz");
  EXPECT_EQ(Procedure("cuMemAllocAsync", 12000), "cuMemAllocAsync");
  EXPECT_EQ(Procedure("cuMemAlloc", 12000, kTwin), "cuMemAlloc_v2");
  EXPECT_EQ(Procedure("cuStreamSynchronize", 12000, kTwin), "cuStreamSynchronize_ptsz");
  EXPECT_EQ(Procedure("cuStreamSynchronize", 6050, kTwin), "");  // no driver answers a twin before 7.0
  EXPECT_EQ(Procedure("cuStreamSynchronize", 6050), "cuStreamSynchronize");
}

TEST(Replaced, WhereMemoryCanLeaveTheGpuLaunchesAndCopiesAreReplacedAsWell) {
  constexpr auto kTwin = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_EQ(Symbol("cuLaunchKernel", ReplacementSet::kEvictable), "cuLaunchKernel");
  EXPECT_EQ(Symbol("cuLaunchKernel_ptsz", ReplacementSet::kEvictable), "cuLaunchKernel_ptsz");
  EXPECT_EQ(Symbol("cuMemcpyHtoD_v2_ptds", ReplacementSet::kEvictable), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(Symbol("cuMemAlloc_v2", ReplacementSet::kEvictable), "cuMemAlloc_v2");
  EXPECT_EQ(Symbol("cuInit", ReplacementSet::kEvictable), "");
  EXPECT_EQ(Symbol("cuEventQuery", ReplacementSet::kEvictable), "cuEventQuery");
  EXPECT_EQ(Symbol("cuEventQuery"), "");
  EXPECT_EQ(Procedure("cuStreamQuery", 12000, kTwin, ReplacementSet::kEvictable), "cuStreamQuery_ptsz");
  EXPECT_EQ(Procedure("cuMemcpyHtoD", 12000, kTwin, ReplacementSet::kEvictable), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(Procedure("cuLaunchKernelEx", 11050, 0, ReplacementSet::kEvictable), "");
  EXPECT_EQ(Procedure("cuStreamBeginCapture", 10000, 0, ReplacementSet::kEvictable), "cuStreamBeginCapture");
  EXPECT_EQ(Procedure("cuStreamBeginCaptureToGraph", 12030, 0, ReplacementSet::kEvictable),
            "cuStreamBeginCaptureToGraph");
  EXPECT_EQ(Procedure("cuLaunchHostFunc", 13000, 0, ReplacementSet::kEvictable), "cuLaunchHostFunc");
  EXPECT_EQ(Procedure("cuLaunchHostFunc", 13010, kTwin, ReplacementSet::kEvictable),
            "cuLaunchHostFunc_v2_ptsz");
  EXPECT_EQ(Procedure("cuMulticastBindMem", 13010, 0, ReplacementSet::kEvictable), "cuMulticastBindMem_v2");
  EXPECT_EQ(Procedure("cuStreamBeginCapture", 12000, kTwin, ReplacementSet::kEvictable),
            "cuStreamBeginCapture_v2_ptsz");
}

// The shim replaces what the driver answers by its own list.
TEST(Replaced, AgreesWithTheDriversListForEveryFunctionAndVersion) {
  for (const ReplacementSet scope : {ReplacementSet::kEverywhere, ReplacementSet::kEvictable}) {
    for (const auto& function : driver::abi::kCudaFunctions) {
      const std::string symbol(function.symbol), name(function.name);
      if (Symbol(symbol.c_str(), scope).empty()) continue;
      EXPECT_EQ(Procedure(name.c_str(), function.version, CU_GET_PROC_ADDRESS_DEFAULT, scope), symbol);
      const std::string twin = symbol + std::string(driver::abi::TwinSuffix(function.twin));
      const int version = std::max(function.version, driver::abi::kFirstTwinVersion);
      // At that version there may be a newer function.
      if (Procedure(name.c_str(), version, CU_GET_PROC_ADDRESS_DEFAULT, scope) != symbol) continue;
      EXPECT_EQ(Procedure(name.c_str(), version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, scope), twin);
    }
  }
}

}  // namespace
}  // namespace gpuman::shim
