#include "spec/option_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gpuman::spec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <typename Rule, typename Value>
std::vector<std::string> Problems(Rule rule, const Value& value) {
  std::vector<std::string> problems;
  rule(value, [&](std::string_view field, const std::string& problem) {
    problems.push_back(std::string(field) + ": " + problem);
  });
  return problems;
}

template <typename F>
JobOptions With(F change) {
  JobOptions options;
  change(options);
  return options;
}

TEST(OptionRules, DefaultsAndBoundsThemselvesAreTaken) {
  EXPECT_THAT(Problems(CheckJobOptions, JobOptions{}), IsEmpty());
  EXPECT_THAT(Problems(CheckJobOptions, With([](JobOptions& o) {
                         o.priority = kHighestPriority, o.weight = kLowestWeight, o.cpus = kMaxCpus;
                         o.time_limit = kLongestTime, o.retries = {kMaxRetries, kLongestTime, {1, 255}};
                         o.max_concurrent = kMaxConcurrent, o.warn_signal = Signal{kHighestSignal};
                         o.project = std::string(kLongestName, 'p'), o.host_memory = base::Bytes{1};
                       })),
              IsEmpty());
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{0, {"GPU-a", "GPU-b"}}), IsEmpty());
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{kMaxGpusOfJob}), IsEmpty());
  EXPECT_THAT(Problems(CheckUmask, 0777u), IsEmpty());
}

TEST(OptionRules, ValuesOutsideTheirBoundsAreReportedByField) {
  const std::pair<std::function<void(JobOptions&)>, const char*> rows[] = {
      {[](JobOptions& o) { o.priority = 256; }, "priority: 256 lies outside 0 to 255"},
      {[](JobOptions& o) { o.weight = 0; }, "weight: 0 lies outside 0.001 to 1000"},
      {[](JobOptions& o) { o.weight = std::numeric_limits<double>::quiet_NaN(); },
       "weight: nan lies outside 0.001 to 1000"},
      {[](JobOptions& o) { o.device_profile = ""; }, "device_profile: it is empty"},
      {[](JobOptions& o) { o.stdout_file = ""; }, "stdout: it is empty"},
      {[](JobOptions& o) { o.conda_env = ""; }, "conda_env: it is empty"},
      {[](JobOptions& o) { o.cpus = 0; }, "cpus: 0 lies outside 1 to 1000000"},
      {[](JobOptions& o) { o.host_memory = base::Bytes{0}; }, "host_memory: it is zero"},
      {[](JobOptions& o) { o.time_limit = Millis(0); }, "time_limit_s: it is zero"},
      {[](JobOptions& o) { o.time_limit = Millis(-1); }, "time_limit_s: it is negative"},
      {[](JobOptions& o) { o.retries.count = 1001; }, "retries.count: 1001 lies outside 0 to 1000"},
      {[](JobOptions& o) { o.retries.delay = Millis(-1); }, "retries.delay_s: it is negative"},
      {[](JobOptions& o) { o.retries.on_exit_codes = {0}; },
       "retries.on_exit_codes: 0 lies outside 1 to 255"},
      {[](JobOptions& o) { o.project = " p"; }, "project: it is empty, or begins or ends with a blank"},
  };
  for (const auto& [change, problem] : rows)
    EXPECT_THAT(Problems(CheckJobOptions, With(change)), ElementsAre(problem));
  EXPECT_THAT(Problems(CheckJobOptions, With([](JobOptions& o) { o.time_limit = Millis::max(); })),
              ElementsAre(testing::StartsWith("time_limit_s: it is longer than")));
}

TEST(OptionRules, RequestsForGpusNameEachOnceAndAgreeWithTheirNumber) {
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{-1}),
              ElementsAre("gpus.count: -1 lies outside 0 to 1024"));
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{0, {"GPU-a", "GPU-a"}}),
              ElementsAre("gpus.devices: 'GPU-a' is there twice"));
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{1, {""}}),
              ElementsAre("gpus.devices: the name of a GPU is empty"));
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{2, {"GPU-a"}}),
              ElementsAre("gpus.count: 2 GPUs are asked for and 1 are named; leave the number out"));
  EXPECT_THAT(Problems(CheckGpuRequest, GpuRequest{1, {}, ""}), ElementsAre("gpus.model: it is empty"));
}

TEST(OptionRules, AWarningAGroupAndReceiversAreCheckedByThemselves) {
  const std::pair<std::function<void(JobOptions&)>, const char*> rows[] = {
      {[](JobOptions& o) { o.max_concurrent = 0; }, "max_concurrent: 0 lies outside 1 to 100000"},
      {[](JobOptions& o) { o.group = ""; }, "group: it is empty"},
      {[](JobOptions& o) { o.warn_before = Millis(-1); }, "warn_before_s: it is negative"},
      {[](JobOptions& o) { o.notify.mails = {"ada"}; },
       "notify.mails: 'ada' is not an address such as ada@example.org"},
      {[](JobOptions& o) { o.notify.mails.assign(11, "a@b"); },
       "notify.mails: there are 11; 10 are the most"},
  };
  for (const auto& [change, problem] : rows)
    EXPECT_THAT(Problems(CheckJobOptions, With(change)), ElementsAre(problem));
  EXPECT_THAT(Problems(CheckJobOptions, With([](JobOptions& o) { o.notify.webhooks = {"ftp://x"}; })),
              ElementsAre(testing::StartsWith("notify.webhooks: 'ftp://x'")));
}

TEST(OptionRules, NoOptionIsLongerThanWhatItNamesCanBe) {
  const std::string path(4096, '/');
  const std::pair<std::function<void(JobOptions&)>, const char*> rows[] = {
      {[&](JobOptions& o) { o.stdin_file = path; }, "stdin: it has 4096 bytes; 4095 are the most"},
      {[&](JobOptions& o) { o.stdout_file = path; }, "stdout: it has 4096 bytes; 4095 are the most"},
      {[&](JobOptions& o) { o.stderr_file = path; }, "stderr: it has 4096 bytes; 4095 are the most"},
      {[&](JobOptions& o) { o.conda_env = path; }, "conda_env: it has 4096 bytes; 4095 are the most"},
      {[](JobOptions& o) { o.notify.on.assign(101, NotifyOn::kFailed); },
       "notify.on: there are 101; 100 are the most"},
      {[](JobOptions& o) { o.retries.on_exit_codes.assign(256, 1); },
       "retries.on_exit_codes: there are 256; 255 are the most"},
  };
  for (const auto& [change, problem] : rows)
    EXPECT_THAT(Problems(CheckJobOptions, With(change)), ElementsAre(problem));
  EXPECT_THAT(Problems(CheckDirectory, path), ElementsAre("directory: it has 4096 bytes; 4095 are the most"));
  EXPECT_THAT(Problems(CheckDirectory, path.substr(1)), IsEmpty());
}

TEST(OptionRules, OptionsThatARequestSetsTogetherAgree) {
  EXPECT_THAT(Problems(CheckWarning, With([](JobOptions& o) { o.warn_signal = Signal{10}; })),
              ElementsAre("warn_signal: there is no time limit to warn of; give time_limit_s"));
  const auto late = With([](JobOptions& o) { o.time_limit = o.warn_before = Millis(5000); });
  EXPECT_THAT(Problems(CheckWarning, late),
              ElementsAre("warn_before_s: 5s before the end is not after the start: the limit is 5s"));
  EXPECT_THAT(Problems(CheckGroup, With([](JobOptions& o) { o.max_concurrent = 2; })),
              ElementsAre("max_concurrent: it is for the jobs of a group; give group a name"));
  EXPECT_THAT(Problems(CheckReceivers, With([](JobOptions& o) { o.notify.on = {NotifyOn::kFailed}; })),
              ElementsAre("notify.on: there is nobody to tell; give notify.mails or notify.webhooks"));
}

TEST(OptionRules, SurroundingsOfACommandAreChecked) {
  EXPECT_THAT(Problems(CheckUmask, 01000u), ElementsAre("umask: 512 lies outside 0 to 511"));
  EXPECT_THAT(Problems(CheckDirectory, std::string("a/b")), ElementsAre("directory: 'a/b' is not absolute"));
  EXPECT_THAT(Problems(CheckDirectory, std::string()), IsEmpty());
  EXPECT_THAT(
      Problems(CheckEnvironment, std::map<std::string, std::string>{{"", "x"}, {"A=B", "x"}, {"C", ""}}),
      ElementsAre("environment: '' is no name of a variable", "environment: 'A=B' is no name of a variable"));
}

}  // namespace
}  // namespace gpuman::spec
