// Every entry point of the driver is in exactly one class.
#include "shim/symbols/entry_points.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "driver/abi/cuda.h"
#include "driver/abi/nvml.h"

namespace gpuman::shim {
namespace {

std::map<std::string, int> Listed() {
  std::map<std::string, int> listed;
#define GPUMAN_ROW(symbol, entry_class, twin) ++listed[#symbol];
  GPUMAN_SHIM_HOOKED(GPUMAN_ROW)
  GPUMAN_SHIM_BACKED(GPUMAN_ROW)
  GPUMAN_SHIM_GATED(GPUMAN_ROW)
  GPUMAN_SHIM_ASIDE(GPUMAN_ROW)
#undef GPUMAN_ROW
#define GPUMAN_ROW(symbol, entry_class) ++listed[#symbol];
  GPUMAN_SHIM_PLAIN(GPUMAN_ROW)
#undef GPUMAN_ROW
  return listed;
}

std::map<std::string, EntryClass> Classes() {
  std::map<std::string, EntryClass> classes;
#define GPUMAN_ROW(symbol, entry_class, twin) classes[#symbol] = EntryClass::entry_class;
  GPUMAN_SHIM_HOOKED(GPUMAN_ROW)
  GPUMAN_SHIM_BACKED(GPUMAN_ROW)
  GPUMAN_SHIM_GATED(GPUMAN_ROW)
  GPUMAN_SHIM_ASIDE(GPUMAN_ROW)
#undef GPUMAN_ROW
#define GPUMAN_ROW(symbol, entry_class) classes[#symbol] = EntryClass::entry_class;
  GPUMAN_SHIM_PLAIN(GPUMAN_ROW)
#undef GPUMAN_ROW
  return classes;
}

TEST(EntryPoints, HaveEachFunctionOfTheDriverOnceAndNoOther) {
  std::set<std::string> known;
  const auto listed = Listed();
  for (const auto& function : driver::abi::kCudaFunctions) {
    known.emplace(function.symbol);
    EXPECT_TRUE(listed.contains(std::string(function.symbol))) << function.symbol << " is in no class";
  }
  for (const auto& [symbol, times] : listed) {
    EXPECT_EQ(times, 1) << symbol;
    EXPECT_TRUE(known.contains(symbol)) << symbol << " is unknown to src/driver/abi";
  }
}

TEST(EntryPoints, LaunchesCopiesAndSetsAreSubmissions) {
  for (const auto& [symbol, entry_class] : Classes()) {
    for (const char* beginning : {"cuLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuGraphLaunch",
                                  "cuGraphUpload", "cuStreamBatchMemOp", "cuStreamWriteValue"}) {
      if (symbol.starts_with(beginning)) {
        EXPECT_EQ(entry_class, EntryClass::kSubmit) << symbol;
      }
    }
  }
}

TEST(EntryPoints, SubmissionsAllocationsAndFreesPassTheGate) {
  std::set<std::string> plain;
#define GPUMAN_ROW(symbol, entry_class) plain.insert(#symbol);
  GPUMAN_SHIM_PLAIN(GPUMAN_ROW)
#undef GPUMAN_ROW
  for (const auto& [symbol, entry_class] : Classes()) {
    if (entry_class == EntryClass::kSubmit || entry_class == EntryClass::kAllocate ||
        entry_class == EntryClass::kFree) {
      EXPECT_FALSE(plain.contains(symbol)) << symbol;
    }
  }
}

TEST(EntryPoints, EachAllocationAndFreeOfDeviceMemoryIsReplaced) {
  std::set<std::string> replaced;
#define GPUMAN_ROW(symbol, entry_class, twin) replaced.insert(#symbol);
  GPUMAN_SHIM_HOOKED(GPUMAN_ROW)
#undef GPUMAN_ROW
  for (const auto& function : driver::abi::kCudaFunctions) {
    const std::string symbol(function.symbol);
    const bool host = symbol.find("Host") != std::string::npos;
    if (!host &&
        (symbol.starts_with("cuMemAlloc") || symbol.starts_with("cuMemFree") || symbol == "cuMemCreate" ||
         symbol == "cuMemRelease" || symbol.find("ArrayCreate") != std::string::npos ||
         symbol.starts_with("cuCtxCreate") || symbol.starts_with("cuCtxDestroy"))) {
      EXPECT_TRUE(replaced.contains(symbol)) << symbol;
    }
  }
}

TEST(EntryPoints, NvmlFunctionsForDeviceMemoryAreReplaced) {
  std::set<std::string> replaced;
#define GPUMAN_ROW(symbol, entry_class) replaced.insert(#symbol);
  GPUMAN_SHIM_HOOKED_NVML(GPUMAN_ROW)
#undef GPUMAN_ROW
#define GPUMAN_ROW(since, name, parameters)                        \
  if (std::string(#name).starts_with("nvmlDeviceGetMemoryInfo")) { \
    EXPECT_TRUE(replaced.contains(#name)) << #name;                \
  }
  GPUMAN_NVML_FUNCTIONS(GPUMAN_ROW)
#undef GPUMAN_ROW
}

}  // namespace
}  // namespace gpuman::shim
