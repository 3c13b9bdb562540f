#include "keeper/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "keeper/fields.h"

namespace gpuman::keeper {
namespace {

using base::json::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Spec Example() {
  Spec spec;
  spec.job_id = 7;
  spec.tag = "train";
  spec.argv = {"python", "train.py"};
  spec.uid = 1000;
  spec.gid = 1001;
  spec.groups = {4, 27};
  spec.cwd = "/home/lab";
  spec.environment = {"PATH=/bin", "EMPTY="};
  spec.extra_environment = {"LD_PRELOAD=/usr/lib/x.so"};
  spec.umask = 027;
  spec.limits = {{RLIMIT_CORE, 0, RLIM_INFINITY}, {RLIMIT_NOFILE, 1024, 4096}};
  spec.nice = 5;
  spec.oom_score_adj = 100;
  spec.log = {"/var/lib/gpuman/logs/7.log", base::MiB(1), 3};
  spec.restart = {.mode = RestartMode::kOnFailure, .max_restarts = 3};
  spec.stop_signal = 2;
  spec.stop_grace = base::Millis{1500};
  spec.leftovers = LeftoverPolicy::kWait;
  spec.host = {base::GiB(8), 4};
  spec.cgroup_parent = "/sys/fs/cgroup/gpuman";
  return spec;
}

TEST(Spec, ReadsBackWhatItWrote) { EXPECT_EQ(ParseSpec(SerializeSpec(Example())).value(), Example()); }

TEST(Spec, KeepsBytesThatAreNoUtf8) {
  auto spec = Example();
  spec.argv = {"\xff\xfe", "caf\xc3\xa9", "\xc3"};
  spec.environment = {"X=\x80"};
  spec.cwd = "/caf\xe9";
  EXPECT_EQ(ParseSpec(SerializeSpec(spec)).value(), spec);
}

RC_GTEST_PROP(Spec, KeepsArgumentsOfAnyBytes, (const std::vector<std::string>& arguments)) {
  auto spec = Example();
  spec.argv = {"x"};
  for (auto argument : arguments) {
    std::erase(argument, '\0');
    spec.argv.push_back(argument);
  }
  RC_ASSERT(ParseSpec(SerializeSpec(spec)).value() == spec);
}

TEST(Spec, SaysWhatIsWrongWithIt) {
  struct Case {
    const char* path;
    Json value;
    const char* complaint;
  };
  const Case cases[] = {
      {"/argv", Json::array(), "no command"},
      {"/argv", "ls", "argv"},
      {"/argv/0", "", "no command"},
      {"/argv/1", std::string("a\0b", 3), "NUL"},
      {"/uid", -1, "uid"},
      {"/uid", 4294967296, "uid"},
      {"/uid", "root", "uid"},
      {"/cwd", "here", "absolute"},
      {"/environment/0", "NOVALUE", "NAME=value"},
      {"/environment/0", "=x", "NAME=value"},
      {"/limits/CORE", 3, "limits.CORE"},
      {"/limits/PIZZA", Json::array({1, 2}), "limits.PIZZA"},
      {"/log", nullptr, "log: an object was expected, not null"},
      {"/log/path", "x.log", "absolute"},
      {"/log/rotations", 100000, "1000"},
      {"/restart/mode", "maybe", "mode"},
      {"/restart/initial_delay_ms", -5, "between"},
      {"/stop_signal", 99, "no signal"},
      {"/stop_grace_ms", -1, "between"},
      {"/stop_grace_ms", INT64_MAX, "between"},
      {"/leftovers", "feed", "leftovers"},
      {"/host_memory", 0, "no host memory"},
      {"/cpus", -1, "processors"},
      {"/job", nullptr, "job: an integer was expected, not null"},
  };
  for (const auto& c : cases) {
    Json json = Json::parse(SerializeSpec(Example()));
    json[Json::json_pointer(c.path)] = c.value;
    const auto spec = ParseSpec(json.dump());
    ASSERT_FALSE(spec) << c.path;
    EXPECT_THAT(spec.error().message, HasSubstr(c.complaint)) << c.path;
  }
}

TEST(Spec, RefusesAVersionItDoesNotKnow) {
  Json json = Json::parse(SerializeSpec(Example()));
  json["version"] = kSpecVersion + 1;
  EXPECT_EQ(ParseSpec(json.dump()).error().code, base::ErrorCode::kNotSupported);
}

TEST(Spec, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[]", "null", "\xff", "{\"version\":1}", "{\"version\":{}}"})
    EXPECT_EQ(ParseSpec(text).error().code, base::ErrorCode::kCorrupt) << text;
}

TEST(MergedEnvironment, LetsTheExtraEntriesWin) {
  Spec spec = Example();
  spec.environment = {"A=1", "B=2", "A=3"};
  spec.extra_environment = {"B=4", "C=5"};
  EXPECT_THAT(MergedEnvironment(spec), ElementsAre("A=3", "B=4", "C=5"));
}

}  // namespace
}  // namespace gpuman::keeper
