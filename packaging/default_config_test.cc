// The configuration file that is installed: what it shows is what the daemon
// reads and does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "base/file.h"
#include "daemon/config/config.h"

namespace gpuman::daemon {
namespace {

Config SystemDefaults() {
  Config config;
  config.socket = "/run/gpuman/gpumand.sock";
  config.state_dir = "/var/lib/gpuman";
  return config;
}

std::string DefaultFile() {
  return base::ReadFile(std::filesystem::path(GPUMAN_PACKAGING_DIR) / "gpumand.toml", 1 << 20).value();
}

// The file with every key that it shows switched on.
std::string EverythingOn() {
  return std::regex_replace(DefaultFile(), std::regex("(^|\n)#(?! |\n|$)"), "$1");
}

std::vector<std::string> Problems(const std::string& text) {
  std::vector<std::string> problems;
  if (const auto config = ParseConfig(text, "gpumand.toml", SystemDefaults()); !config)
    for (const auto& problem : config.error()) problems.push_back(Describe(problem));
  return problems;
}

TEST(DefaultConfig, IsAcceptedAsInstalled) { EXPECT_THAT(Problems(DefaultFile()), testing::IsEmpty()); }

TEST(DefaultConfig, IsAcceptedWithEveryKeySwitchedOn) {
  EXPECT_THAT(Problems(EverythingOn()), testing::IsEmpty());
}

TEST(DefaultConfig, ShowsEveryKey) {
  const std::string text = EverythingOn();
  for (const auto& key : ConfigKeys()) {
    const std::string name = key.substr(key.rfind('.') + 1);
    std::string shown = "(^|\n)(";
    shown.append(name).append(" = |\\[+").append(key).append("\\]+)");
    EXPECT_TRUE(std::regex_search(text, std::regex(shown))) << key;
  }
}

TEST(DefaultConfig, ShowsTheValuesThatHoldWithoutIt) {
  const auto parsed = ParseConfig(EverythingOn(), "gpumand.toml", SystemDefaults());
  ASSERT_TRUE(parsed.has_value());
  const Config &shown = *parsed, holds = SystemDefaults();
  EXPECT_EQ(shown.socket, holds.socket);
  EXPECT_EQ(shown.state_dir, holds.state_dir);
  EXPECT_EQ(shown.log.level, holds.log.level);
  EXPECT_EQ(shown.access.admin_group, holds.access.admin_group);
  EXPECT_EQ(shown.access.submit_group, holds.access.submit_group);
  EXPECT_EQ(shown.sampling.rest, holds.sampling.rest);
  EXPECT_EQ(shown.sampling.fastest, holds.sampling.fastest);
  EXPECT_EQ(shown.sampling.slow, holds.sampling.slow);
  EXPECT_EQ(shown.sampling.call_limit, holds.sampling.call_limit);
  EXPECT_EQ(shown.sampling.retry, holds.sampling.retry);
  EXPECT_EQ(shown.guard.grace, holds.guard.grace);
  EXPECT_EQ(shown.guard.unmanaged_victims, holds.guard.unmanaged_victims);
  EXPECT_EQ(shown.guard.overhead, holds.guard.overhead);
  EXPECT_EQ(shown.guard.lowered_patience, holds.guard.lowered_patience);
  EXPECT_EQ(shown.shim.preload, holds.shim.preload);
  EXPECT_EQ(shown.jobs.stop_grace, holds.jobs.stop_grace);
  EXPECT_EQ(shown.jobs.log_size, holds.jobs.log_size);
  EXPECT_EQ(shown.jobs.log_rotations, holds.jobs.log_rotations);
  EXPECT_EQ(shown.jobs.keep_ended, holds.jobs.keep_ended);
  EXPECT_EQ(shown.jobs.keep_ended_count, holds.jobs.keep_ended_count);
  EXPECT_EQ(shown.jobs.running_jobs, holds.jobs.running_jobs);
  EXPECT_EQ(shown.jobs.text, holds.jobs.text);
  EXPECT_EQ(shown.restart.initial_delay, holds.restart.initial_delay);
  EXPECT_EQ(shown.restart.max_delay, holds.restart.max_delay);
  EXPECT_EQ(shown.restart.max_restarts, holds.restart.max_restarts);
  EXPECT_EQ(shown.events.keep, holds.events.keep);
  EXPECT_EQ(shown.events.keep_count, holds.events.keep_count);
  EXPECT_EQ(shown.http.max_body, holds.http.max_body);
  EXPECT_EQ(shown.http.connections, holds.http.connections);
  EXPECT_EQ(shown.http.request_timeout, holds.http.request_timeout);
  EXPECT_EQ(shown.http.idle_timeout, holds.http.idle_timeout);
}

}  // namespace
}  // namespace gpuman::daemon
