#include "daemon/shims/ledger_limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::string LimitedUuid(unsigned i) { return fmt::format("GPU-00000000-0000-0000-0000-{:012}", i); }

gpu::Inventory Machine(unsigned gpus) {
  gpu::Inventory inventory;
  for (unsigned i = 0; i < gpus; ++i)
    inventory.gpus.push_back({i, LimitedUuid(i), "H200", "", base::GiB(100)});
  return inventory;
}

TEST(LedgerLimits, EachGpuGetsTheLimitOfTheJob) {
  jobs::Job job;
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("50%").value(); });
  job.spec.Change([](auto& spec) { spec.soft = base::ParseSize("1GiB").value(); });
  job.gpus = {LimitedUuid(1)};
  const ledger::GpuLimit wanted{LimitedUuid(1), base::GiB(50), base::GiB(1), {}};
  EXPECT_THAT(LedgerLimitsOf(job, Machine(3)), testing::Contains(wanted));
  EXPECT_THAT(LedgerLimitsOf(job, Machine(3)), SizeIs(3)) << "it may be moved";
}

TEST(LedgerLimits, JobWithoutLimitsListsAllGpusUnlimited) {
  EXPECT_THAT(LedgerLimitsOf({}, Machine(1)), ElementsAre(ledger::GpuLimit{LimitedUuid(0), {}, {}, {}}));
  EXPECT_THAT(LedgerLimitsOf({}, Machine(0)), IsEmpty());
  EXPECT_THAT(LedgerLimitsOf({}, Machine(17)), SizeIs(16)) << "there is room for no more";
}

TEST(LedgerLimits, InstancesOfTheJobGetTheLimit) {
  auto machine = Machine(2);
  machine.gpus[0].split = true;
  for (unsigned number : {0u, 1u}) {
    gpu::Gpu instance{0, fmt::format("MIG-00000000-0000-0000-0000-{:012}", number), "H200 MIG 1g.18gb", "",
                      base::GiB(16)};
    instance.mig = gpu::Instance{LimitedUuid(0), number, number, 0, "1g.18gb"};
    machine.gpus.insert(machine.gpus.begin() + 1 + number, instance);
  }
  jobs::Job job;
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("50%").value(); });
  job.gpus = {machine.gpus[2].uuid};
  const auto limits = LedgerLimitsOf(job, machine);
  ASSERT_THAT(limits, SizeIs(3));
  EXPECT_EQ(limits[0], (ledger::GpuLimit{machine.gpus[2].uuid, base::GiB(8), {}, {}}));
  EXPECT_EQ(limits[1].uuid, LimitedUuid(0));
  EXPECT_THAT(LedgerLimitsOf({}, machine), SizeIs(2)) << "it has the GPU that is whole";
  machine.gpus.pop_back();
  EXPECT_EQ(LedgerLimitsOf({}, machine)[0].uuid, machine.gpus[1].uuid) << "it has the first instance";
}

TEST(WideLimit, NoticeIsGivenWhereAThirdOfTheLimitWasUsed) {
  jobs::Job job;
  job.gpus = {LimitedUuid(1)};
  EXPECT_FALSE(WideLimit(job, Machine(2), base::GiB(1))) << "it has no limit";
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("24GiB").value(); });
  EXPECT_EQ(
      WideLimit(job, Machine(2), base::GiB(8)),
      (jobs::JobNotice{"limit_above_need",
                       "its limit was 24GiB on each GPU, and it used 8GiB at most: `--memory 8.8GiB` is "
                       "enough for such a run",
                       {{"limit", std::int64_t{24} << 30},
                        {"peak", std::int64_t{8} << 30},
                        {"enough", std::int64_t{9024} << 20}}}));
  EXPECT_FALSE(WideLimit(job, Machine(2), base::Bytes{base::GiB(8).count + 1}));
  EXPECT_FALSE(WideLimit(job, Machine(2), base::Bytes{})) << "it used no GPU";
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("90%").value(); });
  EXPECT_TRUE(WideLimit(job, Machine(2), base::GiB(30)));
  EXPECT_FALSE(WideLimit(job, Machine(0), base::GiB(1))) << "no GPU is known";
}

TEST(TightLimit, NoticeIsGivenForGpuOfRunningJob) {
  const auto machine = Machine(2);
  const auto context_on = [](const std::string& uuid) {
    return uuid == LimitedUuid(0) ? std::optional(base::MiB(530)) : std::nullopt;
  };
  jobs::Job job;
  job.state = spec::JobState::kRunning;
  EXPECT_FALSE(TightLimit(job, machine, context_on)) << "it has no limit";
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("512MiB").value(); });
  EXPECT_EQ(TightLimit(job, machine, context_on),
            "its limit of 512MiB is less than a CUDA context takes on GPU 0 (530MiB): programs that use CUDA "
            "will be "
            "out of memory at once");
  job.gpus = {LimitedUuid(1)};
  EXPECT_FALSE(TightLimit(job, machine, context_on)) << "what one costs there is not known";
  job.gpus = {LimitedUuid(0)};
  EXPECT_TRUE(TightLimit(job, machine, context_on));
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("1GiB").value(); });
  EXPECT_FALSE(TightLimit(job, machine, context_on));
}

TEST(TightLimit, NoticeIsGivenForWaitingJobThatFitsOnNoGpu) {
  jobs::Job job;
  job.state = spec::JobState::kQueued;
  job.spec.Change([](auto& spec) { spec.memory = base::ParseSize("512MiB").value(); });
  const auto on_the_first = [](const std::string& uuid) {
    return uuid == LimitedUuid(0) ? std::optional(base::MiB(530)) : std::nullopt;
  };
  const auto less_on_the_second = [](const std::string& uuid) {
    return std::optional(uuid == LimitedUuid(0) ? base::MiB(530) : base::MiB(400));
  };
  EXPECT_TRUE(TightLimit(job, Machine(2), on_the_first)) << "nothing is known of the second";
  EXPECT_FALSE(TightLimit(job, Machine(2), less_on_the_second));
}

TEST(OverLimit, NoticeNamesTimeAtWhichJobIsEnded) {
  const auto said = [](const api::JobView& view) {
    return OverLimit(view, base::MiB(256), base::Millis(10'000)).value_or("");
  };
  api::JobView view;
  view.state = spec::JobState::kRunning;
  view.memory.used = base::MiB(1536);
  view.unshimmed.emplace();
  EXPECT_EQ(said(view), "") << "it has no limit";
  view.memory.limit = base::MiB(1536);
  EXPECT_EQ(said(view), "");
  view.memory.limit = base::MiB(1280);
  EXPECT_EQ(said(view), "") << "contexts may take that";
  view.memory.limit = base::MiB(1024);
  EXPECT_EQ(
      said(view),
      "it uses 1.5GiB, more than its limit of 1GiB: it is ended unless it gives memory back within 10s; "
      "gpuman update raises the limit");
  view.unshimmed = {41};
  EXPECT_THAT(said(view), testing::HasSubstr("limit of 1GiB: it is ended at once"));
  view.state = spec::JobState::kStopping;
  EXPECT_EQ(said(view), "");
}

TEST(Unshimmed, ProcessesWithoutSlotAreListed) {
  guard::GpuStatus status;
  status.processes = {{{1, 1}, base::JobId{7}}, {{2, 1}, base::JobId{7}}, {{3, 1}, base::JobId{8}}, {{4, 1}}};
  const std::map<std::string, guard::GpuStatus> gpus{{LimitedUuid(0), status}, {LimitedUuid(1), status}};
  const auto counts = [](base::JobId, base::ProcessId process) { return process.pid == 1; };
  EXPECT_THAT(UnshimmedOf({7}, gpus, counts), ElementsAre(2));
}

}  // namespace
}  // namespace gpuman::daemon
