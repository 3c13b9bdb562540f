#include "api/queue_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace gpuman::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Submission Small() {
  Submission job;
  job.command = {"python", "train.py"};
  return job;
}

Submission Full() {
  Submission job = Small();
  job.name = "train";
  job.project = "vision";
  job.directory = "/home/ada";
  job.environment = std::map<std::string, std::string>{{"A", "1"}};
  job.umask = 027;
  job.stdout_file = "out-%j.txt";
  job.gpus = {2, {}, "h200", base::SizeSpec{base::GiB(20), 0}};
  job.share = true;
  job.memory = base::SizeSpec{base::GiB(8), 0};
  job.soft = base::SizeSpec{base::GiB(6), 0};
  job.host_memory = base::GiB(32);
  job.cpus = 4;
  job.time_limit = base::Millis(7'200'000);
  job.warn_signal = spec::Signal{SIGUSR1};
  job.warn_before = base::Millis(60'500);
  job.begin = base::WallTime(base::Millis(1'800'000'000'000));
  job.priority = 200;
  job.hold = true;
  job.depends = {spec::DependencyMode::kAny,
                 {{spec::DependencyKind::kAfterAny, "7_3"}, {spec::DependencyKind::kAfterOk, "@"}}};
  job.auto_cancel = false;
  job.array = ArrayRequest{{{0, 98, 2}, {100, 100, 1}}, 4};
  job.group = "sweep";
  job.max_concurrent = 3;
  job.retries = {2, base::Millis(30'000), {1, 75}};
  job.preemptible = true;
  job.device_profile = "bench";
  job.notify = {
      {"https://example.org/h"}, {"ada@example.org"}, {spec::NotifyOn::kFailed, spec::NotifyOn::kTimeout}};
  job.conda_env = "torch";
  job.grace = base::Millis(5'000);
  job.preload = false;
  job.weight = 2;
  job.oversubscribe = true;
  job.mps = true;
  job.mps_threads = 25;
  return job;
}

TEST(SubmitRequest, ReadsBackAsItWasWritten) {
  SubmitRequest in{{Full(), Small()}, true, "/tmp", {{"PATH", "/bin"}}, 077};
  const std::string text = Encode(in);
  const auto out = Decode<SubmitRequest>(text);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(Encode(*out), text);
  EXPECT_EQ(out->jobs[0].depends, Full().depends);
  EXPECT_EQ(out->jobs[0].gpus, Full().gpus);
  EXPECT_EQ(out->jobs[0].array, Full().array);
  EXPECT_EQ(out->jobs[0].retries, Full().retries);
  EXPECT_EQ(out->jobs[0].notify, Full().notify);
  EXPECT_EQ(out->jobs[0].warn_before, base::Millis(60'500));
  EXPECT_FALSE(out->jobs[0].preload);
  EXPECT_EQ(out->jobs[1].priority, 128);
  EXPECT_TRUE(out->jobs[1].auto_cancel);
}

TEST(SubmitRequest, DefaultOptionsAreLeftOut) {
  EXPECT_EQ(Encode(SubmitRequest{{Small()}, false, {}, {}, 022}),
            R"({"jobs":[{"command":["python","train.py"]}],"umask":18})");
}

TEST(SubmitRequest, TakesSizesAndTimesAsPeopleWriteThem) {
  const auto out = Decode<SubmitRequest>(
      R"({"jobs":[{"command":["x"],"gpus":{"count":1},"memory":"50%","host_memory":"2G","time_limit_s":"2h"}]})");
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->jobs[0].memory->percent, 50);
  EXPECT_EQ(out->jobs[0].host_memory, base::GiB(2));
  EXPECT_EQ(out->jobs[0].time_limit, base::Millis(7'200'000));
}

struct Wrong {
  const char* job;
  const char* says;
};

TEST(SubmitRequest, NamesTheJobTheFieldAndTheValueThatIsWrong) {
  for (
      const auto& [job, says] : std::vector<Wrong>{
          {R"({})", "command: there is no command and no script"},
          {R"({"command":[""]})", "command: the program's name is empty"},
          {R"({"command":["x"],"script":"y"})", "script: there is a command as well"},
          {R"({"script":" \n"})", "script: it is empty"},
          {R"({"command":["x"],"arguments":["y"]})", "arguments: only a script takes them"},
          {R"({"command":["x"],"gpu":1})", "unknown field 'gpu'"},
          {R"({"command":["x"],"gpus":1})", "gpus: an object was expected"},
          {R"({"command":["x"],"gpus":{"count":-1}})", "gpus.count: -1 lies outside 0 to 1024"},
          {R"({"command":["x"],"gpus":{"count":2,"devices":["0"]}})",
           "gpus.count: 2 GPUs are asked for and 1"},
          {R"({"command":["x"],"gpus":{"devices":["0","0"]}})", "gpus.devices: '0' is there twice"},
          {R"({"command":["x"],"gpus":{"model":"h200"}})", "gpus.model: it says which GPUs"},
          {R"({"command":["x"],"gpus":{"count":1},"share":true})", "memory: a job that shares its GPUs"},
          {R"({"command":["x"],"share":true})", "share: there are no GPUs to share"},
          {R"({"command":["x"],"memory":"8G"})", "memory: it limits the memory of GPUs"},
          {R"({"command":["x"],"gpus":{"count":1},"memory":"8G","soft":"9G"})", "soft: it lies above memory"},
          {R"({"command":["x"],"memory_auto":true})", "memory_auto: it chooses the memory of GPUs"},
          {R"({"command":["x"],"gpus":{"count":1},"memory":"8G","memory_auto":true})",
           "memory_auto: there is a size as well"},
          {R"({"command":["x"],"name":"17"})", "name: '17' could be the number of a job"},
          {R"({"command":["x"],"name":"7_3"})", "name: '7_3' could be the number of a job"},
          {R"({"command":["x"],"name":"5-9"})", "name: '5-9' could be the number of a job"},
          {R"({"command":["x"],"name":"slurm-3"})", "name: 'slurm-3' could be the number of a job"},
          {R"({"command":["x"],"name":"slurm-3_0"})", "name: 'slurm-3_0' could be the number of a job"},
          {R"({"command":["x"],"name":"@x"})", "name: '@x'"},
          {R"({"command":["x"],"name":"a,b"})", "name: 'a,b' has other characters"},
          {R"({"command":["x"],"project":" a"})", "project: it is empty, or begins"},
          {R"({"command":["x"],"directory":"a"})", "directory: 'a' is not absolute"},
          {R"({"command":["x"],"environment":{"A=B":"1"}})", "environment: 'A=B' is no name"},
          {R"({"command":["x"],"umask":512})", "umask: 512 lies outside 0 to 511"},
          {R"({"command":["x"],"cpus":0})", "cpus: 0 lies outside"},
          {R"({"command":["x"],"time_limit_s":0})", "time_limit_s: it is zero"},
          {R"({"command":["x"],"warn_before_s":5})", "warn_before_s: there is no time limit"},
          {R"({"command":["x"],"time_limit_s":5,"warn_before_s":5})", "warn_before_s: 5s before the end"},
          {R"({"command":["x"],"time_limit_s":5,"warn_signal":"KILL"})", "warn_signal: 'KILL' is no signal"},
          {R"({"command":["x"],"priority":256})", "priority: 256 lies outside 0 to 255"},
          {R"({"command":["x"],"depends":{"list":[{"kind":"afterwards","job":"1"}]}})",
           "depends.list[0].kind: 'afterwards' is none of afterok"},
          {R"({"command":["x"],"depends":{"list":[{"job":""}]}})", "depends: a dependency names no job"},
          {R"({"command":["x"],"array":{"indices":[]}})", "array.indices: there are none"},
          {R"({"command":["x"],"array":{"indices":[{"first":5,"last":1}]}})", "array.indices: 5 to 1 runs"},
          {R"({"command":["x"],"array":{"indices":[{"first":0,"last":3},{"first":3,"last":3}]}})",
           "array.indices: 3 comes after 3"},
          {R"({"command":["x"],"array":{"indices":[{"first":0,"last":100000}]}})",
           "array.indices: 100001 tasks are more than 100000"},
          {R"({"command":["x"],"array":{"indices":[{"first":0,"last":1}],"limit":0}})", "array.limit: 0"},
          {R"({"command":["x"],"max_concurrent":2})", "max_concurrent: it is for the jobs of a group"},
          {R"({"command":["x"],"retries":{"count":1001}})", "retries.count: 1001"},
          {R"({"command":["x"],"retries":{"on_exit_codes":[75]}})",
           "retries.on_exit_codes: they are for retries, and there are none; give retries.count"},
          {R"({"command":["x"],"retries":{"count":1,"on_exit_codes":[0]}})", "retries.on_exit_codes: 0"},
          {R"({"command":["x"],"notify":{"mails":["ada"]}})", "notify.mails: 'ada' is not an address"},
          {R"({"command":["x"],"notify":{"webhooks":["ftp://x"]}})", "notify.webhooks: 'ftp://x'"},
          {R"({"command":["x"],"notify":{"webhooks":["http://a b/"]}})",
           "notify.webhooks: 'http://a b/' has a"},
          {R"({"command":["x"],"notify":{"mails":["a@b\r\nBcc: c@d"]}})", "is not an address"},
          {R"({"command":["x"],"notify":{"mails":["a@b","a@b","a@b","a@b","a@b","a@b","a@b","a@b","a@b","a@b","a@b"]}})",
           "notify.mails: there are 11; 10 are the most"},
          {R"({"command":["x"],"notify":{"mails":["a@b"],"on":["ended"]}})",
           "notify.on[0]: 'ended' is none of"},
          {R"({"command":["x"],"notify":{"on":["failed"]}})", "notify.on: there is nobody to tell"},
          {R"({"command":["x"],"conda_env":""})", "conda_env: it is empty"},
          {R"({"command":["x\u0000y"]})", "command[0]: a string holds a NUL"},
      }) {
    const auto out = Decode<SubmitRequest>(std::string(R"({"jobs":[{"command":["ok"]},)") + job + "]}");
    ASSERT_FALSE(out) << job;
    EXPECT_EQ(out.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_THAT(out.error().message, StartsWith("jobs[1]")) << job;
    EXPECT_THAT(out.error().message, HasSubstr(says)) << job;
  }
  EXPECT_THAT(Decode<SubmitRequest>(R"({"jobs":[]})").error().message, HasSubstr("jobs: there are none"));
}

TEST(SubmitRequest, CountsTheTasksOfAnArray) {
  EXPECT_EQ(CountTasks({{{0, 99, 2}}, {}}), 50);
  EXPECT_EQ(CountTasks({{{0, 0, 1}, {5, 9, 3}}, {}}), 3);
  EXPECT_EQ(CountTasks({{{0, INT32_MAX, 1}}, {}}), std::int64_t{1} << 31);
}

TEST(RunOptionsPatch, NullRemovesLimitAndMissingFieldKeepsIt) {
  const auto update = Decode<RunOptionsPatch>(R"({"memory":null,"priority":7,"grace":"30s"})");
  ASSERT_TRUE(update) << update.error().message;
  spec::RunOptions options;
  options.memory = options.soft = base::SizeSpec{base::GiB(1), 0};
  options.restart = spec::RestartMode::kAlways;
  ASSERT_TRUE(SetOptions(*update, options));
  EXPECT_FALSE(options.memory);
  EXPECT_EQ(options.soft->bytes, base::GiB(1)) << "it was not named";
  EXPECT_EQ(options.priority, 7);
  EXPECT_EQ(options.grace, base::Millis(30'000));
  EXPECT_EQ(options.restart, spec::RestartMode::kAlways);
  EXPECT_EQ(*Decode<RunOptionsPatch>(Encode(*update)), *update);
}

TEST(RunOptionsPatch, RefusesWhatItCannotChangeAndWhatMakesNoSense) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"tag":"other"})", "unknown field 'tag'"},
      {R"({"preload":true})", "unknown field 'preload'"},
      {R"({"memory":-1})", "memory: '-1' is not a size"},
      {R"({"priority":256})", "priority: 256 lies outside 0 to 255"},
      {R"({"weight":0})", "weight: 0"},
      {R"({"restart":"maybe"})", "restart: 'maybe' is none of no, on-failure, always"},
      {R"({"queue":{}})", "unknown field 'queue'"},
  };
  for (const auto& [text, said] : rows) {
    const auto update = Decode<RunOptionsPatch>(text);
    ASSERT_FALSE(update) << text;
    EXPECT_EQ(update.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_THAT(update.error().message, HasSubstr(said));
  }
}

TEST(JobUpdate, HasTheFieldsOfAJobAndThoseOfTheQueue) {
  JobUpdate in;
  in.job.fields["priority"] = 9;
  in.queue.emplace();
  in.queue->options.fields["time_limit_s"] = nullptr;
  in.queue->gpus = spec::GpuRequest{2, {}, {}, {}};
  const std::string text = Encode(in);
  EXPECT_EQ(text, R"({"priority":9,"queue":{"gpus":{"count":2},"time_limit_s":null}})");
  const auto out = Decode<JobUpdate>(text);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->job, in.job);
  EXPECT_EQ(out->queue, in.queue);
  EXPECT_THAT(Decode<JobUpdate>(R"({"queue":{"cpus":0}})").error().message, HasSubstr("queue.cpus: 0"));
  EXPECT_THAT(Decode<RedoRequest>(R"({"changes":{"queue":{"name":"1"}}})").error().message,
              HasSubstr("changes.queue.name: '1'"));
}

TEST(JobUpdate, SetsTheOptionsThatItNamesAndNoOthers) {
  const auto update = Decode<JobUpdate>(
      R"({"queue":{"time_limit_s":90,"host_memory":"2GiB","project":null,"preemptible":false,"retries":{"count":3}}})");
  ASSERT_TRUE(update) << update.error().message;
  spec::JobRequest options;
  options.project = "p";
  options.preemptible = true;
  options.cpus = 4;
  options.retries = {1, base::Millis(500), {75}};
  ASSERT_TRUE(SetOptions(update->queue->options, options));
  EXPECT_EQ(options.time_limit, base::Millis(90'000));
  EXPECT_EQ(options.host_memory, base::GiB(2));
  EXPECT_FALSE(options.project);
  EXPECT_FALSE(options.preemptible);
  EXPECT_EQ(options.retries, (spec::Retries{3})) << "they are replaced as a whole";
  EXPECT_EQ(options.cpus, 4) << "it was not named";
  EXPECT_EQ(Decode<JobUpdate>(Encode(*update))->queue, update->queue);
}

TEST(JobUpdate, MakesOptionsUsualAgainWithNull) {
  const auto update = Decode<JobUpdate>(R"({"queue":{"preemptible":null,"preload":null,"retries":null}})");
  ASSERT_TRUE(update) << update.error().message;
  spec::JobRequest options;
  options.preemptible = true;
  options.preload = false;
  options.retries.count = 3;
  ASSERT_TRUE(SetOptions(update->queue->options, options));
  EXPECT_EQ(options, spec::JobRequest{});
  EXPECT_EQ(Decode<JobUpdate>(Encode(*update))->queue, update->queue);
  const auto submitted = Decode<SubmitRequest>(R"({"jobs":[{"command":["x"],"preemptible":null}]})");
  ASSERT_FALSE(submitted);
  EXPECT_THAT(submitted.error().message, HasSubstr("preemptible: a boolean was expected, not null"));
}

TEST(JobUpdate, ChangesTheReceiversThatItNamesAndReplacesDependenciesAsAWhole) {
  const auto update = Decode<JobUpdate>(
      R"({"queue":{"notify":{"mails":["a@b"],"on":["all"]},"warn_signal":"SIGTERM","warn_before_s":"1m",)"
      R"("group":"g","max_concurrent":null,"auto_cancel":false,"depends":{"list":[{"job":"7"}]}}})");
  ASSERT_TRUE(update) << update.error().message;
  spec::JobRequest options;
  options.notify = {{"https://x/secret"}, {"c@d", "e@f"}, {spec::NotifyOn::kFailed}};
  options.max_concurrent = 4;
  options.depends = {spec::DependencyMode::kAny, {{spec::DependencyKind::kAfterAny, "3"}}};
  ASSERT_TRUE(SetOptions(update->queue->options, options));
  EXPECT_EQ(options.notify,
            (spec::NotificationOptions{{"https://x/secret"}, {"a@b"}, {spec::NotifyOn::kAll}}))
      << "the webhooks were not named";
  EXPECT_EQ(options.warn_signal, spec::Signal{SIGTERM});
  EXPECT_EQ(options.warn_before, base::Millis(60'000));
  EXPECT_EQ(options.group, "g");
  EXPECT_FALSE(options.max_concurrent || options.auto_cancel);
  EXPECT_EQ(options.depends,
            (spec::NamedDependencies{spec::DependencyMode::kAll, {{spec::DependencyKind::kAfterOk, "7"}}}));
  EXPECT_EQ(Decode<JobUpdate>(Encode(*update))->queue, update->queue);
  ASSERT_TRUE(SetOptions(Decode<JobUpdate>(R"({"queue":{"notify":null}})")->queue->options, options));
  EXPECT_EQ(options.notify, spec::NotificationOptions{});
}

TEST(JobUpdate, RefusesOptionsThatAreNoneOrMakeNoSense) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"queue":{"cpu":1}})", "queue: unknown field 'cpu'"},
      {R"({"queue":{"preemptible":1}})", "queue.preemptible: a boolean was expected, not an integer"},
      {R"({"queue":{"time_limit_s":0}})", "queue.time_limit_s: it is zero"},
      {R"({"queue":{"stdout":""}})", "queue.stdout: it is empty"},
      {R"({"queue":{"notify":{"mails":["ada"]}}})", "queue.notify.mails: 'ada' is not an address"},
      {R"({"queue":{"notify":{"mail":["a@b"]}}})", "queue.notify: unknown field 'mail'"},
      {R"({"queue":{"warn_signal":"KILL"}})", "queue.warn_signal: 'KILL' is no signal"},
      {R"({"queue":{"max_concurrent":0}})", "queue.max_concurrent: 0 lies outside 1 to 100000"},
      {R"({"queue":{"depends":{"list":[{"job":""}]}}})", "queue.depends: a dependency names no job"},
      {R"({"queue":{"stdout":"a\u0000b"}})", "queue.stdout: a string holds a NUL"},
      {R"({"queue":{"retries":{"count":-1}}})", "queue.retries.count: -1"},
      {R"({"priority":256,"queue":{}})", "priority: 256"},
      // These fields are changed outside `queue`, by another request, or never.
      {R"({"queue":{"memory":"8G"}})", "queue: unknown field 'memory'"},
      {R"({"queue":{"grace":5}})", "queue: unknown field 'grace'"},
      {R"({"queue":{"restart":"no"}})", "queue: unknown field 'restart'"},
      {R"({"queue":{"hold":true}})", "queue: unknown field 'hold'"},
      {R"({"queue":{"mps":true}})", "queue: unknown field 'mps'"},
  };
  for (const auto& [text, said] : rows) {
    const auto update = Decode<JobUpdate>(text);
    ASSERT_FALSE(update) << text;
    EXPECT_THAT(update.error().message, HasSubstr(said));
  }
}

TEST(AddOption, PutsAnOptionAtItsPlaceWithTheUsualValueToo) {
  spec::JobRequest options;
  options.time_limit = base::Millis(1500);
  options.restart = spec::RestartMode::kAlways;
  JobUpdate update;
  for (const char* const name : {"soft", "weight", "restart"}) AddOption(options, name, update);
  EXPECT_FALSE(update.queue);
  for (const char* const name : {"time_limit_s", "preemptible", "cpus"}) AddOption(options, name, update);
  EXPECT_EQ(Encode(update), R"({"soft":null,"weight":1.0,"restart":"always",)"
                            R"("queue":{"time_limit_s":1.5,"preemptible":false,"cpus":null}})");
  EXPECT_TRUE(MayBeAbsent("soft") && MayBeAbsent("cpus") && MayBeAbsent("notify.mails"));
  EXPECT_FALSE(MayBeAbsent("priority") || MayBeAbsent("preemptible"));
}

TEST(AddOption, PutsAPartOfAnOptionBesideTheOthers) {
  spec::JobRequest options;
  options.notify = {{"https://x/"}, {"a@b"}, {spec::NotifyOn::kFailed}};
  JobUpdate update;
  AddOption(options, "notify.mails", update);
  AddOption({}, "notify.on", update);
  EXPECT_EQ(Encode(update), R"({"queue":{"notify":{"mails":["a@b"],"on":[]}}})");
  EXPECT_TRUE(MayChange("notify.webhooks") && MayChange("warn_before_s") && MayChange("depends"));
  EXPECT_FALSE(MayChange("notify.mail") || MayChange("gpus.count") || MayChange("hold"));
}

TEST(QueueJson, TellsWhichOptionsAJobMayHaveWhen) {
  for (const char* name : {"memory", "soft", "priority", "weight", "idle_suspend_s", "restart"})
    EXPECT_TRUE(MayChangeWhileRunning(name)) << name;
  for (const char* name : {"share", "preload", "time_limit_s", "gpus.count", ""})
    EXPECT_FALSE(MayChangeWhileRunning(name)) << name;
  for (const char* name : {"memory", "grace", "share", "mps_threads", "trace_allocations"})
    EXPECT_TRUE(IsRunOption(name)) << name;
  for (const char* name : {"time_limit_s", "memory_auto", "name", ""})
    EXPECT_FALSE(IsRunOption(name)) << name;
}

TEST(QueueJson, TellsWhichOptionsAreNotAsUsual) {
  spec::JobOptions options;
  EXPECT_THAT(ChangedOptions(options), testing::IsEmpty());
  options.priority = 5;
  options.group = "a";
  options.idle_suspend = base::Millis(1000);
  options.auto_cancel = false;
  EXPECT_THAT(ChangedOptions(options),
              testing::UnorderedElementsAre("priority", "group", "idle_suspend_s", "auto_cancel"));
}

TEST(QueueRequests, InvalidValuesAreRefusedWithTheField) {
  EXPECT_THAT(Decode<CancelRequest>(R"({"jobs":[]})").error().message, HasSubstr("there are none"));
  EXPECT_THAT(Decode<ReservationRequest>(R"({"user":"a","start":"2026-11-22T00:00:00.000Z","duration_s":60})")
                  .error()
                  .message,
              HasSubstr("count: no GPU is reserved"));
  EXPECT_THAT(Decode<QuotaUpdate>(R"({"gpus":-1})").error().message, HasSubstr("gpus: -1"));
  EXPECT_THAT(Decode<QuotaUpdate>(R"({"shares":0})").error().message, HasSubstr("shares: 0"));
  EXPECT_THAT(Decode<IgnoreRuleView>(R"({"gpu":"0"})").error().message, HasSubstr("by pid, user or name"));
}

TEST(QueueRequests, NullRemovesLimit) {
  const auto quota = Decode<QuotaUpdate>(R"({"gpus":null,"running_jobs":3})");
  ASSERT_TRUE(quota);
  QuotaLimits limits;
  limits.gpus = 4;
  ASSERT_TRUE(SetLimits(*quota, limits));
  EXPECT_FALSE(limits.gpus);
  EXPECT_EQ(limits.running_jobs, 3);
  EXPECT_EQ(Encode(*quota), R"({"running_jobs":3,"gpus":null})");
  EXPECT_TRUE(Decode<QueueSettingsUpdate>(R"({"allowed":null})")->clear_allowed);
}

TEST(QueueAnswers, ReadBackAndPassOverFieldsNobodyKnows) {
  QueueInfo info;
  info.gpus.push_back({0,
                       "0",
                       "GPU-1",
                       "H200",
                       MemoryView{base::GiB(4), {}, base::GiB(4), {}},
                       "drained",
                       {"unhealthy", "drained"},
                       {},
                       {},
                       {{9, "gang", base::MiB(600)}},
                       {{7, "bob", "python", base::GiB(1), base::Millis(60'000), std::nullopt, {}, false}},
                       {},
                       InstancePart{"GPU-0", 2, 1, "1g.18gb"}});
  info.settings.allowed = {"GPU-1"};
  EXPECT_THAT(Encode(info), HasSubstr(R"("state":"drained","unfit":["unhealthy","drained"])"));
  EXPECT_EQ(Encode(*Decode<QueueInfo>(Encode(info))), Encode(info));
  const auto answer = Decode<SubmissionAnswer>(R"({"jobs":[{"id":7,"tag":"a","tasks":[7,8],"new":1}]})");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(answer->jobs[0].tasks, ElementsAre(7, 8));
}

TEST(JobView, HasTheQueuesFieldsOrNull) {
  JobView job;
  job.tag = "t";
  EXPECT_THAT(Encode(job), HasSubstr(R"("queue":null)"));
  job.queue.emplace();
  job.queue->asked.depends = {spec::DependencyMode::kAll, {{spec::DependencyKind::kAfterOk, "3"}}};
  job.queue->asked.time_limit = base::Millis(90'000);
  job.queue->asked.group = "sweep";
  job.queue->asked.max_concurrent = 2;
  job.queue->asked.warn_signal = spec::Signal{SIGUSR1};
  job.queue->asked.warn_before = base::Millis(5'000);
  job.queue->asked.notify.mails = {"a@b"};
  const auto out = Decode<JobView>(Encode(job));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->queue->asked.depends, job.queue->asked.depends);
  EXPECT_EQ(out->queue->asked.time_limit, base::Millis(90'000));
  EXPECT_THAT(Encode(job), HasSubstr(R"("time_limit_s":90,"begin":null)"));
  EXPECT_THAT(Encode(job), HasSubstr(R"("group":"sweep","max_concurrent":2,"preemptible":false)"));
  EXPECT_THAT(Encode(job),
              HasSubstr(R"("asked":{"time_limit_s":90,"group":"sweep","max_concurrent":2,)"
                        R"("warn_signal":"USR1","warn_before_s":5,"notify":{"mails":["a@b"]}})"));
  EXPECT_EQ(out->queue->asked, job.queue->asked);
}

}  // namespace
}  // namespace gpuman::api
