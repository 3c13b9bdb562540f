#include "spec/job_spec.h"

#include <gtest/gtest.h>

#include <functional>

namespace gpuman::spec {
namespace {

TEST(ValidateJobSpec, WhatNoMachineCouldRunIsRefusedWithTheField) {
  const std::pair<std::function<void(JobSpec&)>, const char*> rows[] = {
      {[](JobSpec& r) { r.gpus.count = -1; }, "gpus.count: -1 lies outside 0 to 1024"},
      {[](JobSpec& r) {
         r.gpus = {2, {"GPU-a"}};
       },
       "gpus.count: 2 GPUs are asked for and 1 are named"},
      {[](JobSpec& r) {
         r.gpus = {2, {"GPU-a", "GPU-a"}};
       },
       "gpus.devices: 'GPU-a' is there twice"},
      {[](JobSpec& r) { r.gpus.model = "H200"; }, "gpus.count: it must be given with a model"},
      {[](JobSpec& r) { r.share = true; }, "share: it needs a number of GPUs"},
      {[](JobSpec& r) { r.share = true, r.gpus.count = 1; }, "memory: it must be given"},
      {[](JobSpec& r) { r.gpus.count = 1, r.memory_on_each = base::Bytes{0}; }, "memory: it is zero"},
      {[](JobSpec& r) { r.time_limit = Millis(0); }, "time_limit_s: it is zero"},
      {[](JobSpec& r) { r.time_limit = Millis::max(); }, "time_limit_s: it is longer than"},
      {[](JobSpec& r) { r.warn_signal = Signal{65}; }, "warn_signal: 65 lies outside 0 to 64"},
      {[](JobSpec& r) { r.begin = WallTime::max(); }, "begin: it is no time that will come"},
      {[](JobSpec& r) { r.priority = -1; }, "priority: -1 lies outside 0 to 255"},
      {[](JobSpec& r) { r.project = "a\nb"; }, "project: it has control characters"},
      {[](JobSpec& r) { r.stdout_file = std::string("a\0b", 3); }, "NUL byte"},
      {[](JobSpec& r) { r.group = "g"; }, "group: it needs a name and a limit"},
      {[](JobSpec& r) { r.retries.on_exit_codes = {256}; }, "on_exit_codes: 256 lies outside 1 to 255"},
      {[](JobSpec& r) {
         r.depends.list = {{DependencyKind::kAfter, {0}}};
       },
       "depends: it names job 0"},
  };
  for (const auto& [change, said] : rows) {
    JobSpec spec;
    change(spec);
    const auto valid = ValidateForQueue(spec);
    ASSERT_FALSE(valid) << said;
    EXPECT_EQ(valid.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_NE(valid.error().message.find(said), std::string::npos) << valid.error().message;
  }
  EXPECT_TRUE(ValidateForQueue(JobSpec{}));
  // The GPUs of a job of `gpuman run` are in the job's record.
  JobSpec run;
  run.share = true;
  EXPECT_TRUE(Validate(run));
  EXPECT_FALSE(ValidateForQueue(run));
}

}  // namespace
}  // namespace gpuman::spec
