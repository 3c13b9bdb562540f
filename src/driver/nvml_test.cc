#include "driver/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::driver {
namespace {

using ::testing::HasSubstr;

TEST(DescribeNvmlStatus, TellsTheKindsApart) {
  struct Row {
    abi::nvmlReturn_t status;
    NvmlFailure failure;
    base::ErrorCode code;
  };
  const Row rows[] = {
      {abi::NVML_ERROR_FUNCTION_NOT_FOUND, NvmlFailure::kNoFunction, base::ErrorCode::kNotSupported},
      {abi::NVML_ERROR_NOT_SUPPORTED, NvmlFailure::kNotSupported, base::ErrorCode::kNotSupported},
      {abi::NVML_ERROR_NO_PERMISSION, NvmlFailure::kNoPermission, base::ErrorCode::kPermissionDenied},
      {abi::NVML_ERROR_GPU_IS_LOST, NvmlFailure::kGpuLost, base::ErrorCode::kUnavailable},
      {abi::NVML_ERROR_RESET_REQUIRED, NvmlFailure::kGpuLost, base::ErrorCode::kUnavailable},
      {abi::NVML_ERROR_DRIVER_NOT_LOADED, NvmlFailure::kNoDriver, base::ErrorCode::kUnavailable},
      {abi::NVML_ERROR_NOT_FOUND, NvmlFailure::kNotFound, base::ErrorCode::kNotFound},
      {abi::NVML_ERROR_UNKNOWN, NvmlFailure::kOther, base::ErrorCode::kInternal},
  };
  for (const Row& row : rows) {
    const NvmlError error = Nvml::Describe("nvmlDeviceGetName", row.status);
    EXPECT_EQ(error.failure, row.failure) << row.status;
    EXPECT_EQ(error.code, row.code) << row.status;
    EXPECT_EQ(error.status, row.status);
    EXPECT_THAT(error.message, HasSubstr("nvmlDeviceGetName"));
  }
}

TEST(DescribeNvmlStatus, NamesTheNumberOfAnErrorThatItDoesNotKnow) {
  const NvmlError error = Nvml::Describe("nvmlInit_v2", static_cast<abi::nvmlReturn_t>(77));
  EXPECT_THAT(error.message, HasSubstr("77"));
  EXPECT_EQ(error.failure, NvmlFailure::kOther);
}

TEST(NvmlError, BecomesAnErrorOfTheProductWhereOneIsReturned) {
  const auto function = []() -> base::Result<unsigned> {
    GPUMAN_ASSIGN(const auto nvml, Nvml::Load("/nowhere/libnvidia-ml.so.1"));
    GPUMAN_ASSIGN(const unsigned count, nvml->DeviceCount());
    return count;
  };
  const base::Result<unsigned> result = function();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, base::ErrorCode::kUnavailable);
  EXPECT_THAT(result.error().message, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace gpuman::driver
