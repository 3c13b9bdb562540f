#include "daemon/shims/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::daemon {
namespace {

using testing::HasSubstr;
using testing::Not;

gpu::Inventory OneGpu() {
  gpu::Inventory inventory;
  inventory.gpus.push_back({0, "GPU-0", "H200", "", base::GiB(100)});
  return inventory;
}

jobs::Job Hog() {
  jobs::Job job;
  job.id = {7};
  job.tag = "hog";
  job.state = spec::JobState::kRunning;
  job.refusal = jobs::RefusedAllocation{"GPU-0", base::MiB(256), base::MiB(900), base::GiB(1), "limit", {}};
  return job;
}

TEST(Refusals, SentenceHasNumbersAndCommandToRaiseLimit) {
  EXPECT_EQ(Sentence(Hog(), *Hog().refusal, OneGpu()),
            "256MiB was refused at its limit of 1GiB on GPU 0, of which it used 900MiB; `gpuman update hog "
            "--memory SIZE` gives it more");
}

TEST(Refusals, SentenceOfEndedJobNamesRestartCommand) {
  jobs::Job job = Hog();
  job.state = spec::JobState::kStopping;
  job.verdict = spec::JobState::kFailed;
  EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), HasSubstr("gpuman restart hog --memory SIZE"));
  job.spec.Change([](auto& spec) { spec.restart = spec::RestartMode::kAlways; });
  EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), HasSubstr("gpuman update hog")) << "it runs again";
  job.state = spec::JobState::kFailed;
  job.queued = true;
  EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), HasSubstr("gpuman job redo 7 --memory SIZE"));
}

TEST(Refusals, SentenceOfSharedOrFullGpuSuggestsNoLargerLimit) {
  for (const auto* by : {"sharing", "device"}) {
    jobs::Job job = Hog();
    job.refusal->by = by;
    EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), Not(HasSubstr("--memory"))) << by;
  }
}

TEST(Refusals, SentenceOfRequestAboveGpuMemoryNamesItsTotal) {
  for (const auto* by : {"limit", "sharing", "device"}) {
    jobs::Job job = Hog();
    job.refusal->by = by;
    job.refusal->asked = base::GiB(200);
    EXPECT_EQ(Sentence(job, *job.refusal, OneGpu()),
              "200GiB was refused on GPU 0, which has 100GiB in all; with `gpuman run --oversubscribe` a "
              "process may have more than its GPU, which is slow")
        << by;
  }
}

TEST(Refusals, RefusalExplainsFailedJobOnly) {
  jobs::Job job = Hog();
  job.verdict = spec::JobState::kFailed;
  job.reason = "exit_status";
  job.reason_detail = "ended with exit status 3";
  Explain(job, OneGpu(), {});
  EXPECT_EQ(job.reason, "memory_refused");
  EXPECT_THAT(*job.reason_detail, HasSubstr("ended with exit status 3; 256MiB was refused at its limit"));
  for (const auto verdict :
       {spec::JobState::kFinished, spec::JobState::kKilled, spec::JobState::kCancelled}) {
    job = Hog();
    job.verdict = verdict;
    Explain(job, OneGpu(), {});
    EXPECT_FALSE(job.reason_detail) << spec::ToString(verdict);
    EXPECT_FALSE(job.reason) << spec::ToString(verdict);
  }
}

TEST(Refusals, EarlyRefusalOrOtherReasonDoesNotExplainTheEnd) {
  const std::pair<const char*, std::chrono::seconds> kCases[] = {
      {"exit_status", std::chrono::seconds(61)}, {"signal", std::chrono::seconds(61)}, {"keeper_lost", {}}};
  for (const auto& [word, later] : kCases) {
    jobs::Job job = Hog();
    job.verdict = spec::JobState::kFailed;
    job.reason = word;
    Explain(job, OneGpu(), job.refusal->at + later);
    EXPECT_EQ(job.reason, word);
    EXPECT_THAT(*job.reason_detail, HasSubstr("256MiB was refused")) << word;
  }
}

TEST(Refusals, ForgedRefusalTimeIsBounded) {
  ledger::FirstAndLastRefusal seen;
  const base::MonoTime now{std::chrono::hours(5)};
  const base::WallTime wall{std::chrono::hours(500'000)};
  for (const std::uint64_t at : {std::uint64_t{0}, UINT64_MAX, std::uint64_t{1} << 63}) {
    seen.last.at = at;
    EXPECT_LE(RefusalOf(seen, now, wall).at, wall) << at;
    EXPECT_GE(RefusalOf(seen, now, wall).at, wall - std::chrono::hours(24 * 367)) << at;
  }
  seen.last.at = static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::hours(4)).count());
  EXPECT_EQ(RefusalOf(seen, now, wall).at, wall - std::chrono::hours(1));
}

TEST(Refusals, SentenceHasCountAndMemoryParts) {
  ledger::FirstAndLastRefusal seen;
  seen.last = {"GPU-0",      14, ledger::wire::RefusedBy::kLimit, base::MiB(256), false, base::MiB(900),
               base::GiB(1), 0};
  jobs::Job job = Hog();
  job.refusal = RefusalOf(seen, {}, {});
  EXPECT_EQ(job.refusal->count, std::nullopt) << "the first one is not known";
  EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), HasSubstr("of which it used 900MiB; `"));
  seen.first = {"GPU-0",      3, ledger::wire::RefusedBy::kLimit, base::MiB(64), false, base::MiB(700),
                base::GiB(1), 0};
  seen.last.parts =
      base::MemoryParts{base::MiB(500), base::MiB(200), base::MiB(50), {}, base::MiB(100), {}, base::MiB(50)};
  seen.last.pools_unused = base::MiB(30);
  seen.first->parts = base::MemoryParts{base::MiB(700), {}, {}, {}, {}, {}, {}};
  seen.first->pools_unused = base::MiB(20);
  seen.first->device_free = base::GiB(7);
  job.refusal = RefusalOf(seen, {}, {});
  EXPECT_EQ(job.refusal->count, 12);
  EXPECT_EQ(job.refusal->first->asked, base::MiB(64));
  EXPECT_THAT(
      Sentence(job, *job.refusal, OneGpu()),
      HasSubstr("of which it used 900MiB (500MiB in allocations, 200MiB in pools, 30MiB of them "
                "unused, 150MiB in contexts and code); the run was refused memory 12 times there; `"));
  const auto view = ViewOf(job, *job.refusal, OneGpu());
  EXPECT_EQ(view.count, 12);
  EXPECT_EQ(view.first->used, base::MiB(700));
  EXPECT_EQ(view.first->parts, seen.first->parts);
  EXPECT_EQ(view.first->pools_unused, base::MiB(20));
  EXPECT_EQ(view.first->device_free, base::GiB(7));
  EXPECT_EQ(view.parts, seen.last.parts);
  seen.last.is_context = true;
  job.refusal = RefusalOf(seen, {}, {});
  EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), HasSubstr("a context of 256MiB was refused at its"));
  job.refusal->asked = {};
  job.refusal->by = "device";
  EXPECT_THAT(Sentence(job, *job.refusal, OneGpu()), HasSubstr("a context was refused on GPU 0, where it"));
  seen.last.number = UINT64_MAX;
  EXPECT_EQ(RefusalOf(seen, {}, {}).count, std::nullopt) << "a program has written that";
}

TEST(RefusalEventLimiter, EventIsLimitedPerJob) {
  RefusalEventLimiter teller;
  const base::MonoTime now{std::chrono::hours(5)};
  EXPECT_TRUE(teller.Tells({1}, now));
  EXPECT_FALSE(teller.Tells({1}, now + std::chrono::seconds(1)));
  EXPECT_TRUE(teller.Tells({2}, now));
  EXPECT_TRUE(teller.Tells({1}, now + RefusalEventLimiter::kAtMostEvery));
}

}  // namespace
}  // namespace gpuman::daemon
