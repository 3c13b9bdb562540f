#include "cli/find_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "api/test_server.h"
#include "base/file.h"

namespace gpuman::cli {
namespace {

using api::TestServer;
using base::ErrorCode;
using ::testing::HasSubstr;

base::EnvironmentLookup From(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

class FindDaemonTest : public ::testing::Test {
 protected:
  FindDaemonTest() {
    installation_.system.socket = directory_.path() / "system.sock";
    installation_.user.socket = directory_.path() / "user.sock";
  }
  base::TempDir directory_;
  DaemonSearchPaths installation_;
};

TEST_F(FindDaemonTest, SocketOfOptionOrVariableIsTakenAndNoOther) {
  const TestServer chosen({""});
  const TestServer user({""});
  installation_.user.socket = user.socket();
  const auto option = chosen.socket().string();
  EXPECT_EQ(FindDaemon(option, From({}), installation_)->socket, chosen.socket());
  EXPECT_EQ(FindDaemon({}, From({{"GPUMAN_SOCKET", option}}), installation_)->socket, chosen.socket());
  EXPECT_EQ(FindDaemon(option, From({{"GPUMAN_SOCKET", "/elsewhere"}}), installation_)->socket,
            chosen.socket());
  const auto none = FindDaemon("/nowhere/s", From({}), installation_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(none.error().hint, HasSubstr("--socket /nowhere/s"));
}

TEST_F(FindDaemonTest, PrefersTheSystemsDaemonToTheUsers) {
  const TestServer system({""});
  const TestServer user({""});
  installation_.system.socket = system.socket();
  installation_.user.socket = user.socket();
  EXPECT_EQ(FindDaemon({}, From({}), installation_)->socket, system.socket());
  installation_.system.socket = directory_.path() / "gone.sock";
  const auto own = FindDaemon({}, From({}), installation_);
  EXPECT_EQ(own->socket, user.socket());
  EXPECT_FALSE(own->start());
}

TEST_F(FindDaemonTest, DaemonIsToBeStartedWhereNoneRuns) {
  const auto place = FindDaemon({}, From({}), installation_);
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->start());
  EXPECT_EQ(place->socket, installation_.user.socket);
}

TEST_F(FindDaemonTest, StoppedServiceIsNamedWhereOneIsInstalled) {
  installation_.has_service = true;
  const auto place = FindDaemon({}, From({}), installation_);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(place.error().hint, HasSubstr("systemctl start gpumand"));
}

TEST_F(FindDaemonTest, PassesOverASocketThatNobodyServesAnyMore) {
  {
    // Bound and closed: the file stays and refuses connections, as after a daemon was killed.
    const base::Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, installation_.user.socket.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_TRUE(FindDaemon({}, From({}), installation_)->start());
}

TEST_F(FindDaemonTest, RefusesAPathThatIsTooLongForASocket) {
  installation_.user.socket = "/" + std::string(120, 'x');
  EXPECT_EQ(FindDaemon({}, From({}), installation_).error().code, ErrorCode::kInvalidArgument);
}

TEST(FindProgram, LooksInPath) {
  const base::TempDir directory;
  const auto program = directory.path() / "gpumand-for-this-test";
  std::ofstream(program) << "#!/bin/sh\n";
  const auto path = "/nonexistent::" + directory.path().string();
  EXPECT_FALSE(FindProgram("gpumand-for-this-test", From({{"PATH", path}})));
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(FindProgram("gpumand-for-this-test", From({{"PATH", path}})).value_or(""), program);
}

// Replaces gpumand by a script that records that it was started, and then either serves or ends.
class StartTest : public ::testing::Test {
 protected:
  void WriteDaemon(const std::string& script) {
    const auto program = directory_.path() / "gpumand";
    std::ofstream(program) << "#!/bin/sh\necho started >> " << starts_.string() << "\n" << script << "\n";
    ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  }
  base::EnvironmentLookup Environment() const {
    return From(
        {{"PATH", directory_.path().string()}, {"GPUMAN_STATE_DIR", (directory_.path() / "state").string()}});
  }
  // The script must be able to serve: a few lines of Python do.
  std::string Serve() const {
    return "exec /usr/bin/env -i PATH=/usr/bin:/bin python3 -c \"\n"
           "import os, socket, sys\n"
           "s = socket.socket(socket.AF_UNIX)\n"
           "s.bind('" +
           socket_.string() +
           "')\n"
           "s.listen()\n"
           "open('" +
           pid_.string() +
           "', 'w').write(str(os.getpid()))\n"
           "assert os.getsid(0) == os.getpid()\n"
           "s.settimeout(60)\n"
           "while True: s.accept()\n"
           "\"";
  }
  void TearDown() override {
    const auto pid = base::ReadFile(pid_);
    if (pid && !pid->empty()) ::kill(std::stoi(*pid), SIGKILL);
  }

  base::TempDir directory_;
  std::filesystem::path socket_ = directory_.path() / "run" / "gpumand.sock";
  std::filesystem::path starts_ = directory_.path() / "starts";
  std::filesystem::path pid_ = directory_.path() / "pid";
};

TEST_F(StartTest, StartsOneDaemonHoweverManyAskAtOnce) {
  WriteDaemon(Serve());
  std::atomic<int> well = 0;
  std::atomic<int> said = 0;
  std::vector<std::thread> callers;
  callers.reserve(8);
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      const auto started = StartUserDaemon(socket_, Environment(), [&](std::string_view) { ++said; });
      EXPECT_TRUE(started) << started.error().message << " " << started.error().hint;
      well += started.has_value();
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(well, 8);
  EXPECT_EQ(said, 1);
  EXPECT_EQ(base::ReadFile(starts_).value_or(""), "started\n");
}

TEST_F(StartTest, TellsTheLastWordsOfADaemonThatEnds) {
  WriteDaemon("echo something before\necho 'gpumand.toml:3: no such key' >&2\nexit 7");
  const auto started = StartUserDaemon(socket_, Environment(), [](std::string_view) {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(started.error().message, HasSubstr("exited with 7: gpumand.toml:3: no such key"));
  EXPECT_THAT(started.error().hint, HasSubstr("gpumand.log"));
}

TEST_F(StartTest, SaysWhenThereIsNoGpumand) {
  const auto started = StartUserDaemon(socket_, From({{"PATH", "/nonexistent"}}), [](std::string_view) {});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("neither beside gpuman nor in PATH"));
}

TEST_F(StartTest, RefusesADirectoryThatOthersCanWrite) {
  WriteDaemon(Serve());
  std::filesystem::create_directories(socket_.parent_path());
  ASSERT_EQ(::chmod(socket_.parent_path().c_str(), 0777), 0);
  const auto started = StartUserDaemon(socket_, Environment(), [](std::string_view) {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace gpuman::cli
