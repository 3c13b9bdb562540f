// The common part of the conformance tests: the drivers, a context, memory, kernels, and facts that are
// recorded and not asserted.
//
// The same checks run on the driver that the loader finds. Where the simulated driver and a real one differ,
// the simulation is wrong. On a real device the tests take at most 4 GiB, call no setter and reset nothing.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "driver/cuda.h"

namespace gpuman::conformance {

namespace abi = driver::abi;
using driver::CudaErrorName;

inline constexpr std::size_t kMiB = 1u << 20;
inline constexpr std::size_t kGranularity = 2 * kMiB;

// Loaded once for the process; null if there is no driver.
const driver::CudaDriver* FindCuda();
// Ends the test program if there is no driver; main has checked that.
const driver::CudaDriver& Cuda();

bool Simulated();  // the environment names a simulated machine

// Calls a driver function by its pointer in the table; a missing function returns kMissing.
inline constexpr auto kMissing = static_cast<abi::CUresult>(0xffff);
template <typename... Parameters, typename... Arguments>
abi::CUresult Call(abi::CUresult (*function)(Parameters...), Arguments... arguments) {
  return function ? function(arguments...) : kMissing;
}

// CU(cuMemFree_v2, p): the function by its exported symbol.
#define CU(symbol, ...) \
  ::gpuman::conformance::Call(::gpuman::conformance::Cuda().calls().symbol __VA_OPT__(, ) __VA_ARGS__)
#define EXPECT_CUDA(expected, call) EXPECT_EQ(#expected, ::gpuman::driver::CudaErrorName(call))
#define EXPECT_OK(call) EXPECT_CUDA(CUDA_SUCCESS, call)
#define ASSERT_OK(call) ASSERT_EQ("CUDA_SUCCESS", ::gpuman::driver::CudaErrorName(call))

// Records what a driver answers where the vendor promises nothing: prints "FACT key = value" and adds it as a
// JSON line to the file that GPUMAN_FACTS names. On an H200 the value must equal that of h200_facts.h, if
// h200_facts.h has the key.
void Fact(const std::string& key, const std::string& value);
void Fact(const std::string& key, std::uint64_t value);
void Fact(const std::string& key, abi::CUresult value);

// Free and total memory by cuMemGetInfo; needs a current context.
std::uint64_t FreeBytes();
std::uint64_t TotalBytes();

// A context on device 0 for one suite, current on the test's thread, with gpuman-load's kernels.
class WithContext : public ::testing::Test {
 public:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

 protected:
  void SetUp() override;
  // A test that failed halfway may have left work: wait for it.
  void TearDown() override;

  static abi::CUdevice device_;
  static abi::CUcontext context_;
  static abi::CUmodule module_;
};

// Device memory for one test. If there is none, the test fails and the object holds 0.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  abi::CUdeviceptr get() const { return pointer_; }
  std::size_t size() const { return bytes_; }

 private:
  abi::CUdeviceptr pointer_ = 0;
  std::size_t bytes_;
};

class Stream {
 public:
  explicit Stream(unsigned flags = abi::CU_STREAM_NON_BLOCKING);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  abi::CUstream get() const { return stream_; }

 private:
  abi::CUstream stream_ = nullptr;
};

// The kernels of gpuman-load on plain memory.
abi::CUresult Fill(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                   abi::CUstream stream = nullptr);
abi::CUresult AddOne(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes,
                     abi::CUstream stream = nullptr);
abi::CUresult Spin(abi::CUmodule module, std::uint64_t nanoseconds, abi::CUstream stream = nullptr);
// The number of words that differ from the pattern, counted by the kernel; UINT64_MAX if the kernel could not
// run.
std::uint64_t Wrong(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                    std::uint64_t added = 0);
// The same, from bytes copied to the host.
std::uint64_t WrongOnHost(abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                          std::uint64_t added = 0);

// Rounds up to the granularity of device memory.
constexpr std::size_t Round(std::size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace gpuman::conformance
