#include "queue/record.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace gpuman::queue {
namespace {

Request Full() {
  Request request;
  request.project = "vision";
  request.script = "#!/bin/sh\necho \"ä\"\n";
  request.standard_input = "/in";
  request.standard_output = "/out-%j";
  request.standard_error = "/err";
  request.conda_env = "torch";
  request.device_profile = "quiet";
  request.gpus = {.count = 2, .devices = {"GPU-a", "GPU-b"}, .model = "H200", .free_memory = base::GiB(20)};
  request.share = true;
  request.memory = base::GiB(8);
  request.host_memory = base::GiB(64);
  request.cpus = 4;
  request.time_limit = std::chrono::hours(2);
  request.warn_signal = 10;
  request.warn_before = std::chrono::minutes(1);
  request.begin = WallTime(Millis(1'800'000'000'000));
  request.priority = 200;
  request.hold = request.preemptible = true;
  request.depends = {
      DependencyMode::kAny, {{DependencyKind::kAfterOk, {7}}, {DependencyKind::kAfter, {9}}}, false};
  request.array = ArrayTask{{7}, 3, 4};
  request.group = {"sweep", 2};
  request.retries = {3, Millis(1500), {1, 137}};
  request.notify = {{"http://x/"}, {"a@b"}, {NotifyOn::kFailed, NotifyOn::kRequeued}};
  return request;
}

TEST(QueueRecord, WhatWasWrittenIsReadAgain) {
  for (const Request& request : {Request{}, Full()}) {
    const auto read = ParseRequest(SerializeRequest(request));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, request);
  }
}

TEST(QueueRecord, DefaultsAreLeftOut) {
  EXPECT_EQ(SerializeRequest({}), R"({"v":1})");
  Request request;
  request.gpus.count = 2;
  request.time_limit = std::chrono::hours(2);
  request.depends.list = {{DependencyKind::kAfterOk, {7}}};
  EXPECT_EQ(SerializeRequest(request),
            R"({"depends":{"list":[["afterok",7]]},"gpus":{"count":2},"time_limit_ms":7200000,"v":1})");
}

TEST(QueueRecord, WhatWasNotWrittenHereIsRefusedWithTheField) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "parse error"},
      {"[]", "is no object"},
      {"{}", "version 0"},
      {R"({"v":2})", "version 2"},
      {R"({"v":1,"gpu":1})", "gpu is no known field"},
      {R"({"v":1,"gpus":{"count":1,"x":0}})", "x is no known field"},
      {R"({"v":1,"gpus":7})", "is no object"},
      {R"({"v":1,"gpus":{"count":"1"}})", "count is no whole number"},
      {R"({"v":1,"gpus":{"count":1.5}})", "count is no whole number"},
      {R"({"v":1,"gpus":{"count":99999999999}})", "count is out of range"},
      {R"({"v":1,"memory":-1,"gpus":{"count":1}})", "memory is out of range"},
      {R"({"v":1,"share":"yes"})", "share has a wrong type"},
      {R"({"v":1,"depends":{"list":[["afterok"]]}})", "list is no kind and job"},
      {R"({"v":1,"depends":{"list":[["sometimes",1]]}})", "list is no known word"},
      {R"({"v":1,"priority":256})", "priority is 256"},
  };
  for (const auto& [text, said] : rows) {
    const auto read = ParseRequest(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, base::ErrorCode::kCorrupt);
    EXPECT_NE(read.error().message.find(said), std::string::npos) << read.error().message;
  }
}

TEST(QueueRecord, AnyValidRequestComesBackTheSame) {
  EXPECT_TRUE(rc::check([] {
    Request request = *rc::gen::arbitrary<bool>() ? Full() : Request{};
    request.priority = *rc::gen::inRange(0, 256);
    request.cpus = *rc::gen::inRange(0, 1000);
    request.script = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    if (*rc::gen::arbitrary<bool>())
      request.time_limit = Millis(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000));
    request.retries.on_exit_codes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 256));
    const auto read = ParseRequest(SerializeRequest(request));
    RC_ASSERT(read.has_value());
    RC_ASSERT(*read == request);
  }));
}

}  // namespace
}  // namespace gpuman::queue
