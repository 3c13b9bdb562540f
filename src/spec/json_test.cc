#include "spec/json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace gpuman::spec {
namespace {

JobSpec Full() {
  JobSpec spec;
  spec.project = "vision";
  spec.script = "#!/bin/sh\necho \"ä\"\n";
  spec.stdin_file = "/in";
  spec.stdout_file = "/out-%j";
  spec.stderr_file = "/err";
  spec.conda_env = "torch";
  spec.device_profile = "quiet";
  spec.gpus = {.count = 2,
               .devices = {"GPU-a", "GPU-b"},
               .model = "H200",
               .free_memory = base::SizeSpec{base::GiB(20), 0}};
  spec.share = true;
  spec.memory = base::SizeSpec{{}, 12.5};
  spec.soft = base::SizeSpec{base::GiB(7), 0};
  spec.memory_on_each = base::GiB(8);
  spec.weight = 2.5;
  spec.compute = ComputeShare{30, true};
  spec.latency = true;
  spec.oversubscribe = true;
  spec.preload = false;
  spec.mps = true;
  spec.mps_threads = 12.5;
  spec.grace = Millis(1500);
  spec.restart = RestartMode::kOnFailure;
  spec.host_memory = base::GiB(64);
  spec.cpus = 4;
  spec.time_limit = std::chrono::hours(2);
  spec.warn_signal = Signal{10};
  spec.warn_before = std::chrono::minutes(1);
  spec.begin = WallTime(Millis(1'800'000'000'000));
  spec.priority = 200;
  spec.hold = spec.preemptible = true;
  spec.depends = {DependencyMode::kAny, {{DependencyKind::kAfterOk, {7}}, {DependencyKind::kAfter, {9}}}};
  spec.auto_cancel = false;
  spec.group = "sweep";
  spec.max_concurrent = 2;
  spec.retries = {3, Millis(1500), {1, 137}};
  spec.notify = {{"http://x/"}, {"a@b"}, {NotifyOn::kFailed, NotifyOn::kRequeued}};
  return spec;
}

TEST(JobSpecJson, WhatWasWrittenIsReadAgain) {
  for (const JobSpec& spec : {JobSpec{}, Full()}) {
    const auto read = ParseJobSpec(Serialize(spec));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, spec);
  }
}

TEST(JobSpecJson, DefaultsAreLeftOut) {
  EXPECT_EQ(Serialize({}), R"({"v":1})");
  JobSpec spec;
  spec.gpus.count = 2;
  spec.time_limit = std::chrono::hours(2);
  spec.depends.list = {{DependencyKind::kAfterOk, {7}}};
  EXPECT_EQ(Serialize(spec),
            R"({"v":1,"time_limit_ms":7200000,"gpus":{"count":2},"depends":{"list":[["afterok",7]]}})");
}

TEST(JobSpecJson, WhatWasNotWrittenHereIsRefusedWithTheField) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "it is no JSON"},
      {"[]", "an object was expected, not an array"},
      {"{}", "'v' is missing"},
      {R"({"v":2})", "v: 2 is not known here"},
      {R"({"v":1,"gpus":7})", "gpus: an object was expected"},
      {R"({"v":1,"gpus":{"count":"1"}})", "gpus.count: an integer was expected"},
      {R"({"v":1,"gpus":{"count":1.5}})", "gpus.count: an integer was expected"},
      {R"({"v":1,"gpus":{"count":99999999999}})", "gpus.count: 99999999999 lies outside"},
      {R"({"v":1,"memory":-1,"gpus":{"count":1}})", "memory: a number of bytes was expected"},
      {R"({"v":1,"share":"yes"})", "share: a boolean was expected"},
      {R"({"v":1,"depends":{"list":[["afterok"]]}})", "depends.list[0]: it is no kind and job"},
      {R"({"v":1,"depends":{"list":[["sometimes",1]]}})", "depends.list[0]: 'sometimes' is none of afterok"},
      {R"({"v":1,"priority":256})", "priority: 256 lies outside"},
  };
  for (const auto& [text, said] : rows) {
    const auto read = ParseJobSpec(text);
    ASSERT_FALSE(read) << text;
    const bool other_version = std::string_view(text) == R"({"v":2})";
    EXPECT_EQ(read.error().code, other_version ? base::ErrorCode::kNotSupported : base::ErrorCode::kCorrupt);
    EXPECT_NE(read.error().message.find(said), std::string::npos) << read.error().message;
  }
}

TEST(JobSpecJson, AChangeIsTakenOutFieldByField) {
  const JobSpec before = Full();
  JobSpec changed = before;
  changed.priority = before.priority + 1;
  changed.time_limit.reset();
  changed.project = "mine";
  JobSpec now = changed;
  now.project = "somebody's since";
  now.share = !before.share;
  JobSpec expected = before;
  expected.project = now.project;
  expected.share = now.share;
  EXPECT_EQ(WithoutChange(now, before, changed), expected);
  EXPECT_EQ(WithoutChange(now, before, before), now);
}

// An earlier version wrote this, before these were options of their own.
TEST(JobSpecJson, AnOlderSpecIsReadWithItsGroupWarningReceiversAndDependencies) {
  const auto read = ParseJobSpec(
      R"({"v":1,"time_limit_ms":7200000,"gpus":{"count":2},"warn_signal":10,"warn_before_ms":60000,)"
      R"("depends":{"mode":"any","list":[["afterok",7]],"auto_cancel":false},)"
      R"("group":{"name":"sweep","limit":2},)"
      R"("notify":{"webhooks":["http://x/"],"mails":["a@b"],"on":["failed","requeued"]}})");
  ASSERT_TRUE(read) << read.error().message;
  JobSpec expected;
  expected.time_limit = std::chrono::hours(2);
  expected.gpus.count = 2;
  expected.warn_signal = Signal{10};
  expected.warn_before = std::chrono::minutes(1);
  expected.depends = {DependencyMode::kAny, {{DependencyKind::kAfterOk, {7}}}};
  expected.auto_cancel = false;
  expected.group = "sweep";
  expected.max_concurrent = 2;
  expected.notify = {{"http://x/"}, {"a@b"}, {NotifyOn::kFailed, NotifyOn::kRequeued}};
  EXPECT_EQ(*read, expected);
  EXPECT_EQ(ParseJobSpec(Serialize(*read)), expected);
  EXPECT_EQ(ParseJobSpec(R"({"v":1,"group":{"name":7}})").error().message,
            "a job's spec cannot be read: group: a string was expected, not an integer");
}

TEST(JobSpecJson, FieldsOfALaterVersionAreIgnored) {
  EXPECT_EQ(ParseJobSpec(R"({"v":1,"from_the_future":1,"cpus":3})")->cpus, 3);
}

TEST(JobSpecJson, AnyValidSpecComesBackTheSame) {
  EXPECT_TRUE(rc::check([] {
    JobSpec spec = *rc::gen::arbitrary<bool>() ? Full() : JobSpec{};
    spec.priority = *rc::gen::inRange(0, 256);
    spec.cpus = *rc::gen::inRange(1, 1000);
    spec.script = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    if (*rc::gen::arbitrary<bool>())
      spec.time_limit = Millis(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000));
    spec.retries.on_exit_codes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 256));
    const auto read = ParseJobSpec(Serialize(spec));
    RC_ASSERT(read.has_value());
    RC_ASSERT(*read == spec);
  }));
}

}  // namespace
}  // namespace gpuman::spec
