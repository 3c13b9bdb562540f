// Tests the end of a job whose keeper is killed, and of processes that try to escape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "keeper/test_keeper.h"

namespace gpuman::keeper {
namespace {

class KeeperDeathTest : public KeeperTest {
 protected:
  void KillKeeper() {
    const auto keeper = History().keeper->keeper;
    ASSERT_TRUE(base::SendSignal(keeper, SIGKILL));
    AwaitTrue([&] { return !KeeperLives(job_dir_); });
  }
  // A shell command that makes a process leave its session, group and parent, and write its pid to a file.
  std::string Daemonise() const {
    return "(setsid sh -c 'echo $$ > " + (dir_.path() / "daemon").string() + "; exec sleep 1000' &) ; ";
  }
  std::optional<base::ProcessId> Daemon() {
    AwaitFile("daemon");
    return base::IdentityOf(std::atoi(FileText("daemon").c_str()));
  }
};

TEST_F(KeeperDeathTest, JobDiesAndANewKeeperSaysThatNobodyKnowsHow) {
  Shell("sleep 1000");
  Start();
  const auto before = AwaitRun();
  KillKeeper();
  AwaitTrue([&] { return !base::IsAlive(before.started->process); });
  EXPECT_TRUE(History().run_open);
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  const auto after = AwaitEnd();
  EXPECT_EQ(after.runs, 1u);
  EXPECT_EQ(after.ended->kind, EndKind::kUnknown);
  EXPECT_EQ(after.ended->ordered->word, "keeper_lost");
}

TEST_F(KeeperDeathTest, NewKeeperGoesOnByTheRestartPolicy) {
  spec_.restart.mode = RestartMode::kOnFailure;
  Shell("echo x >> " + (dir_.path() / "count").string() + "; [ $(wc -l < " +
        (dir_.path() / "count").string() + ") -ge 2 ] || sleep 1000");
  Start();
  AwaitFile("count");
  AwaitRun();
  KillKeeper();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 2u);
  EXPECT_EQ(history.ended->code, 0);
  EXPECT_EQ(FileText("count"), "x\nx\n");
}

TEST_F(KeeperDeathTest, ARestartThatWasAnsweredIsCarriedOutByTheNextKeeper) {
  Shell("trap '' TERM; echo x >> " + (dir_.path() / "count").string() + "; sleep 1000 & wait; wait");
  Start();
  AwaitFile("count");
  AwaitRun();
  ASSERT_TRUE(Order(RestartJob{{"restart", "by me"}, {}, {}}));
  KillKeeper();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  AwaitRun(2);
  ASSERT_TRUE(Order(StopJob{{"stopped", ""}, {}, base::Millis{0}}));
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 2u);
}

TEST_F(KeeperDeathTest, NewKeeperKillsWhatDaemonisedWithACgroup) {
  Shell(Daemonise() + "sleep 1000");
  Start();
  const auto daemon = Daemon();
  ASSERT_TRUE(daemon);
  KillKeeper();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  AwaitEnd();
  EXPECT_FALSE(base::IsAlive(*daemon));
}

TEST_F(KeeperDeathTest, NewKeeperKillsWhatDaemonisedWithoutACgroup) {
  spec_.use_cgroup = false;
  Shell(Daemonise() + "sleep 1000");
  Start();
  const auto daemon = Daemon();
  ASSERT_TRUE(daemon);
  KillKeeper();
  EXPECT_TRUE(base::IsAlive(*daemon));
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  AwaitEnd();
  EXPECT_FALSE(base::IsAlive(*daemon));
}

class DamagedJournalTest : public KeeperDeathTest, public ::testing::WithParamInterface<bool> {
 protected:
  // Runs a command, kills its keeper, and leaves of the journal what `damage` makes of it.
  void LoseKeeper(const std::function<std::string(std::string)>& damage) {
    spec_.use_cgroup = GetParam();
    spec_.restart.mode = RestartMode::kAlways;
    Shell("echo x >> " + (dir_.path() / "count").string() + "; " + Daemonise() + "sleep 1000");
    Start();
    daemon_ = Daemon();
    ASSERT_TRUE(daemon_);
    AwaitRun();
    KillKeeper();
    left_ = damage(base::ReadFile(job_dir_ / "journal").value());
    ASSERT_TRUE(base::ReplaceFile(job_dir_ / "journal", left_, 0600));
  }
  // Returns the error of the next keeper.
  std::string Refusal() {
    const auto outcome = Spawn();
    if (outcome) return "none";
    EXPECT_EQ(outcome.error().code, base::ErrorCode::kCorrupt);
    EXPECT_FALSE(base::IsAlive(*daemon_));
    EXPECT_FALSE(KeeperLives(job_dir_));
    EXPECT_EQ(FileText("count"), "x\n");
    EXPECT_EQ(base::ReadFile(job_dir_ / "journal").value(), left_);
    return outcome.error().message;
  }

  std::optional<base::ProcessId> daemon_;
  std::string left_;
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutCgroup, DamagedJournalTest, ::testing::Bool());

TEST_P(DamagedJournalTest, DamageInFirstLineStopsTheJobAndRunsItNoMore) {
  LoseKeeper([](std::string text) {
    text[text.find("\"key\":\"") + 10] ^= 1;
    return text;
  });
  const auto said = Refusal();
  EXPECT_EQ(said, "line 1 of " + (job_dir_ / "journal").string() + " is damaged");
  EXPECT_EQ(Refusal(), said) << "nor when it is asked again";
}

TEST_P(DamagedJournalTest, DamageInLastLineRunsTheJobNoMore) {
  LoseKeeper([](std::string text) {
    text.back() = 'x';
    return text;
  });
  EXPECT_THAT(Refusal(), ::testing::StartsWith("line 2 of "));
}

TEST_P(DamagedJournalTest, EmptyOrZeroedJournalIsNotTakenForNewJob) {
  LoseKeeper([](const std::string& text) { return std::string(text.size(), '\0'); });
  EXPECT_THAT(Refusal(), ::testing::HasSubstr("the record of the last keeper"));
  left_.clear();
  ASSERT_TRUE(base::ReplaceFile(job_dir_ / "journal", left_, 0600));
  EXPECT_THAT(Refusal(), ::testing::HasSubstr("the record of the last keeper"));
}

TEST_P(DamagedJournalTest, DamagedJournalWithEndRecordIsOfEndedJob) {
  spec_.use_cgroup = GetParam();
  Shell("exit 3");
  Start();
  AwaitEnd();
  auto text = base::ReadFile(job_dir_ / "journal").value();
  text[0] = 'x';
  ASSERT_TRUE(base::ReplaceFile(job_dir_ / "journal", text, 0600));
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kAlreadyEnded);
}

TEST_F(KeeperDeathTest, OrderedStopOutlivesTheKeeper) {
  spec_.restart.mode = RestartMode::kAlways;
  Shell("trap '' TERM; echo x > " + (dir_.path() / "ready").string() + "; while :; do sleep 0.05; done");
  Start();
  AwaitFile("ready");
  ASSERT_TRUE(Order(StopJob{{"removed", ""}, {}, {}}));
  KillKeeper();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 1u);
  EXPECT_EQ(history.ended->ordered->word, "removed");
  EXPECT_EQ(history.job_ended->why, "stopped");
}

TEST_F(KeeperDeathTest, UpdatedPolicyOutlivesTheKeeper) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  UpdateSettings update;
  update.restart = RestartPolicy{.mode = RestartMode::kAlways, .initial_delay = base::Millis{1}};
  ASSERT_TRUE(Order(update));
  KillKeeper();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  EXPECT_EQ(AwaitRun(2).runs, 2u);
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
}

TEST_F(KeeperDeathTest, SigtermEndsTheRunAndALaterKeeperGoesOn) {
  spec_.restart.mode = RestartMode::kOnFailure;
  Shell("sleep 1000");
  Start();
  const auto keeper = AwaitRun().keeper->keeper;
  ASSERT_TRUE(base::SendSignal(keeper, SIGTERM));
  AwaitTrue([&] { return !KeeperLives(job_dir_); });
  EXPECT_EQ(History().ended->ordered->word, "shutdown");
  EXPECT_FALSE(History().job_ended);
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kStarted);
  EXPECT_EQ(AwaitRun(2).runs, 2u);
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
}

// The keeper is killed at any moment: the journal records what ran.
TEST_F(KeeperDeathTest, JournalCountsRunsRightlyWheneverKeeperIsKilled) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    job_dir_ = dir_.path() / ("job" + std::to_string(round));
    const auto count = "count" + std::to_string(round);
    Shell("echo x >> " + (dir_.path() / count).string() + "; exit 5");
    ASSERT_NO_FATAL_FAILURE(Prepare());
    ASSERT_TRUE(Spawn());
    ::usleep(static_cast<useconds_t>(random() % 30000));
    if (const auto history = History(); history.keeper)
      (void)base::SendSignal(history.keeper->keeper, SIGKILL);
    AwaitTrue([&] { return !KeeperLives(job_dir_); });
    ASSERT_TRUE(Spawn());
    const auto history = AwaitEnd();
    // A command that was handed to execve and killed before it did anything counts as a run.
    const auto marks = FileText(count).size() / 2;
    EXPECT_EQ(history.runs, 1u) << round;
    EXPECT_LE(marks, 1u) << round;
    if (history.ended->kind == EndKind::kExited) {
      EXPECT_EQ(history.ended->code, 5) << round;
      EXPECT_EQ(marks, 1u) << round;
    } else {
      EXPECT_EQ(history.ended->kind, EndKind::kUnknown) << round;
    }
  }
}

class TreeTest : public KeeperDeathTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { spec_.use_cgroup = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Cgroup, TreeTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "With" : "Without"; });

TEST_P(TreeTest, MembersAreEverythingBelowTheKeeper) {
  Shell(Daemonise() + "sleep 1000");
  Start();
  const auto daemon = Daemon();
  ASSERT_TRUE(daemon);
  const auto main = AwaitRun().started->process;
  const auto tree = Tree();
  const auto members = Members(tree, processes_);
  const auto is_member = [&](base::ProcessId id) {
    return std::any_of(members.begin(), members.end(), [&](const auto& m) { return m.id == id; });
  };
  EXPECT_TRUE(is_member(*daemon));
  EXPECT_TRUE(is_member(main));
  EXPECT_FALSE(is_member(tree.keeper));
  // The keeper's pid belongs to another process: only the cgroup could name members, and there is none.
  EXPECT_TRUE(Members({{tree.keeper.pid, tree.keeper.start_time + 1}, {}}, processes_).empty());
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
  EXPECT_FALSE(base::IsAlive(*daemon));
}

TEST_P(TreeTest, DaemonisedChildrenEndWithTheCommand) {
  Shell(Daemonise() + "while [ ! -s " + (dir_.path() / "daemon").string() +
        " ]; do sleep 0.01; done; exit 2");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->code, 2);
  EXPECT_FALSE(Daemon());
}

TEST_P(TreeTest, JobMayWaitForItsDaemonisedChildren) {
  spec_.leftovers = LeftoverPolicy::kWait;
  Shell(Daemonise() + "exit 2");
  Start();
  const auto daemon = Daemon();
  ASSERT_TRUE(daemon);
  Await([](const auto& h) { return h.ended.has_value(); });
  EXPECT_FALSE(History().job_ended);
  ASSERT_TRUE(base::SendSignal(*daemon, SIGKILL));
  EXPECT_EQ(AwaitEnd().ended->code, 2);
}

TEST_P(TreeTest, KillTreeBeatsAForkBomb) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a user of its own with a limit on processes";
  spec_.uid = 64999;
  spec_.gid = 64999;
  spec_.limits = {{RLIMIT_NPROC, 80, 80}};
  spec_.argv = {BuildDir() / "tests/keeper_fork_bomb"};
  Start();
  AwaitRun();
  const auto tree = Tree();
  AwaitTrue([&] { return Members(tree, processes_).size() >= 70; });
  ASSERT_TRUE(Order(SetEndReason{1, {"memory_limit", ""}, false}));
  // One call has a time limit; on a machine that is otherwise busy the next one goes on where it stopped.
  AwaitTrue([&] { return KillTree(tree, processes_).complete; });
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->code, SIGKILL);
  EXPECT_EQ(history.ended->ordered->word, "memory_limit");
  EXPECT_TRUE(Members(tree, processes_).empty());
}

TEST_P(TreeTest, StopEndsAForkBomb) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a user of its own with a limit on processes";
  spec_.uid = 64998;
  spec_.gid = 64998;
  spec_.limits = {{RLIMIT_NPROC, 80, 80}};
  spec_.argv = {BuildDir() / "tests/keeper_fork_bomb"};
  Start();
  AwaitRun();
  ASSERT_TRUE(Order(StopJob{{"removed", ""}, {}, base::Millis{20}}));
  const auto history = AwaitEnd();
  EXPECT_EQ(history.job_ended->why, "stopped");
  for (const auto& process : processes_.List()) EXPECT_NE(processes_.Owner(process.id.pid), 64998u);
}

TEST_P(TreeTest, StopWakesStoppedProcesses) {
  Shell("trap 'exit 7' TERM; echo x > " + (dir_.path() / "ready").string() +
        "; while :; do sleep 0.05; done");
  Start();
  AwaitFile("ready");
  const auto main = AwaitRun().started->process;
  ASSERT_TRUE(base::SendSignal(main, SIGSTOP));
  AwaitTrue([&] { return processes_.Find(main.pid)->state == 'T'; });
  ASSERT_TRUE(Order(StopJob{}));
  EXPECT_EQ(AwaitEnd().ended->code, 7);
}

}  // namespace
}  // namespace gpuman::keeper
