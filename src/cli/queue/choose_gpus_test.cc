#include "cli/queue/choose_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::cli::queue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChooseGpusForSharingTest : public ::testing::Test {
 protected:
  ChooseGpusForSharingTest() {
    for (int i = 0; i < 4; ++i) {
      api::QueueGpu gpu;
      gpu.index = i;
      gpu.uuid = "gpu" + std::to_string(i);
      gpu.memory = api::MemoryView{base::GiB(80), {}, base::GiB(80), {}};
      info_.gpus.push_back(gpu);
    }
  }
  void Runs(const std::vector<std::size_t>& gpus, bool share) {
    api::JobView job;
    job.id = static_cast<std::int64_t>(jobs_.size()) + 1;
    job.options.share = share;
    for (const std::size_t gpu : gpus) info_.gpus[gpu].jobs.push_back(job.id);
    jobs_.push_back(job);
  }
  auto Choose(std::size_t count) { return ChooseGpusForTurns(info_, jobs_, count); }

  api::QueueInfo info_;
  std::vector<api::JobView> jobs_;
};

TEST_F(ChooseGpusForSharingTest, GpusWithFewestSharingJobsAreTaken) {
  Runs({0, 1}, true);
  EXPECT_THAT(*Choose(2), ElementsAre("gpu2", "gpu3"));
  Runs({2, 3}, true);
  Runs({1}, true);
  EXPECT_THAT(*Choose(3), ElementsAre("gpu0", "gpu2", "gpu3"));
}

TEST_F(ChooseGpusForSharingTest, GpuWithMoreFreeMemoryIsTakenAmongEquals) {
  info_.gpus[0].memory->free = base::GiB(10);
  info_.gpus[1].memory.reset();
  EXPECT_THAT(*Choose(3), ElementsAre("gpu0", "gpu2", "gpu3"));
}

TEST_F(ChooseGpusForSharingTest, GpusOfTheSameJobsAreTakenTogetherAmongEquals) {
  Runs({0, 2}, true);
  Runs({1, 3}, true);
  info_.gpus[3].memory->free = base::GiB(79);
  info_.gpus[2].memory->free = base::GiB(78);
  info_.gpus[0].memory->free = base::GiB(77);
  EXPECT_THAT(*Choose(2), ElementsAre("gpu1", "gpu3"));
  info_.gpus[1].memory->free = info_.gpus[3].memory->free = base::GiB(10);
  EXPECT_THAT(*Choose(2), ElementsAre("gpu0", "gpu2"));
}

TEST_F(ChooseGpusForSharingTest, GpuOfExclusiveJobIsNotTaken) {
  Runs({0}, false);
  Runs({0, 1}, true);
  info_.gpus[2].jobs.push_back(77);  // it has come meanwhile
  EXPECT_THAT(*Choose(2), ElementsAre("gpu1", "gpu3"));
  EXPECT_FALSE(Choose(3));
}

TEST_F(ChooseGpusForSharingTest, DrainedRestrictedAndSplitGpusAreNotTakenAndShortageIsRefused) {
  info_.gpus[0].state = "drained";
  info_.gpus[1].state = "restricted";
  info_.gpus[2].state = "split";
  EXPECT_THAT(*Choose(1), ElementsAre("gpu3"));
  const auto refused = Choose(2);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("of 4 GPUs 1 can be shared by turns now, and it asks for 2"));
}

}  // namespace
}  // namespace gpuman::cli::queue
