// The fixture of the job manager's tests: the parts of a daemon, with real keepers and real commands.
//
// Needs GPUMAN_BUILD_DIR, which ctest sets. Not thread-safe.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_temp_dir.h"
#include "jobs/job_manager.h"
#include "jobs/test_job_index.h"
#include "jobs/test_watched_table.h"

namespace gpuman::jobs {

inline constexpr std::chrono::seconds kPatience{120};

// The parts of a daemon over a state directory; Restart() stands for a daemon that was killed and started
// again.
class JobManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* build = std::getenv("GPUMAN_BUILD_DIR");
    ASSERT_NE(build, nullptr) << "set by ctest";
    keeper_program = std::filesystem::path(build) / "bin" / "gpuman-keeper";
    ASSERT_TRUE(std::filesystem::exists(keeper_program)) << keeper_program;
    for (const char* name : {"jobs", "logs"}) ASSERT_TRUE(base::MakeDirectories(dir.path() / name));
    StartDaemon();
  }

  void TearDown() override {
    if (!manager) return;  // SetUp failed
    // A job that is just being started would be left alone.
    const auto starting = [](const Job* job) { return !IsEnded(*job) && !IsWaiting(*job) && !job->keeper; };
    (void)Until([&] {
      const auto jobs = AllJobs(manager->index());
      return std::none_of(jobs.begin(), jobs.end(), starting);
    });
    std::vector<base::ProcessId> keepers;
    for (const Job* job : AllJobs(manager->index())) {
      if (!job->keeper) continue;
      keepers.push_back(*job->keeper);
      (void)manager->Signal(job->id, SIGKILL);
    }
    StopDaemon();
    // A keeper that restarts its job has begun the next run by now; that run ends with the keeper.
    for (const auto& keeper : keepers) {
      (void)base::SendSignal(keeper, SIGKILL);
      EXPECT_TRUE(IsGoneSoon(keeper)) << "the test leaves a job behind";
    }
  }

  static bool IsGoneSoon(const base::ProcessId& process) {
    for (int i = 0; i < 6000 && base::IsAlive(process); ++i) ::usleep(10'000);
    return !base::IsAlive(process);
  }

  void StartDaemon() {
    loop = std::make_unique<boost::asio::io_context>();
    workers = std::make_unique<boost::asio::thread_pool>(2);
    auto opened = Store::Open(dir.path() / "gpuman.db");
    ASSERT_TRUE(opened) << opened.error().message;
    auto contents = (*opened)->Load(100);
    ASSERT_TRUE(contents);
    full_switch = opened->get();
    store = std::make_unique<StoreWorker>(std::move(*opened), [this](std::function<void()> task) {
      boost::asio::post(*loop, std::move(task));
    });
    JobManagerOptions options;
    options.keeper_program = keeper_program;
    options.jobs_dir = dir.path() / "jobs";
    options.keep_ended = keep_ended;
    options.of_user.running = running_of_user;
    options.of_user.text = text_of_user;
    options.launch.log_dir = dir.path() / "logs";
    options.launch.stop_grace = base::Millis(2000);
    options.launch.restart.initial_delay = base::Millis(1);
    manager = std::make_unique<JobManager>(*loop, *workers, *store, clock, table, std::move(options));
    Register(manager->callbacks());
    manager->Adopt(*contents);
  }

  void StopDaemon() {
    manager.reset();
    workers->join();
    store.reset();
    loop.reset();
  }

  void RestartDaemon() {
    StopDaemon();
    StartDaemon();
  }

  // Makes a daemon start its keepers by this script; $KEEPER is the real keeper.
  void WrapKeeper(const std::string& script) {
    const auto wrapper = dir.path() / "keeper";
    std::ofstream(wrapper) << "#!/bin/sh\nKEEPER=" << keeper_program.string() << "\n" << script << "\n";
    std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
    keeper_program = wrapper;
    RestartDaemon();
  }

  // Runs the loop until `done` holds.
  [[nodiscard]] bool Until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      loop->restart();
      loop->run_one_for(std::chrono::milliseconds(100));
    }
    return done();
  }

  Job Asked(const std::string& tag, const std::string& script) {
    Job job;
    job.tag = tag;
    job.owner = JobOwner{::getuid(), ::getgid(), {}, "me"};
    job.command = {"/bin/sh", "-c", script};
    job.directory = std::string("/");
    job.environment = Variables{{"PATH", "/usr/bin:/bin"}};
    return job;
  }

  // Creates the job and waits for the answer.
  base::Result<Job> Create(Job job) {
    std::optional<base::Result<Job>> answer;
    manager->Create(std::move(job), [&](base::Result<Job> created) { answer = std::move(created); });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer ? *answer : base::Result<Job>(base::Fail(base::ErrorCode::kTimeout, "no answer"));
  }
  JobId Started(const std::string& tag, const std::string& script) {
    auto job = Create(Asked(tag, script));
    EXPECT_TRUE(job) << job.error().message;
    return job ? job->id : JobId{};
  }
  // Starts a job that runs until a signal, and does `on_term` at SIGTERM from the return of this call on.
  JobId StartedWithTrap(const std::string& on_term) {
    const JobId id = Started("t", "trap '" + on_term + "' TERM; echo ready; while :; do sleep 0.05; done");
    EXPECT_TRUE(Becomes(id, JobState::kRunning) && Until([&] { return LogOf(id) == "ready\n"; }));
    return id;
  }
  [[nodiscard]] bool Becomes(JobId id, JobState state) {
    return Until([&] { return manager->Find(id) && manager->Find(id)->state == state; });
  }
  [[nodiscard]] bool Ends(JobId id) {
    return Until([&] { return manager->Find(id) && IsEnded(*manager->Find(id)); });
  }
  base::Result<Job> Removed(JobId id) {
    std::optional<base::Result<Job>> answer;
    manager->Remove(id, {"removed", "by me"}, [&](auto job) { answer = job; });
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return *answer;
  }
  // How many processes got the signal.
  std::size_t Reached(JobId id, int signal) {
    std::optional<std::size_t> reached;
    EXPECT_TRUE(
        manager->Signal(id, signal, [&](const SignalOrderResult& sent) { reached = sent.processes; }));
    EXPECT_TRUE(Until([&] { return reached.has_value(); }));
    return reached.value_or(0);
  }
  std::string LogOf(JobId id) { return base::ReadFile(manager->LogPathOf(id)).value_or(""); }

  virtual void Register(JobManagerCallbacks& callbacks) {
    callbacks.on_job_forgotten = [this](JobId job) { forgotten.push_back(job); };
    callbacks.on_notice = [this](const Job&, const JobNotice& notice) { kinds.push_back(notice.kind); };
    callbacks.on_run_ended = [this](const Job&, RunAccount& run) { accounts.push_back(run); };
    callbacks.is_off_gpu = [this](JobId job) { return off_gpu.contains(job); };
    callbacks.on_error = [this](const Job&, const std::string& what) { errors.push_back(what); };
    callbacks.all_gpus = [] { return std::vector<std::string>{"GPU-a"}; };
  }

  base::TempDir dir;
  std::filesystem::path keeper_program;
  std::size_t keep_ended = 1000;
  std::size_t running_of_user = 0;
  base::Bytes text_of_user{};
  base::SystemClock clock;
  WatchedTable table;
  std::unique_ptr<boost::asio::io_context> loop;
  std::unique_ptr<boost::asio::thread_pool> workers;
  std::unique_ptr<StoreWorker> store;
  std::unique_ptr<JobManager> manager;
  Store* full_switch = nullptr;
  std::vector<JobId> forgotten;
  std::vector<std::string> kinds;
  std::vector<std::string> errors;
  std::vector<RunAccount> accounts;
  std::set<JobId> off_gpu;
};

}  // namespace gpuman::jobs
