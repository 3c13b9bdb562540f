#include "daemon/queue/update.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>

#include "api/queue_json.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::JobId;

constexpr uid_t kAnn = 1000, kAdministrator = 1001;

class UpdateTest : public ::testing::Test {
 protected:
  UpdateTest() {
    inventory.gpus = {{0, "GPU-aaaa", "NVIDIA H200", "", base::GiB(100)},
                      {1, "GPU-bbbb", "NVIDIA A100", "", base::GiB(40)}};
    job.id = {7};
    job.tag = "train";
    job.owner = jobs::JobOwner{kAnn, 1000, {}, "ann"};
    job.command = {"python", "train.py"};
    job.queued = true;
    job.state = spec::JobState::kQueued;
  }

  void Has(const std::function<void(spec::JobSpec&)>& set) { job.spec.Change(set); }
  void Runs() {
    job.state = spec::JobState::kRunning;
    job.gpus = {"GPU-aaaa"};
  }
  base::Result<> Update(const char* text) {
    GPUMAN_ASSIGN(const auto update, api::Decode<api::JobUpdate>(text));
    GPUMAN_ASSIGN(note, ApplyQueueUpdate(update, inventory, lookup, {past, updater}, job));
    return {};
  }
  // The error of the update; empty: there is none.
  std::string ErrorOf(const char* text) {
    const auto updated = Update(text);
    return updated ? "" : updated.error().message;
  }
  bool May(uid_t caller, const char* text) const {
    const auto update = api::Decode<api::JobUpdate>(text);
    EXPECT_TRUE(update) << update.error().message;
    const auto may = MayRewrite(*update, caller, job);
    EXPECT_TRUE(may || may.error().code == ErrorCode::kPermissionDenied);
    return may.has_value();
  }

  jobs::Job job;
  gpu::Inventory inventory;
  queue::PastRuns past;
  queue::SnapshotUpdater updater;
  std::string note;  // of the last update
  // There are the jobs up to 10.
  queue::ReferenceLookup lookup = [](const queue::Reference& reference) -> std::vector<JobId> {
    if (reference.kind == queue::Reference::Kind::kId && reference.id.value <= 10) return {reference.id};
    return {};
  };
};

TEST_F(UpdateTest, MemoryThatIsChosenIsChosenAnewWhereThatIsAskedOrWhatItDependsOnChanges) {
  updater.SetGpus({{.index = 0, .uuid = "GPU-aaaa", .model = "NVIDIA H200", .memory = base::GiB(100)}});
  past.Add("ann", "train", {{1}, {}, base::GiB(10), {}, true});
  Has([](spec::JobSpec& spec) { spec.gpus.count = 1; });
  const auto size = [&] { return job.spec->memory_on_each.value_or(base::Bytes{}); };
  EXPECT_EQ(ErrorOf(R"({"queue":{"memory_auto":true}})"), "");
  EXPECT_EQ(size(), base::GiB(15));
  EXPECT_EQ(note, "memory: 15GiB, as the one known run of 'train' used 10GiB");
  past.Add("ann", "train", {{2}, {}, base::GiB(20), {}, true});
  EXPECT_EQ(ErrorOf(R"({"priority":9})"), "");
  EXPECT_EQ(size(), base::GiB(15)) << "only what asks for it chooses anew";
  EXPECT_EQ(note, "");
  EXPECT_EQ(ErrorOf(R"({"queue":{"share":true}})"), "");
  EXPECT_EQ(size(), base::GiB(28));
  EXPECT_EQ(ErrorOf(R"({"memory":"4GiB"})"), "");
  EXPECT_EQ(size(), base::GiB(4));
  EXPECT_FALSE(job.spec->memory_auto) << "the size takes its place";
  EXPECT_EQ(ErrorOf(R"({"memory":"4GiB","queue":{"memory_auto":true}})"),
            "memory_auto: there is a size as well; give one of them");
  EXPECT_EQ(ErrorOf(R"({"queue":{"gpus":{"count":0},"share":false,"memory_auto":true}})"),
            "memory_auto: it chooses the memory of GPUs, and the job asks for none; give gpus.count");
  Runs();
  EXPECT_NE(ErrorOf(R"({"queue":{"memory_auto":true}})"), "") << "it does not wait any more";
}

TEST_F(UpdateTest, OptionsOfThePatchArriveInTheSpec) {
  Has([](spec::JobSpec& spec) {
    spec.project = "vision";
    spec.stderr_file = "err.log";
    spec.retries = {1, base::Millis(500), {75}};
  });
  EXPECT_EQ(ErrorOf(R"({"priority":9,"queue":{"name":"other","cpus":8,"host_memory":"2GiB","project":null,
                        "preemptible":true,"stdout":"%j.log","retries":{"count":2}}})"),
            "");
  EXPECT_EQ(job.tag, "other");
  EXPECT_EQ(job.spec->priority, 9);
  EXPECT_EQ(job.spec->cpus, 8);
  EXPECT_EQ(job.spec->host_memory, base::GiB(2));
  EXPECT_FALSE(job.spec->project);
  EXPECT_TRUE(job.spec->preemptible);
  EXPECT_EQ(job.spec->stdout_file, "%j.log");
  EXPECT_EQ(job.spec->retries, spec::Retries{2}) << "they are replaced as a whole";
  EXPECT_EQ(job.spec->stderr_file, "err.log") << "it was not named";
}

TEST_F(UpdateTest, ACondaEnvironmentIsPutAroundTheCommandAndTakenAway) {
  const auto bare = job.command;
  EXPECT_EQ(ErrorOf(R"({"queue":{"conda_env":"torch"}})"), "");
  EXPECT_EQ(job.command, jobs::InConda("torch", bare));
  EXPECT_EQ(ErrorOf(R"({"queue":{"cpus":2}})"), "");
  EXPECT_EQ(job.command, jobs::InConda("torch", bare));
  EXPECT_EQ(ErrorOf(R"({"queue":{"conda_env":null}})"), "");
  EXPECT_EQ(job.command, bare);
}

TEST_F(UpdateTest, AShareOfMemoryIsCountedAgainForOtherGpus) {
  Has([](spec::JobSpec& spec) {
    spec.gpus.count = 1;
    spec.memory = base::SizeSpec{{}, 50};
    spec.memory_on_each = base::GiB(20);
  });
  EXPECT_EQ(ErrorOf(R"({"queue":{"gpus":{"devices":["0"]}}})"), "");
  EXPECT_EQ(job.spec->memory_on_each, base::GiB(50));
  EXPECT_EQ(ErrorOf(R"({"memory":"25%"})"), "");
  EXPECT_EQ(job.spec->memory_on_each, base::GiB(25));
  EXPECT_NE(ErrorOf(R"({"soft":"30%"})"), "");
  EXPECT_FALSE(job.spec->soft) << "what is refused changes nothing";
}

TEST_F(UpdateTest, AJobThatWaitsMayHaveALimitThatOnlyALargerGpuHas) {
  Has([](spec::JobSpec& spec) {
    spec.gpus.count = 1;
    spec.memory = base::SizeSpec{base::GiB(60), 0};
    spec.memory_on_each = base::GiB(60);
  });
  EXPECT_EQ(ErrorOf(R"({"priority":9})"), "");
  EXPECT_EQ(ErrorOf(R"({"memory":"80GiB"})"), "");
  EXPECT_EQ(job.spec->memory_on_each, base::GiB(80));
}

TEST_F(UpdateTest, LimitsAndRetriesChangeAlsoWhileTheJobRuns) {
  Runs();
  job.array = {{7}, 0, 4};
  EXPECT_EQ(
      ErrorOf(R"({"queue":{"time_limit_s":90,"retries":{"count":3},"max_concurrent":5,"array_limit":2}})"),
      "");
  EXPECT_EQ(job.spec->time_limit, base::Millis(90'000));
  EXPECT_EQ(job.spec->retries.count, 3);
  EXPECT_EQ(job.spec->max_concurrent, 5);
  EXPECT_EQ(job.spec->group, "train") << "a job without a group is one by itself";
  EXPECT_EQ(job.array.limit, 2);
  EXPECT_EQ(ErrorOf(R"({"queue":{"array_limit":null,"max_concurrent":null}})"), "");
  EXPECT_EQ(job.array.limit, 0);
  EXPECT_FALSE(job.spec->group || job.spec->max_concurrent);
}

TEST_F(UpdateTest, NothingElseChangesWhileTheJobRuns) {
  Runs();
  job.array = {{7}, 0, 4};
  for (const char* const text :
       {R"({"queue":{"cpus":8}})", R"({"queue":{"time_limit_s":90,"cpus":8}})",
        R"({"queue":{"project":null}})", R"({"queue":{"array_limit":2,"name":"other"}})",
        R"({"queue":{"group":"g"}})", R"({"queue":{"notify":{"mails":["a@b"]}}})",
        R"({"queue":{"warn_before_s":5}})"}) {
    const auto updated = Update(text);
    ASSERT_FALSE(updated) << text;
    EXPECT_EQ(updated.error().code, ErrorCode::kConflict) << updated.error().message;
  }
  EXPECT_EQ(*job.spec, spec::JobSpec{});
  EXPECT_EQ(job.array.limit, 4);
  EXPECT_EQ(job.tag, "train");
}

TEST_F(UpdateTest, WithoutATimeLimitThereIsNothingToWarnOf) {
  Has([](spec::JobSpec& spec) {
    spec.time_limit = base::Millis(3'600'000);
    spec.warn_signal = spec::Signal{SIGUSR1};
    spec.warn_before = base::Millis(60'000);
  });
  Runs();
  EXPECT_EQ(ErrorOf(R"({"queue":{"time_limit_s":7200}})"), "");
  EXPECT_EQ(job.spec->warn_signal, spec::Signal{SIGUSR1});
  EXPECT_EQ(ErrorOf(R"({"queue":{"time_limit_s":null}})"), "");
  EXPECT_FALSE(job.spec->time_limit);
  EXPECT_FALSE(job.spec->warn_signal || job.spec->warn_before);
}

TEST_F(UpdateTest, AJobThatWaitsGetsAnotherWarning) {
  EXPECT_EQ(ErrorOf(R"({"queue":{"warn_before_s":5}})"),
            "warn_before_s: there is no time limit to warn of; give time_limit_s");
  EXPECT_EQ(ErrorOf(R"({"queue":{"time_limit_s":30,"warn_signal":"TERM"}})"), "");
  EXPECT_EQ(job.spec->warn_signal, spec::Signal{SIGTERM});
  EXPECT_EQ(job.spec->warn_before, base::Millis(30'000)) << "the usual minute is longer than the limit";
  EXPECT_EQ(ErrorOf(R"({"queue":{"cpus":2}})"), "") << "that is the same";
  EXPECT_EQ(ErrorOf(R"({"queue":{"warn_before_s":5}})"), "");
  EXPECT_EQ(job.spec->warn_before, base::Millis(5'000));
  EXPECT_EQ(job.spec->warn_signal, spec::Signal{SIGTERM});
  EXPECT_EQ(ErrorOf(R"({"queue":{"warn_before_s":30}})"),
            "warn_before_s: 30s before the end is not after the start: the limit is 30s");
  EXPECT_EQ(ErrorOf(R"({"queue":{"warn_before_s":null,"warn_signal":null}})"), "");
  EXPECT_FALSE(job.spec->warn_signal || job.spec->warn_before);
  EXPECT_EQ(job.spec->time_limit, base::Millis(30'000));
}

TEST_F(UpdateTest, AJobThatWaitsGetsOtherReceiversOfNotifications) {
  Has([](spec::JobSpec& spec) { spec.notify = {{"https://x/secret"}, {"a@b"}, {}}; });
  EXPECT_EQ(ErrorOf(R"({"queue":{"notify":{"on":["failed"]}}})"), "");
  EXPECT_EQ(job.spec->notify,
            (spec::NotificationOptions{{"https://x/secret"}, {"a@b"}, {spec::NotifyOn::kFailed}}));
  EXPECT_EQ(ErrorOf(R"({"queue":{"notify":{"mails":[],"webhooks":[]}}})"),
            "notify.on: there is nobody to tell; give notify.mails or notify.webhooks");
  EXPECT_EQ(ErrorOf(R"({"queue":{"notify":null}})"), "");
  EXPECT_EQ(job.spec->notify, spec::NotificationOptions{});
}

TEST_F(UpdateTest, AJobThatWaitsGoesToAnotherGroup) {
  EXPECT_EQ(ErrorOf(R"({"queue":{"group":"g"}})"), "");
  EXPECT_EQ(job.spec->group, "g");
  EXPECT_EQ(job.spec->max_concurrent, 1);
  EXPECT_EQ(ErrorOf(R"({"queue":{"group":"h","max_concurrent":3}})"), "");
  EXPECT_EQ(job.spec->group, "h");
  EXPECT_EQ(job.spec->max_concurrent, 3);
  EXPECT_EQ(ErrorOf(R"({"queue":{"group":null}})"), "");
  EXPECT_FALSE(job.spec->group || job.spec->max_concurrent);
}

TEST_F(UpdateTest, DependenciesAreReplacedAsAWholeAndAutoCancelStays) {
  EXPECT_EQ(ErrorOf(R"({"queue":{"auto_cancel":false,"depends":{"list":[{"job":"3"},{"job":"4"}]}}})"), "");
  EXPECT_EQ(job.spec->depends.list.size(), 2U);
  EXPECT_EQ(ErrorOf(R"({"queue":{"depends":{"list":[{"kind":"afterany","job":"5"}]}}})"), "");
  EXPECT_EQ(job.spec->depends.list, (std::vector{spec::Dependency{spec::DependencyKind::kAfterAny, {5}}}));
  EXPECT_FALSE(job.spec->auto_cancel);
  EXPECT_EQ(ErrorOf(R"({"queue":{"cpus":2}})"), "");
  EXPECT_EQ(job.spec->depends.list.size(), 1U) << "they were not named";
}

TEST_F(UpdateTest, OnlyOwnerAndRootChangeWhatAJobExecutes) {
  for (const char* const text :
       {R"({"queue":{"stdout":"a.log"}})", R"({"queue":{"stdin":null}})", R"({"queue":{"stderr":"a.log"}})",
        R"({"queue":{"conda_env":"torch"}})", R"({"queue":{"conda_env":null}})",
        R"({"queue":{"command":["true"]}})", R"({"queue":{"script":"true"}})"}) {
    EXPECT_FALSE(May(kAdministrator, text)) << text;
    EXPECT_TRUE(May(0, text)) << text;
    EXPECT_TRUE(May(kAnn, text)) << text;
  }
  EXPECT_TRUE(May(kAdministrator, R"({"priority":9,"queue":{"cpus":1,"time_limit_s":null}})"));
  EXPECT_TRUE(May(kAdministrator, R"({"priority":9})"));
}

}  // namespace
}  // namespace gpuman::daemon
