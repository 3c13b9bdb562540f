#include "queue/request.h"

#include <gtest/gtest.h>

#include <functional>

#include "queue/settings.h"

namespace gpuman::queue {
namespace {

TEST(QueueRequest, WhatNoMachineCouldRunIsRefusedWithTheField) {
  const std::pair<std::function<void(Request&)>, const char*> rows[] = {
      {[](Request& r) { r.gpus.count = -1; }, "gpus.count is -1"},
      {[](Request& r) {
         r.gpus = {2, {"GPU-a"}};
       },
       "gpus.count is 2, but 1 devices"},
      {[](Request& r) {
         r.gpus = {2, {"GPU-a", "GPU-a"}};
       },
       "names a GPU twice"},
      {[](Request& r) { r.gpus.model = "H200"; }, "gpus says which, but not how many"},
      {[](Request& r) { r.share = true; }, "share needs a number of GPUs"},
      {[](Request& r) { r.share = true, r.gpus.count = 1; }, "memory must be given"},
      {[](Request& r) { r.gpus.count = 1, r.memory = base::Bytes{0}; }, "memory is zero"},
      {[](Request& r) { r.time_limit = Millis(0); }, "time_limit must be from"},
      {[](Request& r) { r.time_limit = Millis::max(); }, "time_limit must be from"},
      {[](Request& r) { r.warn_signal = 65; }, "warn_signal is 65"},
      {[](Request& r) { r.begin = WallTime::max(); }, "begin is no time that will come"},
      {[](Request& r) { r.priority = -1; }, "priority is -1"},
      {[](Request& r) { r.project = "a\nb"; }, "project has control characters"},
      {[](Request& r) { r.standard_output = std::string("a\0b", 3); }, "NUL byte"},
      {[](Request& r) { r.group.name = "g"; }, "group needs a name and a limit"},
      {[](Request& r) { r.retries.on_exit_codes = {256}; }, "on_exit_codes is 256"},
      {[](Request& r) {
         r.array = ArrayTask{{0}, 1, 1};
       },
       "array.array is 0"},
      {[](Request& r) {
         r.depends.list = {{DependencyKind::kAfter, {0}}};
       },
       "depends names job 0"},
  };
  for (const auto& [change, said] : rows) {
    Request request;
    change(request);
    const auto valid = Validate(request);
    ASSERT_FALSE(valid) << said;
    EXPECT_EQ(valid.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_NE(valid.error().message.find(said), std::string::npos) << valid.error().message;
  }
  EXPECT_TRUE(Validate(Request{}));
}

TEST(QueueSettings, BoundsAreHeldAndNamed) {
  EXPECT_TRUE(Validate(SchedulingSettings{}));
  SchedulingSettings settings;
  settings.half_life = Millis(0);
  EXPECT_NE(Validate(settings).error().message.find("queue.half_life"), std::string::npos);
  settings = {};
  settings.memory_weight = 1.5;
  EXPECT_NE(Validate(settings).error().message.find("queue.memory_weight"), std::string::npos);
}

TEST(QueueSettings, ChoicesHaveWords) {
  for (const Choice choice : {Choice::kSequential, Choice::kRandom, Choice::kTopology})
    EXPECT_EQ(ParseChoice(ToString(choice)).value(), choice);
  EXPECT_FALSE(ParseChoice("best"));
}

}  // namespace
}  // namespace gpuman::queue
