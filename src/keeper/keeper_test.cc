// Runs the real keeper with real commands.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/passed_files.h"
#include "keeper/held_file.h"
#include "keeper/test_keeper.h"

namespace gpuman::keeper {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(KeeperTest, WritesDownTheExitStatusAndTheOutput) {
  Shell("echo out; echo err >&2; exit 3");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 1u);
  ASSERT_TRUE(history.ended);
  EXPECT_EQ(history.ended->kind, EndKind::kExited);
  EXPECT_EQ(history.ended->code, 3);
  EXPECT_FALSE(history.ended->ordered);
  EXPECT_EQ(history.job_ended->why, "finished");
  EXPECT_EQ(Log(), "out\nerr\n");
  EXPECT_FALSE(std::filesystem::exists(job_dir_ / "control"));
}

TEST_F(KeeperTest, GivesEachRunAnEmptyDirectoryForTraces) {
  spec_.traces = dir_.path() / "traces" / "1";
  spec_.restart.mode = RestartMode::kOnFailure;
  spec_.restart.max_restarts = 1;
  Shell("ls " + spec_.traces.string() + "; stat -c %a " + spec_.traces.string() + "; touch " +
        (spec_.traces / "0.trace").string() + "; exit 3");
  Start();
  EXPECT_EQ(AwaitEnd().runs, 2u);
  EXPECT_THAT(Log(), StartsWith("700\n"));
  EXPECT_THAT(Log(), HasSubstr("\n700\n"));
  EXPECT_THAT(Log(), Not(HasSubstr("0.trace")));
}

TEST_F(KeeperTest, GoesWithoutTracesWhereTheirDirectoryMayBeSomebodyElses) {
  spec_.traces = dir_.path() / "traces" / "1";
  std::filesystem::create_directories(dir_.path() / "traces");
  std::filesystem::permissions(dir_.path() / "traces", std::filesystem::perms(0777));
  Shell("ls " + (dir_.path() / "traces").string());
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->code, 0);
  EXPECT_EQ(Log(), "");
  EXPECT_THAT(history.started->notes, Contains(HasSubstr("its allocations are not traced")));
}

TEST_F(KeeperTest, WritesDownTheSignal) {
  Shell("kill -SEGV $$");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->kind, EndKind::kSignalled);
  EXPECT_EQ(history.ended->code, SIGSEGV);
}

TEST_F(KeeperTest, WritesDownWhichVersionOfItTookCharge) {
  Shell("true");
  Start();
  EXPECT_EQ(AwaitEnd().keeper->program_version, GPUMAN_VERSION);
}

TEST_F(KeeperTest, MeasuresTheRun) {
  Shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
  Start();
  const auto history = AwaitEnd();
  EXPECT_GT(history.ended->usage.user_cpu.count() + history.ended->usage.system_cpu.count(), 0);
  EXPECT_GT(history.ended->usage.max_rss.count, 0u);
}

TEST_F(KeeperTest, GivesTheCommandItsEnvironmentAndDirectory) {
  ASSERT_EQ(::mkdir((dir_.path() / "here").c_str(), 0755), 0);
  spec_.cwd = dir_.path() / "here";
  spec_.umask = 027;
  spec_.environment.emplace_back("COLOUR=blue");
  spec_.extra_environment = {"COLOUR=red"};
  spec_.limits = {{RLIMIT_CORE, 0, 0}, {RLIMIT_NOFILE, 99, 100}};
  spec_.nice = 3;
  Shell(
      "pwd; umask; echo $COLOUR; ulimit -n; ulimit -c; nice; ls -l /proc/self/fd/ | wc -l; cat; "
      "echo same > /dev/stdout; ps -o sid= -p $$ | tr -d ' '; echo $$; grep -E 'SigBlk|SigIgn' "
      "/proc/self/status");
  Start();
  const auto history = AwaitEnd();
  const auto pid = std::to_string(history.started->process.pid);
  // The 5 lines of the listing: a total line, 0, 1, 2 and the listing's own descriptor.
  EXPECT_EQ(Log(), (dir_.path() / "here").string() + "\n0027\nred\n99\n0\n3\n5\nsame\n" + pid + "\n" + pid +
                       "\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(KeeperTest, RunsAScriptWithoutAnInterpreterLineAsAShellWould) {
  const auto script = dir_.path() / "script";
  std::ofstream(script) << "echo plain $1\n";
  ::chmod(script.c_str(), 0755);
  spec_.argv = {script, "arg"};
  Start();
  AwaitEnd();
  EXPECT_EQ(Log(), "plain arg\n");
}

struct FailureCase {
  const char* name;
  std::function<void(Spec&, const std::filesystem::path&)> arrange;
  const char* stage;
  int error;
  const char* message;
};

class KeeperFailureTest : public KeeperTest, public ::testing::WithParamInterface<FailureCase> {};

TEST_P(KeeperFailureTest, FailedStartIsExplainedInJournalAndLog) {
  Shell("echo never");
  GetParam().arrange(spec_, dir_.path());
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 0u);
  EXPECT_EQ(history.job_ended->why, "start_failed");
  ASSERT_TRUE(history.failed);
  EXPECT_EQ(history.failed->stage, GetParam().stage);
  EXPECT_EQ(history.failed->error_number, GetParam().error);
  EXPECT_THAT(history.failed->message, HasSubstr(GetParam().message));
  EXPECT_THAT(Log(), HasSubstr(GetParam().message));
}

void WriteScript(const std::filesystem::path& path, const char* text, mode_t mode) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
}

INSTANTIATE_TEST_SUITE_P(
    All, KeeperFailureTest,
    ::testing::Values(FailureCase{"CommandNotFound",
                                  [](Spec& s, const auto&) { s.argv = {"no-such-command"}; }, "command",
                                  ENOENT, "command not found: no-such-command"},
                      FailureCase{"FileNotFound", [](Spec& s, const auto&) { s.argv = {"/no/such/file"}; },
                                  "command", ENOENT, "/no/such/file"},
                      FailureCase{"NotExecutable",
                                  [](Spec& s, const auto& dir) {
                                    WriteScript(dir / "x", "#!/bin/sh\n", 0644);
                                    s.argv = {dir / "x"};
                                  },
                                  "command", EACCES, "Permission denied"},
                      FailureCase{"NotExecutableInPath",
                                  [](Spec& s, const auto& dir) {
                                    WriteScript(dir / "tool", "#!/bin/sh\n", 0644);
                                    s.environment = {"PATH=/nowhere:" + dir.string()};
                                    s.argv = {"tool"};
                                  },
                                  "command", EACCES, "Permission denied"},
                      FailureCase{"IsADirectory", [](Spec& s, const auto& dir) { s.argv = {dir}; }, "command",
                                  EACCES, "Permission denied"},
                      FailureCase{"NoInterpreter",
                                  [](Spec& s, const auto& dir) {
                                    WriteScript(dir / "x", "#!/no/such/interpreter\n", 0755);
                                    s.argv = {dir / "x"};
                                  },
                                  "exec", ENOENT, "interpreter"},
                      FailureCase{"NoDirectory", [](Spec& s, const auto&) { s.cwd = "/no/such/dir"; },
                                  "directory", ENOENT, "entering directory /no/such/dir"},
                      FailureCase{"DirectoryIsAFile", [](Spec& s, const auto&) { s.cwd = "/etc/passwd"; },
                                  "directory", ENOTDIR, "/etc/passwd"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST_F(KeeperTest, LimitThatCannotBeRaisedIsANote) {
  // More than the kernel allows anybody (fs.nr_open).
  spec_.limits = {{RLIMIT_NOFILE, 1ull << 40, 1ull << 40}};
  Shell("exit 0");
  Start();
  const auto history = AwaitEnd();
  EXPECT_THAT(history.started->notes, Contains(StartsWith("limit NOFILE could not be set")));
  EXPECT_EQ(history.ended->code, 0);
}

TEST_F(KeeperTest, RestartsByPolicyUntilItSucceeds) {
  spec_.restart.mode = RestartMode::kOnFailure;
  Shell("echo x >> " + (dir_.path() / "count").string() + "; [ $(wc -l < " +
        (dir_.path() / "count").string() + ") -ge 3 ]");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 3u);
  EXPECT_EQ(FileText("count"), "x\nx\nx\n");
  EXPECT_EQ(history.ended->code, 0);
  EXPECT_THAT(Log(), HasSubstr("restarting"));
}

TEST_F(KeeperTest, GivesUpAfterTheMostRestarts) {
  spec_.restart.mode = RestartMode::kAlways;
  spec_.restart.max_restarts = 2;
  Shell("exit 1");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.runs, 3u);
  EXPECT_EQ(history.job_ended->why, "restarts_exhausted");
}

TEST_F(KeeperTest, StopLetsTheCommandCleanUp) {
  Shell("trap 'echo bye; exit 7' TERM; echo ready > " + (dir_.path() / "ready").string() +
        "; while :; do sleep 0.05; done");
  Start();
  AwaitFile("ready");
  ASSERT_TRUE(Order(StopJob{{"removed", "by a test"}, {}, {}}));
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->code, 7);
  EXPECT_EQ(history.ended->ordered, (EndReason{"removed", "by a test"}));
  EXPECT_EQ(history.job_ended->why, "stopped");
  EXPECT_THAT(Log(), HasSubstr("bye"));
}

TEST_F(KeeperTest, StopKillsWhatIgnoresTheSignal) {
  spec_.restart.mode = RestartMode::kAlways;
  Shell("trap '' TERM; echo ready > " + (dir_.path() / "ready").string() + "; while :; do sleep 0.05; done");
  Start();
  AwaitFile("ready");
  ASSERT_TRUE(Order(StopJob{{"removed", ""}, {}, base::Millis{50}}));
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->kind, EndKind::kSignalled);
  EXPECT_EQ(history.ended->code, SIGKILL);
  EXPECT_EQ(history.runs, 1u);
}

TEST_F(KeeperTest, RestartOrderMakesANewRun) {
  Shell("sleep 1000");
  Start();
  const auto first = AwaitRun(1).started->process;
  ASSERT_TRUE(Order(RestartJob{}));
  const auto second = AwaitRun(2).started->process;
  EXPECT_NE(first, second);
  EXPECT_FALSE(base::IsAlive(first));
  ASSERT_TRUE(Order(StopJob{}));
  EXPECT_EQ(AwaitEnd().runs, 2u);
}

TEST_F(KeeperTest, AnnouncedReasonIsInTheExitRecord) {
  for (int round = 0; round < 20; ++round) {
    job_dir_ = dir_.path() / ("job" + std::to_string(round));
    Shell("sleep 1000");
    Start();
    const auto history = AwaitRun();
    auto connection = KeeperConnection::Connect(job_dir_);
    ASSERT_TRUE(connection);
    // The test does not wait for the answer: the signal follows at once, as from the guard.
    ASSERT_TRUE(connection->Send(SetEndReason{1, {"memory_limit", "600MiB of 512MiB"}, false}));
    ASSERT_TRUE(base::SendSignal(history.started->process, SIGKILL));
    const auto end = AwaitEnd();
    ASSERT_TRUE(end.ended->ordered);
    EXPECT_EQ(end.ended->ordered->word, "memory_limit");
    EXPECT_EQ(end.ended->code, SIGKILL);
  }
}

TEST_F(KeeperTest, OutputIsCutIntoPartsOfTheSetSize) {
  spec_.log.size_limit = base::KiB(16);
  spec_.log.rotations = 1;
  Shell("i=0; while [ $i -lt 2000 ]; do echo line number $i; i=$((i+1)); done");
  Start();
  AwaitEnd();
  EXPECT_LE(Log().size(), 16u << 10);
  EXPECT_THAT(Log(), EndsWith("line number 1999\n"));
  EXPECT_GT(FileText("1.log.1").size(), 8u << 10);
  EXPECT_FALSE(std::filesystem::exists(spec_.log.path.string() + ".2"));
}

TEST_F(KeeperTest, NotesGoIntoTheLog) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  ASSERT_TRUE(Order(WriteLogNote{"soft limit passed"}));
  EXPECT_THAT(Log(), HasSubstr(": soft limit passed\n"));
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
}

// The keeper sees the output and the end at the same time.
TEST_F(KeeperTest, OutputOfARunIsInTheLogBeforeTheNoteOfItsEnd) {
  spec_.restart.mode = RestartMode::kOnFailure;
  spec_.restart.max_restarts = 1;
  Shell("read line < " + (dir_.path() / "go").string() + "; echo out; exit 3");
  ASSERT_EQ(::mkfifo((dir_.path() / "go").c_str(), 0600), 0);
  Start();
  for (const RunNumber run : {1u, 2u}) {
    const auto history = AwaitRun(run);
    const auto keeper = history.keeper->keeper;
    ASSERT_TRUE(base::SendSignal(keeper, SIGSTOP));
    std::ofstream(dir_.path() / "go") << "on\n";
    AwaitTrue([&] { return !base::IsAlive(history.started->process); });
    ASSERT_TRUE(base::SendSignal(keeper, SIGCONT));
  }
  AwaitEnd();
  EXPECT_THAT(Log(), MatchesRegex("out\ngpuman [^ ]+ restarting in 1ms\nout\ngpuman [^ ]+ restarted 1 .*\n"));
}

TEST_F(KeeperTest, UnwritableLogDoesNotKeepTheJobFromRunning) {
  spec_.log.path = dir_.path() / "missing" / "1.log";
  Shell("echo hello; exit 4");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->code, 4);
  EXPECT_THAT(history.started->notes, Contains(HasSubstr("output is lost")));
}

TEST_F(KeeperTest, PathsMayBeLongerThanASocketAddress) {
  job_dir_ = dir_.path();
  for (int i = 0; i < 5; ++i) {
    job_dir_ /= std::string(60, 'd');
    ASSERT_EQ(::mkdir(job_dir_.c_str(), 0700), 0);
  }
  job_dir_ /= "job";
  Shell("sleep 1000");
  Start();
  AwaitRun();
  ASSERT_TRUE(Order(StopJob{}));
  EXPECT_EQ(AwaitEnd().job_ended->why, "stopped");
}

TEST_F(KeeperTest, SecondKeeperLeavesTheFirstAlone) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kAlreadyRunning);
  EXPECT_EQ(History().runs, 1u);
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
  EXPECT_EQ(Spawn().value(), KeeperSpawnOutcome::kAlreadyEnded);
  EXPECT_EQ(History().runs, 1u);
}

TEST_F(KeeperTest, ManyKeepersAtOnceRunTheCommandOnce) {
  Shell("echo x >> " + (dir_.path() / "count").string());
  ASSERT_NO_FATAL_FAILURE(Prepare());
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> started = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto outcome = Spawn();
      EXPECT_TRUE(outcome);
      if (outcome && *outcome == KeeperSpawnOutcome::kStarted) ++started;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(AwaitEnd().runs, 1u);
  EXPECT_EQ(started, 1);
  EXPECT_EQ(FileText("count"), "x\n");
}

TEST_F(KeeperTest, TellsANewConnectionWhereItStandsAndThenWhatHappens) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  ASSERT_TRUE(Order(UpdateSettings{}));  // the keeper answers once it knows that the command was executed
  for (int round = 0; round < 3; ++round) {
    auto connection = KeeperConnection::Connect(job_dir_);
    ASSERT_TRUE(connection);
    pollfd poller{connection->fd(), POLLIN, 0};
    ::poll(&poller, 1, 30'000);
    const auto message = connection->Receive();
    ASSERT_TRUE(message && *message);
    const auto hello = std::get<KeeperHello>(**message);
    EXPECT_EQ(hello.job_id, 1);
    EXPECT_EQ(hello.run, 1u);
    EXPECT_EQ(hello.last_seq, History().last_seq);
    EXPECT_EQ(hello.process, History().started->process);
    EXPECT_EQ(hello.keeper, History().keeper->keeper);
  }
  auto connection = KeeperConnection::Connect(job_dir_);
  ASSERT_TRUE(connection);
  ASSERT_TRUE(connection->Send(StopJob{}));
  std::vector<std::uint64_t> pushed;
  for (;;) {
    pollfd poller{connection->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&poller, 1, 30'000), 1);
    auto message = connection->Receive();
    if (!message) break;  // the keeper is gone
    if (*message)
      if (const auto* record = std::get_if<JournalRecord>(&**message)) pushed.push_back(record->seq);
  }
  EXPECT_EQ(pushed, (std::vector<std::uint64_t>{4, 5, 6}));  // stop, exit, end
}

// A run whose start is in the journal before its keeper knows of it: the keeper is stopped while the child
// waits for its input, which the test then gives.
class StartUnknownToItsKeeperTest : public KeeperTest {
 protected:
  void StartUnknown() {
    const auto input = dir_.path() / "input";
    ASSERT_EQ(::mkfifo(input.c_str(), 0600), 0);
    spec_.standard_input = input;
    Shell("exec sleep 1000");
    Start();
    AwaitTrue([&] { return History().keeper.has_value(); });
    connection_ = KeeperConnection::Connect(job_dir_).value();
    ASSERT_TRUE(Answer(connection_->Send(WriteLogNote{"it is in its loop"}).value()));
    // The child opens its input and waits for the other end. Without the child, open() below would never
    // return.
    AwaitTrue([&] { return HasChild(History().keeper->keeper.pid); });
    ASSERT_FALSE(History().run_open);
    ASSERT_TRUE(base::SendSignal(History().keeper->keeper, SIGSTOP));
    input_ = base::Fd(::open(input.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(input_.ok());
    AwaitTrue([&] { return History().run_open; });
  }
  void GoOn() { ASSERT_TRUE(base::SendSignal(History().keeper->keeper, SIGCONT)); }

  // Returns true, too, where the kernel does not tell.
  static bool HasChild(pid_t pid) {
    const auto tasks = std::filesystem::path("/proc") / std::to_string(pid) / "task";
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::ifstream children(task.path() / "children");
      if (int child = 0; !children || children >> child) return true;
    }
    return false;
  }

  base::Result<> Answer(std::uint64_t id) {
    for (;;) {
      pollfd poller{connection_->fd(), POLLIN, 0};
      if (::poll(&poller, 1, 30'000) != 1) return base::Fail(base::ErrorCode::kTimeout, "no reply");
      GPUMAN_ASSIGN(auto message, connection_->Receive());
      if (!message) continue;
      if (auto* reply = std::get_if<Reply>(&*message); reply && reply->id == id) {
        if (reply->error) return base::Fail(*reply->error);
        return {};
      }
    }
  }

  std::optional<KeeperConnection> connection_;
  base::Fd input_;
};

TEST_F(StartUnknownToItsKeeperTest, OrdersForTheRunAreKept) {
  ASSERT_NO_FATAL_FAILURE(StartUnknown());
  const auto pause = connection_->Send(SetClockPaused{true}).value();
  const auto signal = connection_->Send(SendSignalTo{SIGUSR1, false}).value();
  GoOn();
  EXPECT_TRUE(Answer(pause));
  EXPECT_TRUE(Answer(signal));
  const auto history = AwaitEnd();
  EXPECT_EQ(history.ended->code, SIGUSR1);
  const auto records = ReadJournal(job_dir_)->records;
  ASSERT_GE(records.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<RunStarted>(records[1].body));
  EXPECT_EQ(records[2].body, RecordBody(ClockPauseChanged{true}));
}

TEST_F(StartUnknownToItsKeeperTest, TheJournalIsShortenedOnceTheChildIsDoneWithIt) {
  ASSERT_NO_FATAL_FAILURE(StartUnknown());
  const auto inode = [&] {
    struct stat status {};
    return ::stat((job_dir_ / "journal").c_str(), &status) == 0 ? status.st_ino : 0;
  };
  const auto before = inode();
  const auto stored = connection_->Send(RecordsStored{1}).value();
  GoOn();
  EXPECT_TRUE(Answer(stored));
  AwaitTrue([&] { return inode() != before; });
  EXPECT_EQ(AwaitRun().runs, 1u);
  ASSERT_TRUE(Order(StopJob{}));
  EXPECT_EQ(AwaitEnd().job_ended->why, "stopped");
}

// How many descriptors of files in memory the process has.
std::size_t MemoryFilesOf(pid_t pid) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid)))
    files += std::filesystem::read_symlink(entry).string().starts_with("/memfd:") ? 1U : 0U;
  return files;
}

TEST_F(KeeperTest, HoldsAFileAndSavesItAtTheEndOfEachRun) {
  spec_.restart.mode = RestartMode::kOnFailure;
  Shell("read line < gate; exit $line");
  spec_.cwd = dir_.path();
  ASSERT_EQ(::mkfifo((dir_.path() / "gate").c_str(), 0600), 0);
  Start();
  AwaitRun();
  const auto write_at = [](const base::Fd& file, off_t at, std::string_view text) {
    ASSERT_EQ(::pwrite(file.get(), text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
  };
  const base::Fd first(::memfd_create("first", MFD_CLOEXEC)), second(::memfd_create("second", MFD_CLOEXEC));
  write_at(first, 0, "first");
  write_at(second, 0, "second");
  EXPECT_EQ(Order(HoldFile{}).error().code, base::ErrorCode::kInvalidArgument) << "no descriptor came";
  ASSERT_TRUE(Order(HoldFile{}, first.get()));
  ASSERT_TRUE(Order(WriteLogNote{"this one keeps no descriptor"}, second.get()));
  ASSERT_TRUE(Order(HoldFile{}, second.get()));
  EXPECT_FALSE(ReadSavedHeld(job_dir_)) << "the run goes on";
  std::ofstream(dir_.path() / "gate") << "1\n";
  AwaitRun(2);
  EXPECT_FALSE(ReadSavedHeld(job_dir_)) << "the next run has begun";
  write_at(second, 0, "changed");
  EXPECT_EQ(MemoryFilesOf(History().keeper->keeper.pid), 1u) << "the file before it is closed";
  std::ofstream(dir_.path() / "gate") << "0\n";
  AwaitEnd();
  EXPECT_EQ(ReadSavedHeld(job_dir_).value(), "changed");
}

TEST_F(KeeperTest, KeepsOneDescriptorOfAPacketWithTwo) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  const base::Fd file(::memfd_create("twice", MFD_CLOEXEC));
  auto connection = KeeperConnection::Connect(job_dir_).value();
  const std::string packet = SerializeMessage(ClientMessage(NumberedCommand{9, HoldFile{}}));
  ASSERT_GT(base::SendWithFiles(connection.fd(), packet, std::array{file.get(), file.get()}), 0);
  ASSERT_TRUE(Order(WriteLogNote{"the packet before this one was read"}));
  EXPECT_EQ(MemoryFilesOf(History().keeper->keeper.pid), 1u);
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
}

TEST_F(KeeperTest, AnswersBadPacketsAndGoesOn) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  EXPECT_EQ(Order(SetEndReason{5, {"x", ""}, false}).error().code, base::ErrorCode::kConflict);
  EXPECT_FALSE(Order(SendSignalTo{77, false}));
  EXPECT_TRUE(Order(WriteLogNote{"x"}));
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
}

TEST_F(KeeperTest, ClientsThatSayNothingDoNoHarm) {
  Shell("sleep 1000");
  Start();
  AwaitRun();
  std::vector<KeeperConnection> silent;
  for (int i = 0; i < 100; ++i)
    if (auto connection = KeeperConnection::Connect(job_dir_)) silent.push_back(std::move(*connection));
  EXPECT_TRUE(Order(WriteLogNote{"x"}));
  ASSERT_TRUE(Order(StopJob{}));
  AwaitEnd();
}

TEST_F(KeeperTest, InvalidSpecFileIsAnErrorThatSaysSo) {
  Shell("exit 0");
  ASSERT_NO_FATAL_FAILURE(Prepare());
  std::ofstream(job_dir_ / "spec.json") << "{";
  const auto outcome = Spawn();
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("specification cannot be read: it is no JSON"));
  EXPECT_EQ(History().last_seq, 0u);
}

TEST_F(KeeperTest, AJobIsPreparedAgainOnlyUntilItsKeeperStarted) {
  Shell("exit 0");
  ASSERT_NO_FATAL_FAILURE(Prepare());
  Start();
  AwaitEnd();
  EXPECT_EQ(PrepareJob(job_dir_, spec_).error().code, base::ErrorCode::kAlreadyExists);
}

class OtherUserTest : public KeeperTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    spec_.uid = 65534;
    spec_.gid = 65534;
  }
};

TEST_F(OtherUserTest, CommandHasItsUserAndGroupsAndNothingElse) {
  spec_.groups = {4, 27};
  Shell("id -u; id -g; id -G; grep -E 'CapEff|CapPrm' /proc/self/status; echo again > /dev/stdout; cat " +
        (job_dir_ / "journal").string() + " 2>&1 | grep -c denied");
  Start();
  AwaitEnd();
  EXPECT_EQ(Log(),
            "65534\n65534\n65534 4 27\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nagain\n1\n");
}

TEST_F(OtherUserTest, DirectoryThatTheUserMayNotEnterIsAClearError) {
  ASSERT_EQ(::mkdir((dir_.path() / "closed").c_str(), 0700), 0);
  spec_.cwd = dir_.path() / "closed";
  Shell("exit 0");
  Start();
  const auto history = AwaitEnd();
  EXPECT_EQ(history.failed->stage, "directory");
  EXPECT_EQ(history.failed->error_number, EACCES);
}

TEST_F(OtherUserTest, CommandDiesWithItsKeeper) {
  Shell("sleep 1000");
  Start();
  const auto history = AwaitRun();
  ASSERT_TRUE(base::SendSignal(history.keeper->keeper, SIGKILL));
  AwaitTrue([&] { return !base::IsAlive(history.started->process); });
}

}  // namespace
}  // namespace gpuman::keeper
