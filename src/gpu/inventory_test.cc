#include "gpu/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::gpu {
namespace {

using base::ErrorCode;
using testing::HasSubstr;

const std::vector<Gpu> kGpus = {
    {0, "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", "NVIDIA H200", "00000000:00:06.0", base::GiB(140)},
    {1, "GPU-93f6aaaa-0000-0000-0000-000000000001", "NVIDIA H200", "00000000:00:07.0", base::GiB(140)},
    {2, "GPU-12345678-0000-0000-0000-000000000002", "NVIDIA A100", "00000000:00:08.0", base::GiB(40)},
};

TEST(Select, TakesIndexUuidAndBeginningOfOne) {
  const struct {
    const char* what;
    unsigned index;
  } table[] = {
      {"0", 0},
      {"2", 2},
      {"GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", 0},
      {"gpu-93F6E897-3b2d-3c8a-a1c7-4a689d9a62b6", 0},
      {"93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6", 0},
      {"GPU-93f6a", 1},
      {"93f6a", 1},
      {"12345678", 2},  // digits, but too many for an index
  };
  for (const auto& row : table) {
    const auto gpu = Select(kGpus, row.what);
    ASSERT_TRUE(gpu) << row.what << ": " << gpu.error().message;
    EXPECT_EQ(gpu->index, row.index) << row.what;
  }
}

TEST(Select, SaysWhatIsWrongAndWhichGpusExist) {
  const struct {
    const char* what;
    ErrorCode code;
    const char* message;
  } table[] = {
      {"3", ErrorCode::kNotFound, "no GPU 3"},
      {"99999999999999999999999", ErrorCode::kNotFound, "no GPU"},
      {"-1", ErrorCode::kNotFound, "no GPU '-1'"},
      {"", ErrorCode::kInvalidArgument, "empty"},
      {"93f", ErrorCode::kNotFound, "no GPU '93f'"},  // too short to be meant
      {"93f6", ErrorCode::kInvalidArgument, "fits 2 GPUs"},
      {"GPU-", ErrorCode::kNotFound, "no GPU 'GPU-'"},
      {"GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6x", ErrorCode::kNotFound, "no GPU"},
  };
  for (const auto& row : table) {
    const auto gpu = Select(kGpus, row.what);
    ASSERT_FALSE(gpu) << row.what;
    EXPECT_EQ(gpu.error().code, row.code) << row.what;
    EXPECT_THAT(gpu.error().message, HasSubstr(row.message));
    EXPECT_THAT(gpu.error().hint, HasSubstr("0 (GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6), 1 (GPU-93f6aaaa"));
  }
  EXPECT_THAT(Select({}, "0").error().hint, HasSubstr("no GPU that gpuman can see"));
}

TEST(SelectAll, KeepsTheOrderAndDropsRepetitions) {
  const std::vector<std::string> what = {"2", "0", "12345678", "GPU-93f6e"};
  const auto gpus = SelectAll(kGpus, what);
  ASSERT_TRUE(gpus);
  EXPECT_EQ(*gpus, (std::vector<Gpu>{kGpus[2], kGpus[0]}));
  EXPECT_EQ(SelectAll(kGpus, std::vector<std::string>{"0", "7"}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::gpu
