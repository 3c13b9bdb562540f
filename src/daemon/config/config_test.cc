#include "daemon/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

tl::expected<Config, std::vector<ConfigProblem>> Parse(std::string_view text) {
  return ParseConfig(text, "gpumand.toml", Config{}, [](const std::string& name) {
    return name == "alice" ? std::optional<uid_t>(1001) : std::nullopt;
  });
}

TEST(ParseConfig, AnEmptyFileGivesTheDefaults) {
  const auto config = Parse("");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->sampling.rest, base::Millis(100));
  EXPECT_EQ(config->guard.reserve, std::nullopt);
}

TEST(ParseConfig, ReadsEveryKey) {
  const auto config = Parse(R"(
socket = "/tmp/s"
state_dir = "/tmp/d"
[log]
level = "debug"
[access]
admin_group = "wheel"
submit_group = "users"
[sampling]
rest = "200ms"
fastest = "2ms"
slow = "2s"
call_limit = 3
retry = "10s"
[guard]
grace = "1.5s"
reserve = "2%"
on_pressure = "suspend"
suspend_patience = "2m"
return_after = "30s"
unmanaged_victims = true
protected = ["kwin_x11"]
[guard.gpu_reserve]
GPU-1 = "1GiB"
[[limits.unmanaged]]
user = "alice"
ceiling = "4GiB"
action = "enforce"
[[limits.unmanaged]]
user = "*"
ceiling = "25%"
[jobs]
stop_grace = "20s"
log_size = 1048576
log_rotations = 5
keep_ended = "7d"
keep_ended_count = 50
running_jobs = 70
text = "16MiB"
[restart]
initial_delay = "50ms"
max_delay = "1m"
max_restarts = 3
[idle]
suspend_after = "1h"
users = { alice = "never" }
[suspend]
host_memory = "64GiB"
patience = "20s"
[history]
disk = "128MiB"
flush = "30s"
[cost]
gpu_hour = 2
kwh = 0.3
currency = "CHF"
[events]
keep = "1d"
keep_count = 1000
[http]
max_body = "1MiB"
connections = 64
request_timeout = "5s"
idle_timeout = "30s"
)");
  ASSERT_TRUE(config) << Describe(config.error().front());
  EXPECT_EQ(config->socket, "/tmp/s");
  EXPECT_EQ(config->state_dir, "/tmp/d");
  EXPECT_EQ(config->log.level, LogLevel::kDebug);
  EXPECT_EQ(config->access.admin_group, "wheel");
  EXPECT_EQ(config->access.submit_group, "users");
  EXPECT_EQ(config->sampling.rest, base::Millis(200));
  EXPECT_EQ(config->sampling.fastest, base::Millis(2));
  EXPECT_EQ(config->sampling.slow, base::Millis(2000));
  EXPECT_EQ(config->history.disk, base::MiB(128));
  EXPECT_EQ(config->history.flush, base::Millis(30'000));
  EXPECT_EQ(config->cost, (energy::Prices{2, 0.3, "CHF"}));
  EXPECT_EQ(config->sampling.call_limit, base::Millis(3000));
  EXPECT_EQ(config->sampling.retry, base::Millis(10'000));
  EXPECT_EQ(config->guard.grace, base::Millis(1500));
  EXPECT_EQ(config->guard.reserve, (base::SizeSpec{{}, 2}));
  EXPECT_TRUE(config->guard.suspend_on_pressure);
  EXPECT_EQ(config->guard.suspend_patience, base::Millis(120'000));
  EXPECT_EQ(config->guard.return_after, base::Millis(30'000));
  EXPECT_EQ(config->idle.suspend_after, base::Millis(3'600'000));
  EXPECT_EQ(config->idle.users.at(1001), std::nullopt);
  EXPECT_EQ(config->suspend.host_memory, (base::SizeSpec{base::GiB(64), 0}));
  EXPECT_EQ(config->suspend.patience, base::Millis(20'000));
  EXPECT_TRUE(config->guard.unmanaged_victims);
  EXPECT_EQ(config->guard.protected_names, std::vector<std::string>{"kwin_x11"});
  EXPECT_EQ(config->guard.gpu_reserve.at("GPU-1").bytes, base::GiB(1));
  ASSERT_EQ(config->limits.unmanaged.size(), 2u);
  EXPECT_EQ(config->limits.unmanaged[0].uid, 1001u);
  EXPECT_TRUE(config->limits.unmanaged[0].enforce);
  EXPECT_EQ(config->limits.unmanaged[1].uid, std::nullopt);
  EXPECT_FALSE(config->limits.unmanaged[1].enforce);
  EXPECT_EQ(config->jobs.stop_grace, base::Millis(20'000));
  EXPECT_EQ(config->jobs.log_size, base::MiB(1));
  EXPECT_EQ(config->jobs.log_rotations, 5u);
  EXPECT_EQ(config->jobs.keep_ended, base::Millis(7LL * 86'400'000));
  EXPECT_EQ(config->jobs.keep_ended_count, 50u);
  EXPECT_EQ(config->jobs.running_jobs, 70u);
  EXPECT_EQ(config->jobs.text, base::MiB(16));
  EXPECT_EQ(config->restart.initial_delay, base::Millis(50));
  EXPECT_EQ(config->restart.max_delay, base::Millis(60'000));
  EXPECT_EQ(config->restart.max_restarts, 3u);
  EXPECT_EQ(config->events.keep, base::Millis(86'400'000));
  EXPECT_EQ(config->events.keep_count, 1000u);
  EXPECT_EQ(config->http.max_body, base::MiB(1));
  EXPECT_EQ(config->http.connections, 64u);
  EXPECT_EQ(config->http.request_timeout, base::Millis(5000));
  EXPECT_EQ(config->http.idle_timeout, base::Millis(30'000));
}

// Every wrong value is refused with file, line and key.
struct Wrong {
  const char* text;  // one line below a blank one, so that the line is 2
  const char* key;
  const char* says;
};

class WrongConfig : public testing::TestWithParam<Wrong> {};

TEST_P(WrongConfig, IsRefusedWithFileLineAndKey) {
  const auto& wrong = GetParam();
  const auto config = Parse(std::string("\n") + wrong.text + "\n");
  ASSERT_FALSE(config) << wrong.text;
  const auto text = Describe(config.error().front());
  EXPECT_TRUE(text.starts_with(std::string("gpumand.toml:2: ") + wrong.key)) << text;
  EXPECT_NE(text.find(wrong.says), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(
    EachKey, WrongConfig,
    testing::Values(
        Wrong{"socket = 5", "socket", "takes a text, not a whole number"},
        Wrong{"[[[guard", "a table's header has no name", "[name]"},
        Wrong{"socket = \"relative\"", "socket", "not an absolute path"},
        Wrong{"socket = \"\"", "socket", "is empty"},
        Wrong{"history.disk = \"512KiB\"", "history.disk", "is not between 1MiB and 1TiB"},
        Wrong{"cost.kwh = \"0.3\"", "cost.kwh", "takes a price"},
        Wrong{"cost.gpu_hour = -1", "cost.gpu_hour", "takes a price"},
        Wrong{"history.disk = \"none\"", "history.disk", "none"},
        Wrong{"history.flush = \"10m\"", "history.flush", "5m"},
        Wrong{"state_dir = \"x\"", "state_dir", "not an absolute path"},
        Wrong{"log.level = \"loud\"", "log.level", "none of debug, info"},
        Wrong{"access.admin_group = \"\"", "access.admin_group", "is empty"},
        Wrong{"access.submit_group = []", "access.submit_group", "not a list"},
        Wrong{"sampling.rest = \"0s\"", "sampling.rest", "not between 10ms and 10s"},
        Wrong{"sampling.fastest = \"0ms\"", "sampling.fastest", "not between"},
        Wrong{"sampling.fastest = \"500ms\"", "sampling.fastest", "longer than sampling.rest"},
        Wrong{"sampling.slow = true", "sampling.slow", "takes a time"},
        Wrong{"sampling.call_limit = \"soon\"", "sampling.call_limit", "is not a time"},
        Wrong{"sampling.retry = \"-1s\"", "sampling.retry", "negative"},
        Wrong{"guard.grace = \"2d\"", "guard.grace", "not between"},
        Wrong{"guard.overhead = \"-1\"", "guard.overhead", "not a size"},
        Wrong{"guard.lowered_patience = \"never\"", "guard.lowered_patience", "not a time"},
        Wrong{"shim.preload = 1", "shim.preload", "true or false"},
        Wrong{"guard.on_pressure = \"kill\"", "guard.on_pressure", "neither end nor suspend"},
        Wrong{"guard.suspend_patience = \"0s\"", "guard.suspend_patience", "not between"},
        Wrong{"idle.suspend_after = \"0s\"", "idle.suspend_after", "not between"},
        Wrong{"idle.suspend_after = \"soon\"", "idle.suspend_after", "is not a time"},
        Wrong{"idle.users = \"1h\"", "idle.users", "takes a table"},
        Wrong{"idle.users = { alice = \"1ms\" }", "idle.users.alice", "not between"},
        Wrong{"idle.users = { alice = \"none\" }", "idle.users.alice", "or \"never\""},
        Wrong{"idle.users = { nobody-has-this-name = \"1h\" }", "idle.users.nobody-has-this-name",
              "there is no user"},
        Wrong{"suspend.host_memory = \"none\"", "suspend.host_memory", "takes a size"},
        Wrong{"suspend.host_memory = \"150%\"", "suspend.host_memory", "percentage"},
        Wrong{"suspend.patience = \"1h\"", "suspend.patience", "not between"},
        Wrong{"guard.reserve = \"0\"", "guard.reserve", "zero"},
        Wrong{"guard.reserve = \"120%\"", "guard.reserve", "percentage"},
        Wrong{"guard.gpu_reserve = \"1GiB\"", "guard.gpu_reserve", "takes a table"},
        Wrong{"guard.gpu_reserve = {\"GPU-1\" = \"x\"}", "guard.gpu_reserve.GPU-1", "not a size"},
        Wrong{"guard.unmanaged_victims = \"yes\"", "guard.unmanaged_victims", "true or false"},
        Wrong{"guard.protected = \"Xorg\"", "guard.protected", "list of texts"},
        Wrong{"guard.protected = [1]", "guard.protected", "list of texts"},
        Wrong{"limits.unmanaged = 3", "limits.unmanaged", "[[limits.unmanaged]]"},
        Wrong{"limits.unmanaged = [{ceiling = \"1G\"}]", "limits.unmanaged.user", "is missing"},
        Wrong{"limits.unmanaged = [{user = \"bob\", ceiling = \"1G\"}]", "limits.unmanaged.user",
              "no user 'bob'"},
        Wrong{"limits.unmanaged = [{user = \"*\"}]", "limits.unmanaged.ceiling", "is missing"},
        Wrong{"limits.unmanaged = [{user = \"*\", ceiling = \"-1\"}]", "limits.unmanaged.ceiling",
              "negative"},
        Wrong{"limits.unmanaged = [{user = \"*\", ceiling = \"1G\", action = \"shout\"}]",
              "limits.unmanaged.action", "neither"},
        Wrong{"limits.unmanaged = [{user = \"*\", ceiling = \"1G\", limit = 1}]", "limits.unmanaged.limit",
              "no such key"},
        Wrong{"limits.unmanaged = [{user = \"*\", ceiling = \"1G\"}, {user = \"*\", ceiling = \"2G\"}]",
              "limits.unmanaged.user", "two entries"},
        Wrong{"share.memory = \"disk\"", "share.memory", "auto, vmm, managed"},
        Wrong{"share.managed_turns = 1", "share.managed_turns", "true or false"},
        Wrong{"share.step = \"off\"", "share.step", "true or false"},
        Wrong{"mps.protocol = \"1\"", "mps.protocol", "none of auto, 2 and 3"},
        Wrong{"mps.protocol = 3", "mps.protocol", "text"},
        Wrong{"jobs.stop_grace = \"x\"", "jobs.stop_grace", "not a time"},
        Wrong{"jobs.log_size = \"1K\"", "jobs.log_size", "not between"},
        Wrong{"jobs.log_rotations = -1", "jobs.log_rotations", "not between 0 and 100"},
        Wrong{"jobs.keep_ended = {}", "jobs.keep_ended", "takes a time"},
        Wrong{"jobs.keep_ended_count = 1.5", "jobs.keep_ended_count", "whole number"},
        Wrong{"jobs.running_jobs = -1", "jobs.running_jobs", "between 0"},
        Wrong{"jobs.text = \"2000TiB\"", "jobs.text", "between 16"},
        Wrong{"restart.initial_delay = \"0s\"", "restart.initial_delay", "not between"},
        Wrong{"restart.max_delay = \"10ms\"", "restart.max_delay", "shorter than"},
        Wrong{"restart.max_restarts = \"many\"", "restart.max_restarts", "whole number"},
        Wrong{"events.keep = \"x\"", "events.keep", "not a time"},
        Wrong{"events.keep_count = 1", "events.keep_count", "not between"},
        Wrong{"http.max_body = \"1\"", "http.max_body", "not between"},
        Wrong{"http.connections = 1", "http.connections", "not between"},
        Wrong{"http.request_timeout = \"1ms\"", "http.request_timeout", "not between"},
        Wrong{"http.idle_timeout = \"1ms\"", "http.idle_timeout", "not between"},
        Wrong{"gaurd.grace = \"1s\"", "gaurd", "no such key"},
        Wrong{"guard.graec = \"1s\"", "guard.graec", "did you mean guard.grace?"},
        Wrong{"sampling = 5", "sampling", "is a table"}, Wrong{"[log", "", ""}));

TEST(ParseConfig, TakesTheProtocolOfMps) {
  for (const auto& [text, protocol] : {std::pair("", MpsProtocolSetting::kAuto),
                                       std::pair("mps.protocol = \"auto\"", MpsProtocolSetting::kAuto),
                                       std::pair("mps.protocol = \"2\"", MpsProtocolSetting::k2),
                                       std::pair("mps.protocol = \"3\"", MpsProtocolSetting::k3)}) {
    const auto config = Parse(text);
    ASSERT_TRUE(config) << Describe(config.error().front());
    EXPECT_EQ(config->mps.protocol, protocol) << text;
  }
}

TEST(ParseConfig, ReportsEveryProblemAtOnce) {
  const auto config = Parse("log.level = \"loud\"\nhttp.connections = 1\nnonsense = 1\n");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().size(), 3u);
}

TEST(ParseConfig, TakesZeroForNoHistory) {
  for (const char* text : {"history.disk = 0", "history.disk = \"0\""}) {
    const auto config = Parse(text);
    ASSERT_TRUE(config) << Describe(config.error().front());
    EXPECT_EQ(config->history.disk, base::Bytes{0});
  }
}

TEST(LoadConfig, AMissingFileGivesTheDefaultsUnlessItWasAskedFor) {
  EXPECT_TRUE(LoadConfig("/nonexistent/gpumand.toml", false, {}));
  const auto config = LoadConfig("/nonexistent/gpumand.toml", true, {});
  ASSERT_FALSE(config);
  EXPECT_NE(Describe(config.error().front()).find("/nonexistent/gpumand.toml"), std::string::npos);
}

TEST(ConfigKeys, NamesWhatMayBeWritten) {
  const auto keys = ConfigKeys();
  for (const char* key : {"socket", "guard.grace", "limits.unmanaged", "http.idle_timeout"})
    EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << key;
}

}  // namespace
}  // namespace gpuman::daemon
