// For tests: the simulated libcuda.so.1, loaded by dlopen in a child process for each test. The library has
// one driver for a process, and a fault spoils it until the process ends, so a test needs a process of its
// own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "driver/abi/cuda.h"
#include "sim/state/test_state.h"

namespace gpuman::sim::cuda {

// NOLINTNEXTLINE(google-build-using-namespace): the vendor's names are this folder's subject
using namespace driver::abi;

// One pointer for each exported function.
struct Cuda {
#define GPUMAN_TEST_POINTER(name, symbol, version, twin, parameters, arguments) fn::symbol* symbol = nullptr;
  GPUMAN_CUDA_FUNCTIONS(GPUMAN_TEST_POINTER)
#undef GPUMAN_TEST_POINTER
  void* handle = nullptr;

  Cuda();
};

std::string NameOf(CUresult result);

testing::AssertionResult Gives(const char* expected_text, const char* call_text, CUresult expected,
                               CUresult given);
#define EXPECT_CU(expected, call) EXPECT_PRED_FORMAT2(Gives, expected, call)
#define EXPECT_OK(call) EXPECT_CU(CUDA_SUCCESS, call)
#define ASSERT_OK(call) ASSERT_PRED_FORMAT2(Gives, CUDA_SUCCESS, call)

// Forks; true when the child ran `body` without a failed expectation.
bool Forked(const std::function<void()>& body);

using Body = std::function<void(Cuda&, TestState&)>;
// Runs a test's body in a process of its own, with a state of its own.
void OnState(const CreateOptions& options, const Body& body);
// The same after cuInit, with the primary context of device 0 current.
void OnDevice(const Body& body, const CreateOptions& options = {});
// Makes the primary context of device 0 current.
void Start(const Cuda& cu);

inline constexpr std::uint64_t kMegabyte = 1u << 20;

std::uint64_t FreeBytes(const Cuda& cu);
CUdeviceptr Allocate(const Cuda& cu, std::size_t bytes);
std::vector<std::uint32_t> ReadWords(const Cuda& cu, CUdeviceptr from, std::size_t count);
bool AllWordsAre(const Cuda& cu, CUdeviceptr from, std::size_t count, std::uint32_t value);

// fill(p, value): p[i] = value + i. add(p, value): p[tid] += value. spin(ns). store(p): *p = 7.
// await(p, value): waits until *p is value.
extern const char* const kTestKernels;
CUfunction FunctionNamed(const Cuda& cu, const char* name);

template <typename... Arguments>
CUresult Launch(const Cuda& cu, const char* name, unsigned blocks, unsigned threads, CUstream stream,
                Arguments... arguments) {
  void* pointers[] = {&arguments...};
  return cu.cuLaunchKernel(FunctionNamed(cu, name), blocks, 1, 1, threads, 1, 1, 0, stream, pointers,
                           nullptr);
}

}  // namespace gpuman::sim::cuda
