#include "daemon/driver_limits/driver_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using enum DriverLimitOutcome;

constexpr const char* kTree = "/sys/fs/cgroup";
constexpr const char* kGroup = "/sys/fs/cgroup/gpuman/job-1-x";
constexpr base::JobId kJob{1};

class DriverLimitsOfJobTest : public ::testing::Test {
 protected:
  DriverLimitsOfJobTest() {
    job_.id = kJob;
    job_.cgroup = kGroup;
    Spec([](spec::JobSpec& spec) { spec.memory = base::SizeSpec{base::GiB(4), 0}; });
    inventory_.gpus = {Gpu("GPU-a"), Gpu("GPU-b")};
  }
  static gpu::Gpu Gpu(const char* uuid) {
    gpu::Gpu gpu;
    gpu.uuid = uuid;
    gpu.memory = base::GiB(16);
    return gpu;
  }
  template <typename Change>
  void Spec(Change change) {
    auto spec = *job_.spec;
    change(spec);
    job_.spec = jobs::Shared<spec::JobSpec>(std::move(spec));
  }
  std::map<std::string, base::Bytes> Limits() const { return DriverLimitsOf(job_, inventory_, kTree); }

  jobs::Job job_;
  gpu::Inventory inventory_;
};

TEST_F(DriverLimitsOfJobTest, LimitIsSetOnEachGpuOfJob) {
  EXPECT_THAT(Limits(), ElementsAre(Pair("GPU-a", base::GiB(4)), Pair("GPU-b", base::GiB(4))));
  job_.gpus = {"GPU-b"};
  EXPECT_THAT(Limits(), ElementsAre(Pair("GPU-b", base::GiB(4))));
  Spec([](spec::JobSpec& spec) { spec.memory = base::SizeSpec{{}, 50}; });
  EXPECT_THAT(Limits(), ElementsAre(Pair("GPU-b", base::GiB(8))));
}

TEST_F(DriverLimitsOfJobTest, NoLimitIsSetWithoutOneOrAboveGpuMemory) {
  Spec([](spec::JobSpec& spec) { spec.memory = base::SizeSpec{base::GiB(16), 0}; });
  EXPECT_THAT(Limits(), IsEmpty());
  Spec([](spec::JobSpec& spec) { spec.memory.reset(); });
  EXPECT_THAT(Limits(), IsEmpty());
}

TEST_F(DriverLimitsOfJobTest, NoLimitIsSetWithoutCgroupVersion2) {
  job_.cgroup = "/sys/fs/cgroup2/job";
  EXPECT_THAT(Limits(), IsEmpty());
  job_.cgroup = kTree;
  EXPECT_THAT(Limits(), IsEmpty()) << "that of the machine is no job's";
  job_.cgroup.clear();
  EXPECT_THAT(Limits(), IsEmpty());
  job_.cgroup = kGroup;
  EXPECT_THAT(DriverLimitsOf(job_, inventory_, ""), IsEmpty());
}

TEST_F(DriverLimitsOfJobTest, NoLimitIsSetForJobWhoseMemoryCanBeEvicted) {
  const auto before = *job_.spec;
  Spec([](spec::JobSpec& spec) { spec.share = true; });
  EXPECT_THAT(Limits(), IsEmpty());
  job_.spec = before;
  Spec([](spec::JobSpec& spec) { spec.mps = true; });
  EXPECT_THAT(Limits(), IsEmpty());
  job_.spec = before;
  job_.gated = true;
  EXPECT_THAT(Limits(), IsEmpty());
}

TEST_F(DriverLimitsOfJobTest, NoLimitIsSetOnInstancesAndSplitGpus) {
  inventory_.gpus[0].split = true;
  inventory_.gpus[1].mig = gpu::Instance{};
  EXPECT_THAT(Limits(), IsEmpty());
}

TEST_F(DriverLimitsOfJobTest, NoLimitIsSetForJobWithoutGpus) {
  job_.queued = true;
  EXPECT_THAT(Limits(), IsEmpty());
}

class DriverLimitsTest : public ::testing::Test {
 protected:
  DriverLimits::Orders Want(const std::map<std::string, base::Bytes>& wanted, const char* group = kGroup) {
    return limits_.Want(kJob, group, wanted);
  }
  static DriverLimitOrder Order(std::optional<base::Bytes> limit, const char* group = kGroup,
                                const char* gpu = "a") {
    return {kJob, group, gpu, limit};
  }

  DriverLimits limits_;
};

TEST_F(DriverLimitsTest, SameLimitIsOrderedOnce) {
  EXPECT_EQ(limits_.Holds(kJob), std::nullopt);
  EXPECT_THAT(Want({{"a", base::GiB(1)}}), ElementsAre(Order(base::GiB(1))));
  EXPECT_EQ(limits_.Holds(kJob), false) << "it is under way";
  EXPECT_THAT(Want({{"a", base::GiB(1)}}), IsEmpty());
  EXPECT_EQ(limits_.Finish(Order(base::GiB(1)), kDone), std::nullopt);
  EXPECT_EQ(limits_.Holds(kJob), true);
  EXPECT_THAT(Want({{"a", base::GiB(1)}}), IsEmpty());
}

TEST_F(DriverLimitsTest, LastLimitIsOrderedAfterTheCallUnderWay) {
  Want({{"a", base::GiB(1)}});
  EXPECT_THAT(Want({{"a", base::GiB(2)}}), IsEmpty());
  EXPECT_THAT(Want({{"a", base::GiB(3)}}), IsEmpty());
  EXPECT_EQ(limits_.Finish(Order(base::GiB(1)), kDone), Order(base::GiB(3)));
  EXPECT_EQ(limits_.Holds(kJob), false);
  EXPECT_EQ(limits_.Finish(Order(base::GiB(3)), kDone), std::nullopt);
  EXPECT_EQ(limits_.Holds(kJob), true);
}

TEST_F(DriverLimitsTest, RemovalIsOrderedAfterTheCallUnderWay) {
  Want({{"a", base::GiB(1)}});
  EXPECT_THAT(Want({}), IsEmpty());
  EXPECT_EQ(limits_.Holds(kJob), std::nullopt);
  EXPECT_EQ(limits_.Finish(Order(base::GiB(1)), kDone), Order(std::nullopt));
  EXPECT_EQ(limits_.Finish(Order(std::nullopt), kDone), std::nullopt);
  EXPECT_THAT(Want({}), IsEmpty());
}

TEST_F(DriverLimitsTest, EachGpuHasItsOwnOrder) {
  EXPECT_THAT(Want({{"a", base::GiB(1)}, {"b", base::GiB(1)}}),
              ElementsAre(Order(base::GiB(1)), Order(base::GiB(1), kGroup, "b")));
  limits_.Finish(Order(base::GiB(1)), kDone);
  EXPECT_EQ(limits_.Holds(kJob), false) << "b is under way";
  limits_.Finish(Order(base::GiB(1), kGroup, "b"), kDone);
  EXPECT_EQ(limits_.Holds(kJob), true);
  EXPECT_THAT(Want({{"b", base::GiB(1)}}), ElementsAre(Order(std::nullopt)));
  EXPECT_THAT(Want({{"b", base::GiB(1)}}, "/other"),
              ElementsAre(Order(std::nullopt, kGroup, "b"), Order(base::GiB(1), "/other", "b")));
}

TEST_F(DriverLimitsTest, RefusedLimitIsNotOrderedAgainUntilItChanges) {
  Want({{"a", base::GiB(1)}});
  EXPECT_EQ(limits_.Finish(Order(base::GiB(1)), kRefused), std::nullopt);
  EXPECT_EQ(limits_.Holds(kJob), false);
  EXPECT_THAT(Want({{"a", base::GiB(1)}}), IsEmpty());
  EXPECT_THAT(Want({{"a", base::GiB(2)}}), ElementsAre(Order(base::GiB(2))));
  limits_.Finish(Order(base::GiB(2)), kDone);
  EXPECT_EQ(limits_.Holds(kJob), true);
}

TEST_F(DriverLimitsTest, RemovalIsOrderedAfterRefusedChange) {
  Want({{"a", base::GiB(1)}});
  limits_.Finish(Order(base::GiB(1)), kDone);
  Want({{"a", base::GiB(2)}});
  limits_.Finish(Order(base::GiB(2)), kRefused);
  EXPECT_THAT(Want({}), ElementsAre(Order(std::nullopt))) << "the former one holds";
}

TEST_F(DriverLimitsTest, JobWithoutLimitNeedsNoOrder) {
  EXPECT_THAT(Want({}), IsEmpty());
  EXPECT_EQ(limits_.Finish(Order(base::GiB(1)), kDone), std::nullopt);
}

}  // namespace
}  // namespace gpuman::daemon
