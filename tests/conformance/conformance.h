// What the conformance tests share: the drivers, a context, memory, kernels, and the facts that are recorded
// rather than asserted.
//
// The same checks run on whichever driver the loader finds. Where the simulated driver and a real one differ,
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

// Loaded once for the process; null when there is no driver.
const driver::CudaDriver* FindCuda();
// Asserts by ending the test program when there is none: main has looked.
const driver::CudaDriver& Cuda();

bool Simulated();  // the environment names a simulated machine

// Calls a driver function by its pointer in the table; a missing one answers kMissing.
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

// What a driver answers where no promise of it is known: prints "FACT key = value" and adds it as a JSON line
// to the file that GPUMAN_FACTS names. On an H200 it must be what h200_facts.h says, if that knows the key.
void Fact(const std::string& key, const std::string& value);
void Fact(const std::string& key, std::uint64_t value);
void Fact(const std::string& key, abi::CUresult value);

// Free and total as cuMemGetInfo says; needs a current context.
std::uint64_t FreeBytes();
std::uint64_t TotalBytes();

// A context on device 0 for one suite, current on the test's thread, with gpuman-load's kernels.
class WithContext : public ::testing::Test {
 public:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

 protected:
  void SetUp() override;
  // Where a test failed halfway, work may be left: wait for it.
  void TearDown() override;

  static abi::CUdevice device_;
  static abi::CUcontext context_;
  static abi::CUmodule module_;
};

// Device memory of one test. Fails the test and holds 0 when there is none.
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

// The kernels of gpuman-load over plain memory.
abi::CUresult Fill(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                   abi::CUstream stream = nullptr);
abi::CUresult AddOne(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes,
                     abi::CUstream stream = nullptr);
abi::CUresult Spin(abi::CUmodule module, std::uint64_t nanoseconds, abi::CUstream stream = nullptr);
// Words that differ from the pattern, by the kernel; UINT64_MAX when it could not run.
std::uint64_t Wrong(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                    std::uint64_t added = 0);
// The same, told by bytes copied to the host.
std::uint64_t WrongOnHost(abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                          std::uint64_t added = 0);

// Rounds up to the granularity of device memory.
constexpr std::size_t Round(std::size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace gpuman::conformance
