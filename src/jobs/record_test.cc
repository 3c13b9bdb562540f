#include "jobs/record.h"

#include <gtest/gtest.h>

namespace gpuman::jobs {
namespace {

Job Full() {
  Job job;
  job.id = {42};
  job.tag = "train";
  job.owner = JobOwner{1000, 1001, {4, 27}, "lab1"};
  job.command = {"python", "a b", "\"quoted\""};
  job.directory = std::string("/home/lab1");
  job.environment = Variables{{"PATH", "/bin"}, {"EMPTY", ""}, {"UTF", "\u00e4"}};
  job.umask = 077;
  job.resource_limits = ResourceLimits{{7, {1024, UINT64_MAX}}};
  job.gpus = {"GPU-1", "GPU-2"};
  job.suspension = "{}";
  job.state = JobState::kStopping;
  job.reason = "memory_limit";
  job.reason_detail = "used 3 of 2";
  job.process = base::ProcessId{77, 88};
  job.keeper = base::ProcessId{76, 87};
  job.cgroup = "/sys/fs/cgroup/x";
  job.boot_id = "b";
  job.exit_code = 0;
  job.signal = 9;
  job.verdict = JobState::kKilled;
  job.peak = base::MiB(600);
  job.submitted_at = base::WallTime(base::Millis(1));
  job.started_at = base::WallTime(base::Millis(2));
  job.ended_at = base::WallTime(base::Millis(3));
  job.runs = 4;
  job.restarts = 3;
  job.incarnation = 2;
  job.journal_seq = 9;
  job.remove_when_ended = true;
  job.queued = true;
  job.array = {{40}, 2, 4};
  job.attempts = 1;
  job.waiting_since = base::WallTime(base::Millis(4));
  job.not_before = base::WallTime(base::Millis(5));
  job.suspended = base::Millis(6);
  job.off_since = base::WallTime(base::Millis(7));
  job.requeue_when_ended = true;
  job.cancel_wanted = true;
  job.redo_of = {3};
  job.notes = {"its host memory is not limited"};
  job.refusal = RefusedAllocation{"GPU-a",      base::MiB(256), base::MiB(900),
                                  base::GiB(1), "limit",        base::WallTime(base::Millis(8))};
  job.refusal->count = 3;
  job.refusal->first = {base::MiB(64), base::MiB(700), std::nullopt, base::WallTime(base::Millis(9))};
  job.refusal->first->parts = base::MemoryParts{base::MiB(700), {}, {}, {}, {}, {}, {}};
  job.refusal->first->pools_unused = base::MiB(3);
  job.refusal->first->device_free = base::MiB(4);
  job.refusal->parts = base::MemoryParts{base::MiB(1), base::MiB(2), base::MiB(3), base::MiB(4),
                                         base::MiB(5), base::MiB(6), base::MiB(7)};
  job.refusal->pools_unused = base::MiB(1);
  job.refusal->device_free = base::MiB(2);
  job.peak_parts = base::MemoryParts{base::MiB(600), {}, {}, {}, {}, {}, {}};
  job.peaks = std::vector{
      MemoryPeak{"GPU-a", {}, {}, base::MiB(600), base::MemoryParts{base::MiB(600), {}, {}, {}, {}, {}, {}}},
      MemoryPeak{"GPU-a", 60, "python3", base::MiB(400), {}}};
  job.more_memory = MoreMemory{base::GiB(1), base::MiB(256), base::GiB(2), true};
  job.energy_used = 12'345'678'901;
  job.container = std::make_shared<const Container>(Container{"team", "train-0", "main", "4d8a1f"});
  return job;
}

TEST(JobRecord, ComesBackAsItWasWritten) {
  for (const Job& job : {Full(), Job{}}) {
    const std::string text = SerializeJob(job);
    const auto back = ParseJob(text);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(SerializeJob(*back), text);
    EXPECT_EQ(back->owner, job.owner);
    EXPECT_EQ(back->array, job.array);
    EXPECT_EQ(back->waiting_since, job.waiting_since);
    EXPECT_EQ(back->off_since, job.off_since);
    EXPECT_TRUE(back->cancel_wanted == job.cancel_wanted && back->queued == job.queued);
    EXPECT_EQ(back->process, job.process);
    EXPECT_EQ(back->verdict, job.verdict);
    EXPECT_EQ(back->ended_at, job.ended_at);
    EXPECT_EQ(back->redo_of, job.redo_of);
    EXPECT_EQ(back->notes, job.notes);
    EXPECT_EQ(back->refusal, job.refusal);
    EXPECT_EQ(back->more_memory, job.more_memory);
    EXPECT_EQ(back->energy_used, job.energy_used);
    ASSERT_EQ(back->container != nullptr, job.container != nullptr);
    if (job.container) {
      EXPECT_EQ(*back->container, *job.container);
    }
  }
}

TEST(JobRecord, LeavesOutWhatIsAsUsual) {
  Job job;
  job.id = {7};
  job.state = JobState::kQueued;
  EXPECT_LT(SerializeJob(job).size(), 80U) << SerializeJob(job);
}

TEST(JobRecord, PartsThatJobsHaveInCommonAreTextsOfTheirOwn) {
  const Job job = Full();
  EXPECT_EQ(*ParseEnvironment(Serialize(job.environment)), job.environment);
  EXPECT_EQ(*ParseLimits(Serialize(*job.resource_limits)), *job.resource_limits);
  for (const char* text : {"", "[", "7"}) {
    EXPECT_FALSE(ParseEnvironment(text)) << text;
    EXPECT_FALSE(ParseLimits(text)) << text;
  }
}

// As they were written before a job had one spec: the queue's part as text within a text of its own, the rest
// in the record of the job.
TEST(JobRecord, ReadsASpecThatAnOlderVersionWroteInParts) {
  const auto terms = ParseSpec(
      R"({"request":"{\"gpus\":{\"count\":2},\"memory\":1073741824,\"priority\":7,\"share\":true,\"retries\":{\"count\":3},)"
      R"(\"time_limit_ms\":7200000,\"v\":1}","script":"#!/bin/sh\n","project":"p","retries":{"count":3},"time_limit_ms":7200000})");
  ASSERT_TRUE(terms) << terms.error().message;
  const auto job = ParseJob(
      R"({"id":1,"state":"queued","priority":9,"memory":{"percent":12.5},"soft":{"bytes":7},"share":true,"weight":2.5,)"
      R"("grace_ms":1500,"preload":false,"oversubscribe":true,"device_profile":"quiet","mps":true,"mps_threads":50,)"
      R"("restart":"always"})",
      *terms);
  ASSERT_TRUE(job) << job.error().message;
  spec::JobSpec expected;
  expected.script = "#!/bin/sh\n";
  expected.gpus.count = 2;
  expected.memory = base::SizeSpec{{}, 12.5};
  expected.soft = base::SizeSpec{{7}, 0};
  expected.memory_on_each = base::GiB(1);
  expected.share = true;
  expected.weight = 2.5;
  expected.oversubscribe = true;
  expected.preload = false;
  expected.device_profile = "quiet";
  expected.mps = true;
  expected.mps_threads = 50;
  expected.time_limit = base::Millis(7'200'000);
  expected.grace = base::Millis(1500);
  expected.restart = spec::RestartMode::kAlways;
  expected.priority = 9;
  expected.retries.count = 3;
  EXPECT_EQ(*job->spec, expected);
  // A field that is not in the record has its default, whatever the request had.
  const auto plain = ParseJob(R"({"id":1,"state":"queued"})", *terms);
  EXPECT_EQ(plain->spec->priority, 128);
  EXPECT_FALSE(plain->spec->share);
  EXPECT_EQ(*ParseSpec("{}"), spec::JobSpec{});
  // One job with an impossible request does not keep the daemon from starting.
  EXPECT_EQ(*ParseSpec(R"({"v":1,"priority":256})"), spec::JobSpec{});
  EXPECT_EQ(ParseSpec(R"({"request":"{\"v\":1,\"cpus\":-1}","script":"x"})")->script, "x");
}

TEST(JobRecord, ReadsEnvironmentAndLimitsWhereAnOlderVersionWroteThem) {
  const auto job =
      ParseJob(R"({"id":1,"state":"running","environment":{"A":"b"},"resource_limits":[[7,1024,2048]]})");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->environment, Environment(Variables{{"A", "b"}}));
  EXPECT_EQ(*job->resource_limits, (ResourceLimits{{7, {1024, 2048}}}));
}

TEST(JobRecord, IsCorruptWithoutWhatCannotBeGuessed) {
  for (const char* text : {"", "{", "[]", "{}", R"({"id":1})", R"({"id":1,"state":"dancing"})",
                           R"({"id":"x","state":"running"})"})
    EXPECT_FALSE(ParseJob(text)) << text;
}

TEST(JobRecord, IsCorruptWhereANumberDoesNotFit) {
  const auto job = [](const std::string& field) {
    return ParseJob(R"({"id":1,"state":"queued",)" + field + "}");
  };
  EXPECT_TRUE(job(R"("submitted_at":1)"));
  for (const char* field :
       {R"("submitted_at":1e300)", R"("grace_ms":1e300)", R"("suspended_ms":9223372036854775808)",
        R"("process":{"pid":4294967297,"start_time":1})", R"("priority":1e10)", R"("priority":4294967296)",
        R"("groups":[-1])", R"("energy_used":-1)", R"("peak":-1)", R"("memory":{"percent":1e300})"})
    EXPECT_FALSE(job(field)) << field;
  EXPECT_FALSE(ParseJob(R"({"id":1e300,"state":"queued"})"));
  EXPECT_TRUE(ParseSpec(R"({"v":1,"retries":{"count":2,"delay_ms":5},"time_limit_ms":7})"));
  EXPECT_FALSE(ParseSpec(R"({"v":1,"retries":{"count":4294967296}})"));
  EXPECT_FALSE(ParseSpec(R"({"v":1,"retries":{"count":2,"delay_ms":1e300}})"));
  EXPECT_FALSE(ParseSpec(R"({"v":1,"time_limit_ms":1e300})"));
  EXPECT_FALSE(ParseLimits("[[7,1,1e300]]"));
}

TEST(JobRecord, TakesDefaultsForFieldsOfLaterVersionsAndIgnoresUnknownOnes) {
  const auto job = ParseJob(R"({"id":1,"state":"running","from_the_future":[1]})");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->spec->priority, 128);
  EXPECT_EQ(job->incarnation, 1);
}

}  // namespace
}  // namespace gpuman::jobs
