#include "daemon/containers/allocation_match.h"

#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

const std::string kContainerId(64, 'a');

api::ContainerAllocation Allocated(const std::string& pod, const std::string& container,
                                   std::optional<base::Bytes> memory) {
  return {"team", pod, container, "gpuman.io/gpumem-gib", {"GPU-a"}, memory, false, std::nullopt};
}

const std::vector<api::ContainerAllocation> kTable{
    Allocated("one", "main", base::GiB(4)), Allocated("two", "big", std::nullopt),
    Allocated("two", "small", base::GiB(1)), Allocated("two", "middle", base::GiB(2))};

struct MatchRow {
  std::string what;
  ContainerNameState known;
  std::string held;  // the container that already has a job
  bool wait;
  std::string given;  // empty: nothing
};

TEST(MatchContainer, GoesByTheNameAndByThePodWhereThereIsNone) {
  const PodName one{"team", "one"}, two{"team", "two"}, elsewhere{"other", "two"};
  const std::vector<MatchRow> rows = {
      {"its name", {ContainerName{two, "big"}, two, true}, "", false, "big"},
      {"its name, anew", {ContainerName{two, "big"}, two, true}, "big", false, "big"},
      {"a container beside it", {ContainerName{two, "proxy"}, two, true}, "", false, ""},
      {"a pod of the same name", {ContainerName{elsewhere, "big"}, elsewhere, true}, "", false, ""},
      {"its name is not there yet", {{}, two, true}, "", true, ""},
      {"nor is anything of its pod", {{}, {}, true}, "", true, ""},
      {"its pod was given nothing", {{}, elsewhere, true}, "", false, ""},
      {"it started while the one before it ends", {{}, one, true}, "main", true, ""},
      {"its name stays away: the least", {{}, two, false}, "", false, "small"},
      {"the least that nobody has", {{}, two, false}, "small", false, "middle"},
      {"all have theirs", {{}, one, false}, "main", false, ""},
      {"its pod is not known", {{}, {}, false}, "", false, ""},
  };
  for (const auto& row : rows) {
    const auto match =
        MatchContainer(kTable, row.known, [&](const auto& given) { return given.container == row.held; });
    EXPECT_EQ(match.wait, row.wait) << row.what;
    EXPECT_EQ(match.given ? match.given->container : "", row.given) << row.what;
  }
}

TEST(TagOfContainer, SaysWhoItIsAndStaysATag) {
  EXPECT_EQ(TagOfContainer(kTable[0], kContainerId, false), "kube:team:one:main");
  EXPECT_EQ(TagOfContainer(kTable[0], kContainerId, true), "kube:team:one:main@aaaaaaaaaaaa");
  const auto tag = TagOfContainer(Allocated(std::string(200, 'p'), "main", {}), kContainerId, false);
  EXPECT_EQ(tag.size(), 64u);
  EXPECT_TRUE(tag.ends_with("p@aaaaaaaaaaaa")) << tag;
}

TEST(JobOfContainer, HasWhatTheContainerWasGiven) {
  gpu::Inventory inventory;
  inventory.gpus.push_back({0, "GPU-a", "NVIDIA A100", "", base::GiB(40), std::nullopt});
  const base::ProcessContainer container{
      {kContainerId, "uid", base::PodClass::kGuaranteed, "", "/kubepods/x"}, "/sys/fs/cgroup/kubepods/x"};
  auto given = kTable[0];
  const auto job = JobOfContainer(given, container, "kube:x", {"python", "train.py"}, inventory);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->spec->memory->Of(base::GiB(40)), base::GiB(4));
  EXPECT_EQ(job->gpus, std::vector<std::string>{"GPU-a"});
  ASSERT_TRUE(job->container);
  EXPECT_EQ(*job->container, (jobs::Container{"team", "one", "main", kContainerId}));
  EXPECT_EQ(job->cgroup, "/sys/fs/cgroup/kubepods/x");
  EXPECT_EQ(job->owner->uid, 0u) << "whatever user its processes are";
  EXPECT_GT(job->spec->priority, 128) << "a guaranteed pod";
  given.priority = 7;
  given.memory.reset();
  given.compute = spec::ComputeShare{25, true};
  EXPECT_FALSE(JobOfContainer(given, container, "kube:x", {}, inventory)->spec->compute) << "it has no turns";
  given.share = true;
  const auto shared = JobOfContainer(given, container, "kube:x", {}, inventory);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->spec->priority, 7);
  EXPECT_TRUE(shared->spec->share);
  EXPECT_EQ(shared->spec->compute, given.compute);
  EXPECT_FALSE(shared->spec->memory);
  given.gpus = {"GPU-gone"};
  EXPECT_EQ(JobOfContainer(given, container, "kube:x", {}, inventory).error().code,
            base::ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpuman::daemon
