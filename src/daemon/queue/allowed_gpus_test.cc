#include "daemon/queue/allowed_gpus.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpuman::daemon {
namespace {

gpu::Gpu Whole(unsigned index, const char* uuid) { return {index, uuid, "H200", "", base::GiB(80)}; }

gpu::Gpu Part(unsigned index, unsigned number, const char* uuid, const char* parent) {
  gpu::Gpu gpu{index, uuid, "H200 MIG", "", base::GiB(10)};
  gpu.mig.emplace().parent = parent;
  gpu.mig->number = number;
  return gpu;
}

using Names = std::vector<std::string>;
using Uuids = std::set<std::string>;

const std::vector<gpu::Gpu> kWhole{Whole(0, "GPU-aaaa"), Whole(1, "GPU-bbbb"), Whole(2, "GPU-cccc")};
const std::vector<gpu::Gpu> kSplit{Whole(0, "GPU-aaaa"), Part(0, 0, "MIG-0000", "GPU-aaaa"),
                                   Part(0, 1, "MIG-0001", "GPU-aaaa"), Whole(1, "GPU-bbbb")};

AllowedGpus After(const std::vector<gpu::Gpu>& gpus, const AllowedGpus& before, const Names& allow,
                  const Names& restrict_these) {
  const auto after = ChangeAllowed(gpus, before, allow, restrict_these);
  if (!after) ADD_FAILURE() << after.error().message;
  return after.value_or(Uuids{"none"});
}

TEST(AllowedGpusTest, RestrictRemovesFromWhatIsAllowedAndAllowAddsToIt) {
  EXPECT_EQ(After(kWhole, std::nullopt, {}, {"2"}), (Uuids{"GPU-aaaa", "GPU-bbbb"}));
  EXPECT_EQ(After(kWhole, Uuids{"GPU-aaaa", "GPU-bbbb"}, {}, {"0"}), (Uuids{"GPU-bbbb"}));
  EXPECT_EQ(After(kWhole, Uuids{"GPU-bbbb"}, {"GPU-aaaa"}, {}), (Uuids{"GPU-aaaa", "GPU-bbbb"}));
  EXPECT_EQ(After(kWhole, Uuids{"GPU-bbbb"}, {"0"}, {"1"}), (Uuids{"GPU-aaaa"}));
  EXPECT_EQ(After(kWhole, Uuids{"GPU-bbbb"}, {}, {"1"}), Uuids{});
}

TEST(AllowedGpusTest, WhereAllAreAllowedThereIsNoListAnyMore) {
  EXPECT_EQ(After(kWhole, Uuids{"GPU-aaaa", "GPU-bbbb"}, {"2"}, {}), std::nullopt);
  EXPECT_EQ(After(kWhole, std::nullopt, {"2"}, {}), std::nullopt);
}

TEST(AllowedGpusTest, AGpuStandsForItsInstances) {
  EXPECT_EQ(After(kSplit, std::nullopt, {}, {"0:0"}), (Uuids{"GPU-bbbb", "MIG-0001"}));
  EXPECT_EQ(After(kSplit, Uuids{"GPU-bbbb", "MIG-0001"}, {"0:0"}, {"1"}), (Uuids{"MIG-0000", "MIG-0001"}));
  EXPECT_EQ(After(kSplit, Uuids{"MIG-0001"}, {"0"}, {}), (Uuids{"GPU-aaaa", "MIG-0000", "MIG-0001"}))
      << "also for those that are made later";
  EXPECT_EQ(After(kSplit, Uuids{"GPU-bbbb", "MIG-0001"}, {"0"}, {}), std::nullopt);
  EXPECT_EQ(After(kSplit, std::nullopt, {}, {"0"}), (Uuids{"GPU-bbbb"}));
}

TEST(AllowedGpusTest, AGpuThatIsAwayStaysAsItWas) {
  EXPECT_EQ(After(kWhole, Uuids{"GPU-aaaa", "GPU-away", "MIG-gone"}, {"1"}, {}),
            (Uuids{"GPU-aaaa", "GPU-away", "GPU-bbbb"}));
}

TEST(AllowedGpusTest, ANameOfNoGpuChangesNothing) {
  const auto after = ChangeAllowed(kWhole, std::nullopt, Names{"0", "9"}, {});
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, base::ErrorCode::kNotFound);
  EXPECT_FALSE(ChangeAllowed(kWhole, std::nullopt, {}, Names{"9"}));
}

}  // namespace
}  // namespace gpuman::daemon
