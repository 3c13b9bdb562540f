// For tests with the real gpuman-keeper: one job in a temporary directory, followed by its journal.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/process.h"
#include "base/test_temp_dir.h"
#include "keeper/cgroup.h"
#include "keeper/client.h"
#include "keeper/process_tree.h"
#include "keeper/test_history.h"

namespace gpuman::keeper {

inline std::filesystem::path BuildDir() {
  const char* directory = std::getenv("GPUMAN_BUILD_DIR");
  return directory ? directory : "build/release";
}

class KeeperTest : public ::testing::Test {
 protected:
  KeeperTest() {
    std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
    spec_.job_id = 1;
    spec_.tag = "test";
    spec_.uid = ::getuid();
    spec_.gid = ::getgid();
    spec_.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
    spec_.log.path = dir_.path() / "1.log";
    spec_.stop_grace = base::Millis{20'000};
    spec_.restart.initial_delay = base::Millis{1};
  }

  ~KeeperTest() override {
    // Ends what a failed test left: the job dies with its keeper.
    const auto history = History();
    if (history.keeper && !history.job_ended) {
      KillTree({history.keeper->keeper, history.keeper->cgroup}, base::ProcFs());
      (void)base::SendSignal(history.keeper->keeper, SIGKILL);
    }
    if (history.keeper && !history.keeper->cgroup.empty()) RemoveCgroup(history.keeper->cgroup);
  }

  void Shell(const std::string& script) { spec_.argv = {"/bin/sh", "-c", script}; }

  void Prepare() {
    const auto prepared = PrepareJob(job_dir_, spec_);
    ASSERT_TRUE(prepared) << prepared.error().message;
  }
  base::Result<KeeperSpawnOutcome> Spawn() {
    return SpawnKeeper(
        {.program = BuildDir() / "bin/gpuman-keeper", .job_dir = job_dir_, .timeout = base::Millis{60'000}});
  }
  void Start() {
    ASSERT_NO_FATAL_FAILURE(Prepare());
    const auto outcome = Spawn();
    ASSERT_TRUE(outcome) << outcome.error().message;
    ASSERT_EQ(*outcome, KeeperSpawnOutcome::kStarted);
  }

  JobHistory History() const {
    const auto content = ReadJournal(job_dir_);
    return content ? Summarize(content->records) : JobHistory{};
  }

  // Waits until the history is as `wanted`; looks again whenever the keeper sends a record.
  JobHistory Await(const std::function<bool(const JobHistory&)>& wanted) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto connection = KeeperConnection::Connect(job_dir_);
    for (;;) {
      auto history = History();
      if (wanted(history)) return history;
      if (std::chrono::steady_clock::now() > give_up) {
        ADD_FAILURE() << "what was waited for did not happen";
        return history;
      }
      pollfd poller{connection ? connection->fd() : -1, POLLIN, 0};
      ::poll(&poller, 1, 20);
      if (!connection)
        connection = KeeperConnection::Connect(job_dir_);
      else
        while (auto message = connection->Receive()) {
          if (!*message) break;
        }
      if (poller.revents & POLLHUP) connection = KeeperConnection::Connect(job_dir_);
    }
  }
  JobHistory AwaitRun(RunNumber run = 1) {
    return Await([&](const auto& h) { return h.last_run >= run && (h.run_open || h.ended); });
  }
  JobHistory AwaitEnd() {
    auto history = Await([](const auto& h) { return h.job_ended.has_value(); });
    AwaitTrue([&] { return !KeeperLives(job_dir_); });
    return history;
  }

  static void AwaitTrue(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition() && std::chrono::steady_clock::now() < give_up) ::usleep(2000);
    EXPECT_TRUE(condition());
  }

  // Sends one command and returns the keeper's answer.
  base::Result<> Order(Command command, int file = -1) {
    GPUMAN_ASSIGN(auto connection, KeeperConnection::Connect(job_dir_));
    GPUMAN_ASSIGN(const auto id, connection.Send(std::move(command), file));
    for (;;) {
      pollfd poller{connection.fd(), POLLIN, 0};
      ::poll(&poller, 1, 30'000);
      GPUMAN_ASSIGN(auto message, connection.Receive());
      if (!message) return base::Fail(base::ErrorCode::kTimeout, "no reply");
      if (auto* reply = std::get_if<Reply>(&*message); reply && reply->id == id) {
        if (reply->error) return base::Fail(*reply->error);
        return {};
      }
    }
  }

  std::string Log() const { return base::ReadFile(spec_.log.path).value_or(""); }
  std::string FileText(const std::string& name) const {
    return base::ReadFile(dir_.path() / name).value_or("");
  }
  // Waits until the job's script has written that file.
  void AwaitFile(const std::string& name) {
    AwaitTrue([&] { return !FileText(name).empty(); });
  }
  ProcessTree Tree() const {
    const auto history = History();
    return {history.keeper->keeper, history.keeper->cgroup};
  }

  base::TempDir dir_;
  std::filesystem::path job_dir_ = dir_.path() / "job";
  Spec spec_;
  base::ProcFs processes_;
};

}  // namespace gpuman::keeper
