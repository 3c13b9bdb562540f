#include "conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "h200_facts.h"
#include "kernels.h"
#include "pattern.h"

namespace gpuman::conformance {

const driver::CudaDriver* FindCuda() {
  static const auto cuda = driver::CudaDriver::Load();
  return cuda ? &*cuda : nullptr;
}

const driver::CudaDriver& Cuda() {
  const auto* cuda = FindCuda();
  if (!cuda) {
    std::fputs("conformance_test: no CUDA driver\n", stderr);
    std::abort();
  }
  return *cuda;
}

bool Simulated() { return std::getenv("GPUMAN_SIM_DIR") != nullptr; }

namespace {

bool OnAnH200() {
  std::array<char, 256> name{};
  return CU(cuInit, 0u) == abi::CUDA_SUCCESS &&
         CU(cuDeviceGetName, name.data(), static_cast<int>(name.size()), 0) == abi::CUDA_SUCCESS &&
         std::string_view(name.data()).find("H200") != std::string_view::npos;
}

}  // namespace

void Fact(const std::string& key, const std::string& value) {
  const auto known =
      std::find_if(kH200Facts.begin(), kH200Facts.end(), [&](const auto& fact) { return fact.first == key; });
  if (known != kH200Facts.end() && OnAnH200()) {
    EXPECT_EQ(known->second, value) << key;
  }
  std::printf("FACT %s = %s\n", key.c_str(), value.c_str());
  std::fflush(stdout);
  const char* path = std::getenv("GPUMAN_FACTS");
  if (!path) return;
  if (std::FILE* file = std::fopen(path, "ae")) {
    const nlohmann::json line{{"fact", key}, {"value", value}};
    std::fprintf(file, "%s\n", line.dump().c_str());
    std::fclose(file);
  }
}
void Fact(const std::string& key, std::uint64_t value) { Fact(key, std::to_string(value)); }
void Fact(const std::string& key, abi::CUresult value) { Fact(key, CudaErrorName(value)); }

std::uint64_t FreeBytes() {
  std::size_t free = 0, total = 0;
  EXPECT_OK(CU(cuMemGetInfo_v2, &free, &total));
  return free;
}

std::uint64_t TotalBytes() {
  std::size_t free = 0, total = 0;
  EXPECT_OK(CU(cuMemGetInfo_v2, &free, &total));
  return total;
}

abi::CUdevice WithContext::device_ = 0;
abi::CUcontext WithContext::context_ = nullptr;
abi::CUmodule WithContext::module_ = nullptr;

void WithContext::SetUpTestSuite() {
  ASSERT_OK(CU(cuInit, 0u));
  ASSERT_OK(CU(cuDeviceGet, &device_, 0));
  ASSERT_OK(CU(cuCtxCreate_v2, &context_, 0u, device_));
  ASSERT_OK(CU(cuModuleLoadData, &module_, load::kKernels));
}

void WithContext::TearDownTestSuite() {
  if (!context_) return;
  EXPECT_OK(CU(cuCtxDestroy_v2, context_));
  context_ = nullptr;
  module_ = nullptr;
}

void WithContext::SetUp() {
  ASSERT_NE(context_, nullptr) << "no context";
  ASSERT_OK(CU(cuCtxSetCurrent, context_));
}

void WithContext::TearDown() {
  if (context_ && CU(cuCtxSetCurrent, context_) == abi::CUDA_SUCCESS) {
    EXPECT_OK(CU(cuCtxSynchronize));
  }
}

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  EXPECT_OK(CU(cuMemAlloc_v2, &pointer_, bytes));
}
DeviceMemory::~DeviceMemory() {
  if (pointer_) CU(cuMemFree_v2, pointer_);
}

Stream::Stream(unsigned flags) { EXPECT_OK(CU(cuStreamCreate, &stream_, flags)); }
Stream::~Stream() {
  if (stream_) CU(cuStreamDestroy_v2, stream_);
}

namespace {

abi::CUresult Launch(abi::CUmodule module, const char* name, void** parameters, unsigned blocks,
                     unsigned threads, abi::CUstream stream) {
  abi::CUfunction function = nullptr;
  if (const auto result = CU(cuModuleGetFunction, &function, module, name); result != abi::CUDA_SUCCESS)
    return result;
  return CU(cuLaunchKernel, function, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream, parameters,
            static_cast<void**>(nullptr));
}

struct Words {
  std::uint64_t base, width, rows = 1, pitch;
};

}  // namespace

abi::CUresult Fill(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                   abi::CUstream stream) {
  Words w{base, bytes / 8, 1, bytes};
  std::array<void*, 5> parameters{&w.base, &w.width, &w.rows, &w.pitch, &seed};
  return Launch(module, "gpuman_fill", parameters.data(), 256, 256, stream);
}

abi::CUresult AddOne(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, abi::CUstream stream) {
  Words w{base, bytes / 8, 1, bytes};
  std::array<void*, 4> parameters{&w.base, &w.width, &w.rows, &w.pitch};
  return Launch(module, "gpuman_add", parameters.data(), 256, 256, stream);
}

abi::CUresult Spin(abi::CUmodule module, std::uint64_t nanoseconds, abi::CUstream stream) {
  std::array<void*, 1> parameters{&nanoseconds};
  return Launch(module, "gpuman_spin", parameters.data(), 1, 1, stream);
}

std::uint64_t Wrong(abi::CUmodule module, abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed,
                    std::uint64_t added) {
  std::array<std::uint64_t, 2> answer{0, UINT64_MAX};
  DeviceMemory out(sizeof answer);
  std::uint64_t address = out.get();
  Words w{base, bytes / 8, 1, bytes};
  std::array<void*, 7> parameters{&w.base, &w.width, &w.rows, &w.pitch, &seed, &added, &address};
  if (CU(cuMemcpyHtoD_v2, out.get(), answer.data(), sizeof answer) != abi::CUDA_SUCCESS ||
      Launch(module, "gpuman_check", parameters.data(), 256, 256, nullptr) != abi::CUDA_SUCCESS ||
      CU(cuMemcpyDtoH_v2, answer.data(), out.get(), sizeof answer) != abi::CUDA_SUCCESS)
    return UINT64_MAX;
  return answer[0];
}

std::uint64_t WrongOnHost(abi::CUdeviceptr base, std::size_t bytes, std::uint64_t seed, std::uint64_t added) {
  std::vector<std::uint64_t> words(bytes / 8);
  if (CU(cuMemcpyDtoH_v2, words.data(), base, words.size() * 8) != abi::CUDA_SUCCESS) return UINT64_MAX;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < words.size(); ++i) wrong += words[i] != load::PatternWord(i, seed, added);
  return wrong;
}

}  // namespace gpuman::conformance
