#include "sim/state/state.h"

#include <fstream>

#include "sim/profiles/profiles.h"
#include "sim/state/test_state.h"

namespace gpuman::sim {
namespace {

TEST(CreateState, HoldsTheProfileOfEveryGpu) {
  TestState test({.profile = "h200", .gpus = 3});
  EXPECT_EQ(test.shared().gpus, 3u);
  EXPECT_STREQ(test.shared().gpu_static[0].uuid, "GPU-93f6e897-3b2d-3c8a-a1c7-4a689d9a62b6");
  EXPECT_STRNE(test.shared().gpu_static[0].uuid, test.shared().gpu_static[1].uuid);
  EXPECT_EQ(test.shared().cuda_version, 13000u);
}

TEST(CreateState, SecondStateAndUnknownProfileAreRefused) {
  TestState made;
  const std::string& directory = made.directory();
  EXPECT_FALSE(State::Create(directory, {}).has_value()) << "a second state in one directory";
  std::filesystem::remove(directory + "/state");
  EXPECT_THAT(State::Create(directory, {.profile = "v100"}).error(),
              ::testing::HasSubstr("rtx4050, a100, h200"));
  EXPECT_FALSE(State::Create(directory, {.gpus = kMaxGpus + 1}).has_value());
  EXPECT_FALSE(State::Create(directory, {.memory_total = 1 << 20}).has_value());
  EXPECT_FALSE(State::Create(directory, {.driver_version = "new"}).has_value());
  EXPECT_FALSE(State::Create(directory, {.driver_version = "469.1"}).has_value());
  EXPECT_FALSE(State::Create(directory, {.driver_version = "700.1"}).has_value());
  EXPECT_FALSE(State::Create(directory + "/none", {}).has_value());
  EXPECT_TRUE(std::filesystem::is_empty(directory)) << "a refused creation leaves nothing behind";
}

TEST(OpenState, MissingAndInvalidFilesAreRefused) {
  TestState test;
  EXPECT_TRUE(State::Open(test.directory()).has_value());
  EXPECT_FALSE(State::Open(test.directory() + "/none").has_value());
  std::ofstream(test.directory() + "/state", std::ios::trunc) << "text";
  EXPECT_FALSE(State::Open(test.directory()).has_value());
}

TEST(DriverVersions, AreParsedAndBringTheirCuda) {
  ASSERT_TRUE(ParseDriverVersion("535.54"));
  EXPECT_EQ(ParseDriverVersion("580.159.04")->patch, 4u);
  EXPECT_EQ(CudaVersionOf({535, 54, 3}), 12020u);
  for (const char* bad : {"", "580", "580.", "a.b", "580.1.2.3", "580.-1", "99999.1"}) {
    EXPECT_FALSE(ParseDriverVersion(bad)) << bad;
  }
}

}  // namespace
}  // namespace gpuman::sim
