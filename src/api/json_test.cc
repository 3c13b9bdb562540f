#include "api/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace gpuman::api {
namespace {

using ::testing::HasSubstr;
namespace gen = rc::gen;

// Any text: letters, quotes, control characters, and characters of two to four bytes.
rc::Gen<std::string> Text() {
  return gen::map(gen::container<std::vector<std::string>>(gen::element<std::string>(
                      "a", "Z", "7", " ", "\"", "\\", "/", "\n", "\x01", "é", "€", "😀", "-", "{", "%")),
                  [](const std::vector<std::string>& parts) {
                    std::string text;
                    for (const auto& part : parts) text += part;
                    return text;
                  });
}
template <typename T>
rc::Gen<std::optional<T>> Maybe(rc::Gen<T> some) {
  return gen::map(gen::pair(gen::arbitrary<bool>(), std::move(some)), [](const std::pair<bool, T>& p) {
    return p.first ? std::optional<T>(p.second) : std::nullopt;
  });
}
rc::Gen<std::vector<std::string>> Texts() { return gen::container<std::vector<std::string>>(Text()); }
rc::Gen<base::Bytes> Bytes() {
  return gen::map(gen::arbitrary<std::uint64_t>(), [](std::uint64_t n) { return base::Bytes{n}; });
}
rc::Gen<base::WallTime> Time() {
  return gen::map(gen::inRange<std::int64_t>(0, 4'000'000'000'000),
                  [](std::int64_t ms) { return base::WallTime(base::Millis(ms)); });
}
rc::Gen<base::SizeSpec> Size() {
  return gen::oneOf(gen::map(gen::inRange<std::uint64_t>(1, INT64_MAX),
                             [](std::uint64_t n) {
                               return base::SizeSpec{{n}, 0};
                             }),
                    gen::map(gen::inRange(1, 1'000'000), [](int n) {
                      return base::SizeSpec{{}, static_cast<double>(n) / 10'000};
                    }));
}
rc::Gen<base::Millis> Duration() {
  return gen::map(gen::inRange<std::int64_t>(0, 1'000'000'000),
                  [](std::int64_t ms) { return base::Millis(ms); });
}

RC_GTEST_PROP(Codec, ReadsBackEveryRunRequest, ()) {
  RunRequest in;
  in.tag = "t" + *Text();
  in.command = *Texts();
  in.command.insert(in.command.begin(), "/bin/x");
  in.directory = "/" + *Text();
  for (const auto& name : *Texts()) in.environment["V" + name] = *Text();
  in.umask = *gen::inRange<std::uint32_t>(0, 01000);
  in.memory = *Maybe(Size());
  in.soft = *Maybe(Size());
  in.gpus = *Texts();
  in.priority = *gen::inRange(0, 256);
  in.restart =
      *gen::element(spec::RestartMode::kNo, spec::RestartMode::kOnFailure, spec::RestartMode::kAlways);
  in.grace = *Maybe(Duration());
  in.preload = *gen::arbitrary<bool>();
  const auto out = Decode<RunRequest>(Encode(in));
  RC_ASSERT(out.has_value());
  RC_ASSERT(out->tag == in.tag && out->command == in.command && out->directory == in.directory);
  RC_ASSERT(out->environment == in.environment && out->umask == in.umask && out->gpus == in.gpus);
  RC_ASSERT(out->memory == in.memory && out->soft == in.soft && out->grace == in.grace);
  RC_ASSERT(out->priority == in.priority && out->restart == in.restart && out->preload == in.preload);
}

rc::Gen<JobView> Job() {
  return gen::exec([] {
    JobView job;
    job.id = *gen::inRange<std::int64_t>(0, INT64_MAX);
    job.tag = *Text();
    job.user = *Text();
    job.state = *gen::element(JobState::kQueued, JobState::kRunning, JobState::kStopping, JobState::kKilled);
    job.reason = *Maybe(Text());
    job.reason_detail = *Maybe(Text());
    job.pid = *Maybe(gen::inRange(1, 1 << 22));
    job.gpus = *Texts();
    job.command = *Texts();
    job.directory = *Text();
    job.memory = {*Maybe(Bytes()), *Maybe(Bytes()), *Maybe(Bytes()), *Maybe(Bytes()), *Maybe(Bytes())};
    job.exit_code = *Maybe(gen::inRange(0, 256));
    job.signal = *Maybe(gen::inRange(1, 65));
    job.submitted_at = *Time();
    job.started_at = *Maybe(Time());
    job.ended_at = *Maybe(Time());
    job.restarts = *gen::inRange(0, 1000);
    job.log_path = *Text();
    if (*gen::arbitrary<bool>()) job.unshimmed = *gen::container<std::vector<int>>(gen::inRange(1, 1 << 22));
    return job;
  });
}

rc::Gen<GpuView> Gpu() {
  return gen::exec([] {
    GpuView gpu;
    gpu.index = *Maybe(gen::inRange(0, 64));
    gpu.uuid = *Text();
    gpu.name = *Text();
    if (*gen::arbitrary<bool>()) gpu.memory = MemoryView{*Bytes(), *Bytes(), *Bytes(), *Bytes()};
    gpu.utilization_gpu = *Maybe(gen::inRange(0, 101));
    gpu.utilization_memory = *Maybe(gen::inRange(0, 101));
    gpu.temperature_c = *Maybe(gen::inRange(-40, 120));
    gpu.power_w = *Maybe(gen::map(gen::inRange(0, 900'000), [](int mw) { return mw / 1000.0; }));
    gpu.power_limit_w = *Maybe(gen::map(gen::inRange(0, 900'000), [](int mw) { return mw / 1000.0; }));
    gpu.performance_state = *Maybe(gen::inRange(0U, 16U));
    gpu.encoder_percent = *Maybe(gen::inRange(0U, 101U));
    gpu.decoder_percent = *Maybe(gen::inRange(0U, 101U));
    gpu.pcie_generation = *Maybe(gen::inRange(1U, 7U));
    gpu.pcie_lanes = *Maybe(gen::inRange(1U, 17U));
    gpu.health = {"degraded", *Texts()};
    gpu.number = *Maybe(Text());
    gpu.split = *gen::arbitrary<bool>();
    if (*gen::arbitrary<bool>())
      gpu.mig = InstancePart{*Text(), *gen::inRange(0U, 14U), *gen::inRange(0U, 7U), *Text()};
    for (int i = *gen::inRange(0, 3); i > 0; --i)
      gpu.processes.push_back({*gen::inRange(1, 1 << 22), *Maybe(Text()), *Maybe(Text()), *Maybe(Bytes()),
                               *Maybe(gen::inRange<std::int64_t>(1, 1000)), *Maybe(Text()), *Texts(),
                               *gen::arbitrary<bool>(), *Maybe(gen::inRange(0U, 101U))});
    return gpu;
  });
}

// The types have no operator==. What was read is written the same way again, and RunRequest's test above
// shows that the writer loses nothing.
RC_GTEST_PROP(Codec, WritesTheSameTextAgainAfterReadingAStatus, ()) {
  StatusView in;
  in.gpus = *gen::resize(8, gen::container<std::vector<GpuView>>(Gpu()));
  in.jobs = *gen::resize(8, gen::container<std::vector<JobView>>(Job()));
  in.driver_error = *Maybe(Text());
  in.driver_version = *Maybe(Text());
  in.cuda_version = *Maybe(Text());
  const auto out = Decode<StatusView>(Encode(in));
  RC_ASSERT(out.has_value());
  RC_ASSERT(out->gpus.size() == in.gpus.size() && out->jobs.size() == in.jobs.size());
  RC_ASSERT(Encode(*out) == Encode(in));
}

RC_GTEST_PROP(Codec, WritesTheSameTextAgainAfterReadingAnEvent, ()) {
  EventView in;
  in.id = *gen::inRange<std::int64_t>(0, INT64_MAX);
  in.at = *Time();
  in.kind = *Text();
  in.job = *Maybe(gen::inRange<std::int64_t>(0, INT64_MAX));
  in.tag = *Maybe(Text());
  in.gpu = *Maybe(Text());
  in.message = *Text();
  for (const auto& name : *Texts()) in.data[name] = *gen::arbitrary<std::int64_t>();
  const auto out = Decode<EventView>(Encode(in));
  RC_ASSERT(out.has_value());
  RC_ASSERT(out->data == in.data && out->at == in.at && out->message == in.message);
  RC_ASSERT(Encode(*out) == Encode(in));
}

RC_GTEST_PROP(ParseJson, NeverThrowsOnAnyBytes, (const std::string& bytes)) {
  const auto status = Decode<StatusView>(bytes);
  const auto run = Decode<RunRequest>(bytes);
  RC_ASSERT(!status && !run);
  RC_ASSERT(!ErrorOfAnswer(500, bytes).message.empty());
}

TEST(StatusJson, HasTheShapeThatScriptsRelyOn) {
  StatusView status;
  GpuView gpu;
  gpu.index = 0;
  gpu.uuid = "GPU-1";
  gpu.name = "NVIDIA H200";
  gpu.memory = MemoryView{{100}, {40}, {60}, {5}};
  gpu.utilization_gpu = 7;
  gpu.temperature_c = 33;
  gpu.power_w = 78.5;
  gpu.processes.push_back({1, "lab1", "python", base::Bytes{9}, 1, "train", {}});
  status.gpus.push_back(gpu);
  JobView job;
  job.id = 1;
  job.tag = "train";
  job.user = "lab1";
  job.state = JobState::kRunning;
  job.memory.limit = base::GiB(8);
  job.options.grace = base::Millis(2500);
  job.options.trace_allocations = true;
  job.submitted_at = base::WallTime(base::Millis(0));
  status.jobs.push_back(job);
  const Json json = *ParseJson(Encode(status));
  const Json& g = json["gpus"][0];
  EXPECT_EQ(g["memory"], Json::parse(R"({"total":100,"used":40,"free":60,"reserved":5})"));
  EXPECT_EQ(g["utilization"], Json::parse(R"({"gpu":7,"memory":null})"));
  EXPECT_EQ(g["temperature_c"], 33);
  EXPECT_EQ(g["health"], Json::parse(R"({"state":"healthy","reasons":[]})"));
  EXPECT_EQ(g["processes"][0]["job"], 1);
  EXPECT_EQ(g["processes"][0]["memory"], 9);
  const Json& j = json["jobs"][0];
  EXPECT_EQ(j["state"], "running");
  EXPECT_EQ(
      j["memory"],
      Json::parse(
          R"({"limit":8589934592,"soft":null,"used":null,"peak":null,"host":null,"left":null,"peak_parts":null,"held_by_driver":null})"));
  EXPECT_EQ(j["submitted_at"], "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(j["grace"], 2.5);
  EXPECT_EQ(j["trace_allocations"], true);
  EXPECT_EQ(j["preload"], true) << "an option that is as usual is shown as well";
  EXPECT_EQ(j["weight"], 1.0);
  EXPECT_TRUE(j.at("idle_suspend_s").is_null());
  for (const char* name : {"reason", "pid", "exit_code", "signal", "started_at", "ended_at"})
    EXPECT_TRUE(j.at(name).is_null()) << name;
}

struct BadRequest {
  const char* body;
  const char* says;
};

TEST(RunRequestJson, NamesWhatIsWrongAndWhere) {
  for (const auto& [body, says] : std::initializer_list<BadRequest>{
           {"", "not JSON"},
           {"{\"tag\":", "not JSON"},
           {"[]", "an object was expected, not an array"},
           {R"({"command":["x"]})", "'tag' is missing"},
           {R"({"tag":"","command":["x"]})", "tag: it is empty"},
           {R"({"tag":"t"})", "'command' is missing"},
           {R"({"tag":"t","command":[]})", "command: it is empty"},
           {R"({"tag":"t","command":"x"})", "command: an array was expected, not a string"},
           {R"({"tag":"t","command":["x",3]})", "command[1]: a string was expected, not an integer"},
           {R"({"tag":"t","command":["x\u0000y"]})", "command[0]: a string holds a NUL"},
           {R"({"tag":"t","command":["x"],"memroy":1})", "unknown field 'memroy'"},
           {R"({"tag":"t","command":["x"],"memory":-1})", "memory: '-1' is not a size: it is negative"},
           {R"({"tag":"t","command":["x"],"memory":0})", "it is zero"},
           {R"({"tag":"t","command":["x"],"memory":1.5})", "not a fraction"},
           {R"({"tag":"t","command":["x"],"memory":18446744073709551616})", "memory: bytes"},
           {R"({"tag":"t","command":["x"],"memory":18446744073709551615})", "larger than 8 EiB"},
           {R"({"tag":"t","command":["x"],"memory":"8 giraffes"})", "'giraffes' is no unit"},
           {R"({"tag":"t","command":["x"],"memory":"101%"})", "at most 100"},
           {R"({"tag":"t","command":["x"],"priority":256})", "priority: 256 lies outside 0 to 255"},
           {R"({"tag":"t","command":["x"],"priority":99999999999})", "priority: 99999999999 lies outside"},
           {R"({"tag":"t","command":["x"],"device_profile":""})", "device_profile: it is empty"},
           {R"({"tag":"t","command":["x"],"restart":"maybe"})", "'maybe' is none of no, on-failure, always"},
           {R"({"tag":"t","command":["x"],"grace":-1})", "grace: a time is at least 0"},
           {R"({"tag":"t","command":["x"],"grace":[]})", "grace: seconds or a string"},
           {R"({"tag":"t","command":["x"],"directory":"here"})", "'here' is not absolute"},
           {R"({"tag":"t","command":["x"],"umask":512})", "umask: 512"},
           {R"({"tag":"t","command":["x"],"environment":{"A=B":"c"}})", "'A=B' is no name"},
           {R"({"tag":"t","command":["x"],"environment":{"A":1}})", "environment.A: a string was expected"},
           {"{\"tag\":\"\xff\",\"command\":[\"x\"]}", "not UTF-8"},
       }) {
    const auto result = Decode<RunRequest>(body);
    ASSERT_FALSE(result) << body;
    EXPECT_EQ(result.error().code, base::ErrorCode::kInvalidArgument) << body;
    EXPECT_THAT(result.error().message, HasSubstr(says)) << body;
  }
}

TEST(RunRequestJson, TakesSizesAndTimesAsPeopleWriteThem) {
  const auto r = Decode<RunRequest>(
      R"({"tag":"t","command":["x"],"memory":"8GiB","soft":"50%","grace":"1m","priority":0})");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->memory->bytes, base::GiB(8));
  EXPECT_EQ(r->soft->percent, 50);
  EXPECT_EQ(r->grace, base::Millis(60'000));
  EXPECT_EQ(Decode<RunRequest>(R"({"tag":"t","command":["x"],"grace":0.25})")->grace, base::Millis(250));
}

TEST(ShareJson, TravelsWithItsCounts) {
  ShareView view;
  view.settings.memory = "managed";
  ShareGpu gpu;
  gpu.uuid = "GPU-1";
  gpu.hand_overs = 3;
  gpu.jobs.emplace_back().memory.managed = base::GiB(7);
  view.gpus.push_back(gpu);
  const auto back = Decode<ShareView>(Encode(view));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->gpus.at(0).hand_overs, 3u);
  EXPECT_EQ(back->gpus.at(0).jobs.at(0).memory.managed, base::GiB(7));
  EXPECT_EQ(back->settings.memory, "managed");
  gpu.hand_overs = UINT64_MAX;
  view.gpus = {gpu};
  const auto largest = Decode<ShareView>(Encode(view));
  ASSERT_TRUE(largest) << largest.error().message;
  EXPECT_EQ(largest->gpus.at(0).hand_overs, UINT64_MAX);
}

template <typename T>
class RequestJson : public ::testing::Test {};
using Requests = ::testing::Types<HealthAcknowledgement, MigRequest, MpsOrder, MpsStop, MpsTermination,
                                  ResumeOrMoveRequest, RunRequest, ShareUpdate>;
TYPED_TEST_SUITE(RequestJson, Requests);

// A misspelt field would otherwise be a request that has no effect.
TYPED_TEST(RequestJson, HasNoFieldsThatTheDaemonDoesNotKnow) {
  const auto read =
      Decode<TypeParam>(R"({"memroy":1,"gpu":"0","pid":1,"tag":"t","command":["x"],"gpus":[],"devices":[]})");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, ::testing::HasSubstr("unknown field"));
}

TEST(AnswerJson, MayHoldFieldsOfANewerDaemon) {
  const auto r = Decode<VersionView>(R"({"version":"9","api":1,"pid":3,"user_mode":true,"moon":"full"})");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_TRUE(r->user_mode);
}

TEST(ErrorJson, TravelsAndSurvivesForeignAnswers) {
  const base::Error error{base::ErrorCode::kUnsatisfiable, "too big", "less"};
  const auto back = ErrorOfAnswer(422, Encode(error));
  EXPECT_EQ(back.code, error.code);
  EXPECT_EQ(back.message, "too big");
  EXPECT_EQ(back.hint, "less");
  EXPECT_EQ(ErrorOfAnswer(404, "<html>").code, base::ErrorCode::kNotFound);
  EXPECT_EQ(ErrorOfAnswer(418, "").code, base::ErrorCode::kInternal);
}

// Exit status 3 is for a daemon that cannot be reached, not for a lost GPU.
TEST(ErrorJson, ADaemonThatAnswersIsNotUnreachable) {
  for (const auto code : {base::ErrorCode::kUnavailable, base::ErrorCode::kTimeout}) {
    const auto back =
        ErrorOfAnswer(HttpStatusOf(code), Encode(base::Error{code, "GPU 1 is lost", "reset it"}));
    EXPECT_EQ(back.code, base::ErrorCode::kConflict);
    EXPECT_EQ(back.message, "GPU 1 is lost");
  }
  EXPECT_EQ(ErrorOfAnswer(503, "<html>").code, base::ErrorCode::kUnavailable) << "a proxy's";
}

TEST(Dump, ReplacesWhatIsNotUtf8) {
  ProcessView process;
  process.pid = 1;
  process.name = "a\xff";
  const auto text = Dump(ToJson(process));
  EXPECT_TRUE(base::IsUtf8(text));
  EXPECT_THAT(text, HasSubstr("a\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace gpuman::api
