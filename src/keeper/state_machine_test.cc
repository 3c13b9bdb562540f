#include "keeper/state_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace gpuman::keeper {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

base::MonoTime At(int ms) { return base::MonoTime(milliseconds(1'000'000 + ms)); }

Spec ExampleSpec(RestartMode mode = RestartMode::kNo) {
  Spec spec;
  spec.restart = {.mode = mode, .initial_delay = milliseconds(100)};
  spec.stop_grace = milliseconds(500);
  return spec;
}

// Actions as short words, so that a test is easy to read.
std::vector<std::string> Words(const Actions& actions) {
  struct Speaker {
    std::string operator()(const action::Launch& a) { return "launch " + std::to_string(a.run); }
    std::string operator()(const action::SignalMain& a) { return "signal " + std::to_string(a.signal); }
    std::string operator()(const action::SignalTree& a) { return "signal-tree " + std::to_string(a.signal); }
    std::string operator()(const action::KillTree&) { return "kill-tree"; }
    std::string operator()(const action::LogNote&) { return "note"; }
    std::string operator()(const action::Leave&) { return "leave"; }
    std::string operator()(const action::Append& a) { return std::visit(*this, a.body); }
    std::string operator()(const KeeperStarted&) { return "keeper"; }
    std::string operator()(const RunStarted&) { return "run"; }
    std::string operator()(const StartFailed&) { return "failed"; }
    std::string operator()(const RunEnded& r) {
      const std::string kind = r.kind == EndKind::kUnknown ? "unknown" : std::to_string(r.code);
      return "exit " + kind + (r.ordered ? " " + r.ordered->word : "");
    }
    std::string operator()(const StopOrdered& r) { return "stop " + r.reason.word; }
    std::string operator()(const RestartScheduled& r) {
      return "restart in " + std::to_string(r.delay.count());
    }
    std::string operator()(const JobSettingsChanged&) { return "settings"; }
    std::string operator()(const RestartOrdered& r) { return "order " + r.reason.word; }
    std::string operator()(const ClockPauseChanged& r) { return r.paused ? "clock stands" : "clock goes"; }
    std::string operator()(const JobEnded& r) { return "end " + r.why; }
  };
  std::vector<std::string> words;
  for (const auto& action : actions) words.push_back(std::visit(Speaker{}, action));
  return words;
}
std::vector<std::string> Words(const base::Result<Actions>& actions) {
  return actions ? Words(*actions) : std::vector<std::string>{"refused"};
}

constexpr base::ProcessId kMain{101, 5};
MainEnd Exit(int code) { return {EndKind::kExited, code, false, {}}; }
MainEnd Killed(int signal) { return {EndKind::kSignalled, signal, false, {}}; }

// A machine whose first run is under way.
RunStateMachine Running(const Spec& spec) {
  RunStateMachine machine(spec);
  EXPECT_THAT(Words(machine.Begin({}, false, At(0))), ElementsAre("launch 1"));
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(1))), IsEmpty());
  EXPECT_EQ(machine.phase(), KeeperPhase::kRunning);
  return machine;
}

TEST(RunStateMachine, EndsTheJobWithItsCommand) {
  auto machine = Running(ExampleSpec());
  EXPECT_FALSE(machine.deadline());
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(3), true, At(10))),
              ElementsAre("exit 3", "end finished", "leave"));
  EXPECT_EQ(machine.phase(), KeeperPhase::kEnded);
}

TEST(RunStateMachine, TellsWhyARunEndedUnlessTheEndWasOrdered) {
  auto machine = Running(ExampleSpec(RestartMode::kOnFailure));
  MainEnd end = Killed(SIGKILL);
  end.cause = EndReason{"host_memory_limit", "it wanted too much"};
  EXPECT_THAT(Words(machine.OnMainEnded(end, true, At(10))),
              ElementsAre("exit 9 host_memory_limit", "note", "restart in 100", "note"))
      << "what it is ended for is no reason not to run it again";
  auto stopped = Running(ExampleSpec());
  (void)stopped.OnCommand(StopJob{{"stopped", ""}, {}, {}}, At(5));
  EXPECT_THAT(Words(stopped.OnMainEnded(end, true, At(10))),
              ElementsAre("exit 9 stopped", "end stopped", "leave"));
}

Spec Limited() {
  Spec spec = ExampleSpec(RestartMode::kAlways);
  spec.time_limit = {milliseconds(1000), SIGUSR1, milliseconds(300)};
  return spec;
}

TEST(RunStateMachine, WarnsAndThenEndsAJobWhoseTimeIsOver) {
  auto machine = Running(Limited());
  EXPECT_EQ(machine.deadline(), At(701));
  EXPECT_THAT(Words(machine.OnTime(At(700))), IsEmpty());
  EXPECT_THAT(Words(machine.OnTime(At(701))), ElementsAre("note", "signal-tree 10"));
  EXPECT_EQ(machine.deadline(), At(1001));
  EXPECT_THAT(Words(machine.OnTime(At(1001))), ElementsAre("note", "stop time_limit", "signal-tree 15"));
  EXPECT_EQ(machine.deadline(), At(1501)) << "the grace";
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(SIGTERM), true, At(1002))),
              ElementsAre("exit 15 time_limit", "end stopped", "leave"))
      << "whatever the restart policy";
}

TEST(RunStateMachine, DoesNotCountTheTimeForWhichTheClockStands) {
  auto machine = Running(Limited());
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(601))), ElementsAre("clock stands"));
  EXPECT_FALSE(machine.deadline());
  EXPECT_THAT(Words(machine.OnTime(At(5000))), IsEmpty());
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(5001))), IsEmpty()) << "it stands already";
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{false}, At(6001))), ElementsAre("clock goes"));
  EXPECT_EQ(machine.deadline(), At(6101));
  EXPECT_THAT(Words(machine.OnTime(At(6101))), ElementsAre("note", "signal-tree 10"));
  EXPECT_EQ(machine.deadline(), At(6401));
}

TEST(RunStateMachine, TakesAnotherTimeLimitForTheRunThatGoesOn) {
  auto machine = Running(Limited());
  UpdateSettings longer;
  longer.time_limit = milliseconds(5000);
  EXPECT_THAT(Words(machine.OnCommand(longer, At(900))), ElementsAre("settings"));
  EXPECT_EQ(machine.deadline(), At(4701));
  UpdateSettings none;
  none.time_limit = milliseconds(0);
  EXPECT_THAT(Words(machine.OnCommand(none, At(901))), ElementsAre("settings"));
  EXPECT_FALSE(machine.deadline());
  UpdateSettings over;
  over.time_limit = milliseconds(100);
  EXPECT_THAT(Words(machine.OnCommand(over, At(902))),
              ElementsAre("settings", "note", "stop time_limit", "signal-tree 15"));
}

TEST(RunStateMachine, LeavesACommandThatHasEndedInTimeToItsLeftovers) {
  auto machine = Running(Limited());
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(0), false, At(990))), ElementsAre("exit 0", "signal-tree 15"));
  EXPECT_THAT(Words(machine.OnTime(At(1001))), IsEmpty());
}

TEST(RunStateMachine, EndsWhatTheCommandLeavesBehindAfterTheGrace) {
  auto machine = Running(ExampleSpec());
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(0), false, At(10))), ElementsAre("exit 0", "signal-tree 15"));
  EXPECT_EQ(machine.phase(), KeeperPhase::kLeftovers);
  EXPECT_THAT(Words(machine.OnTime(At(509))), IsEmpty());
  EXPECT_THAT(Words(machine.OnTime(At(510))), ElementsAre("kill-tree"));
  EXPECT_EQ(machine.deadline(), At(1510));
  EXPECT_THAT(Words(machine.OnTreeEmpty(At(520))), ElementsAre("end finished", "leave"));
}

TEST(RunStateMachine, WaitsForLeftoversWhereToldTo) {
  auto spec = ExampleSpec();
  spec.leftovers = LeftoverPolicy::kWait;
  auto machine = Running(spec);
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(0), false, At(10))), ElementsAre("exit 0"));
  EXPECT_FALSE(machine.deadline());
  EXPECT_THAT(Words(machine.OnTreeEmpty(At(100'000))), ElementsAre("end finished", "leave"));
}

TEST(RunStateMachine, AnEmptyTreeMeansNothingWhileTheCommandRuns) {
  auto machine = Running(ExampleSpec());
  EXPECT_THAT(Words(machine.OnTreeEmpty(At(5))), IsEmpty());
  EXPECT_EQ(machine.phase(), KeeperPhase::kRunning);
}

TEST(RunStateMachine, RestartsByPolicyAfterTheDelay) {
  auto machine = Running(ExampleSpec(RestartMode::kOnFailure));
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(1), true, At(10))),
              ElementsAre("exit 1", "restart in 100", "note"));
  EXPECT_EQ(machine.phase(), KeeperPhase::kWaiting);
  EXPECT_THAT(Words(machine.OnTime(At(109))), IsEmpty());
  EXPECT_THAT(Words(machine.OnTime(At(110))), ElementsAre("launch 2"));
  machine.OnLaunched({2, kMain, {}}, At(111));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(SIGSEGV), true, At(112))),
              ElementsAre("exit 11", "restart in 200", "note"));
  machine.OnTime(At(312));
  machine.OnLaunched({3, kMain, {}}, At(313));
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(0), true, At(314))),
              ElementsAre("exit 0", "end finished", "leave"));
}

TEST(RunStateMachine, StopSignalsTheTreeAndKillsItAfterTheGrace) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  EXPECT_THAT(Words(machine.OnCommand(StopJob{{"removed", ""}, {}, {}}, At(10))),
              ElementsAre("stop removed", "signal-tree 15"));
  EXPECT_EQ(machine.phase(), KeeperPhase::kStopping);
  EXPECT_THAT(Words(machine.OnTime(At(510))), ElementsAre("kill-tree"));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(9), true, At(511))),
              ElementsAre("exit 9 removed", "end stopped", "leave"));
}

TEST(RunStateMachine, StopWithoutGraceKillsAtOnceAndASecondStopShortensTheFirst) {
  auto machine = Running(ExampleSpec());
  EXPECT_THAT(Words(machine.OnCommand(StopJob{}, At(10))), ElementsAre("stop stopped", "signal-tree 15"));
  EXPECT_THAT(Words(machine.OnCommand(StopJob{{"x", ""}, {}, base::Millis{0}}, At(20))),
              ElementsAre("kill-tree"));
  EXPECT_THAT(Words(machine.OnCommand(StopJob{{"x", ""}, {}, base::Millis{9000}}, At(21))), IsEmpty());
  EXPECT_LE(machine.deadline(), At(1020));
}

TEST(RunStateMachine, StopEndsAWaitingJobAtOnce) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  machine.OnMainEnded(Exit(0), true, At(10));
  EXPECT_THAT(Words(machine.OnCommand(StopJob{}, At(20))),
              ElementsAre("stop stopped", "end stopped", "leave"));
  EXPECT_THAT(Words(machine.OnCommand(StopJob{}, At(21))), ElementsAre("refused"));
}

TEST(RunStateMachine, StopBeforeExecveIsCarriedOutRightAfter) {
  RunStateMachine machine(ExampleSpec());
  machine.Begin({}, false, At(0));
  EXPECT_THAT(Words(machine.OnCommand(StopJob{}, At(1))), ElementsAre("stop stopped"));
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(2))), ElementsAre("signal-tree 15"));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(15), true, At(3))),
              ElementsAre("exit 15 stopped", "end stopped", "leave"));
}

TEST(RunStateMachine, RestartBeforeExecveIsCarriedOutRightAfter) {
  RunStateMachine machine(ExampleSpec());
  machine.Begin({}, false, At(0));
  EXPECT_THAT(Words(machine.OnCommand(RestartJob{}, At(1))), ElementsAre("order restart"));
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(2))), ElementsAre("signal-tree 15"));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(15), true, At(3))),
              ElementsAre("exit 15 restart", "restart in 0", "note", "launch 2"));
}

TEST(RunStateMachine, StopKillsAStartThatHangsBeforeExecve) {
  RunStateMachine machine(ExampleSpec());
  machine.Begin({}, false, At(0));
  machine.OnCommand(StopJob{}, At(0)).value();
  EXPECT_THAT(Words(machine.OnTime(At(500))), ElementsAre("kill-tree"));
  EXPECT_THAT(Words(machine.OnLaunchFailed({1, "killed", 0, "x"}, At(501))),
              ElementsAre("failed", "note", "end stopped", "leave"));
}

TEST(RunStateMachine, AnnouncedReasonIsWrittenWithTheEndThatFollows) {
  auto machine = Running(ExampleSpec());
  EXPECT_THAT(Words(machine.OnCommand(SetEndReason{1, {"memory_limit", "600MiB"}, false}, At(5))), IsEmpty());
  EXPECT_THAT(Words(machine.OnCommand(SetEndReason{1, {"late", ""}, false}, At(6))), ElementsAre("refused"));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(9), true, At(7))),
              ElementsAre("exit 9 memory_limit", "end finished", "leave"));
}

TEST(RunStateMachine, ReasonForAnotherRunIsRefused) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  EXPECT_THAT(Words(machine.OnCommand(SetEndReason{2, {"memory_limit", ""}, false}, At(5))),
              ElementsAre("refused"));
  machine.OnCommand(SetEndReason{1, {"memory_limit", ""}, false}, At(5)).value();
  machine.OnMainEnded(Killed(9), true, At(7));
  machine.OnTime(At(500));
  machine.OnLaunched({2, kMain, {}}, At(501));
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(0), true, At(502))),
              ElementsAre("exit 0", "restart in 200", "note"));
}

TEST(RunStateMachine, WithdrawnReasonIsForgotten) {
  auto machine = Running(ExampleSpec());
  machine.OnCommand(SetEndReason{0, {"memory_limit", ""}, true}, At(5)).value();
  machine.OnCommand(SetEndReason{0, {"", ""}, false}, At(6)).value();
  EXPECT_THAT(Words(machine.OnMainEnded(Exit(0), true, At(7))),
              ElementsAre("exit 0", "end finished", "leave"));
}

TEST(RunStateMachine, FinalReasonOverrulesTheRestartPolicy) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  machine.OnCommand(SetEndReason{1, {"memory_limit", ""}, true}, At(5)).value();
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(9), true, At(7))),
              ElementsAre("exit 9 memory_limit", "end stopped", "leave"));
}

TEST(RunStateMachine, RestartOrderEndsTheRunAndStartsTheNextAtOnce) {
  auto machine = Running(ExampleSpec());
  EXPECT_THAT(Words(machine.OnCommand(RestartJob{}, At(5))), ElementsAre("order restart", "signal-tree 15"));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(15), false, At(6))), ElementsAre("exit 15 restart"));
  EXPECT_THAT(Words(machine.OnTreeEmpty(At(7))), ElementsAre("restart in 0", "note", "launch 2"));
}

TEST(RunStateMachine, RestartOrderCutsTheWaitShort) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  machine.OnMainEnded(Exit(0), true, At(10));
  EXPECT_THAT(Words(machine.OnCommand(RestartJob{}, At(11))),
              ElementsAre("restart in 0", "note", "launch 2"));
}

TEST(RunStateMachine, StopOverrulesARestartOrder) {
  auto machine = Running(ExampleSpec());
  machine.OnCommand(RestartJob{}, At(5)).value();
  EXPECT_THAT(Words(machine.OnCommand(StopJob{}, At(6))), ElementsAre("stop stopped"));
  EXPECT_THAT(Words(machine.OnCommand(RestartJob{}, At(7))), ElementsAre("refused"));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(15), true, At(8))),
              ElementsAre("exit 15 restart", "end stopped", "leave"));
}

TEST(RunStateMachine, CommandThatNeverRanEndsTheJobWhateverThePolicy) {
  RunStateMachine machine(ExampleSpec(RestartMode::kAlways));
  machine.Begin({}, false, At(0));
  EXPECT_THAT(Words(machine.OnLaunchFailed({1, "command", 2, "command not found: x"}, At(1))),
              ElementsAre("failed", "note", "end start_failed", "leave"));
}

TEST(RunStateMachine, CommandThatRanBeforeIsTriedAgain) {
  auto machine = Running(ExampleSpec(RestartMode::kOnFailure));
  machine.OnMainEnded(Exit(1), true, At(10));
  machine.OnTime(At(200));
  EXPECT_THAT(Words(machine.OnLaunchFailed({2, "command", 2, "gone"}, At(201))),
              ElementsAre("failed", "note", "restart in 200", "note"));
}

TEST(RunStateMachine, UpdateChangesPolicyAndGrace) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  UpdateSettings update;
  update.restart = RestartPolicy{.mode = RestartMode::kNo};
  update.stop_grace = base::Millis{50};
  EXPECT_THAT(Words(machine.OnCommand(update, At(5))), ElementsAre("settings"));
  machine.OnCommand(StopJob{}, At(10)).value();
  EXPECT_EQ(machine.deadline(), At(60));
}

TEST(RunStateMachine, UpdateToNoRestartEndsAWaitingJob) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  machine.OnMainEnded(Exit(0), true, At(10));
  UpdateSettings update;
  update.restart = RestartPolicy{.mode = RestartMode::kNo};
  EXPECT_THAT(Words(machine.OnCommand(update, At(11))), ElementsAre("settings", "end finished", "leave"));
}

TEST(RunStateMachine, SignalsGoToTheMainProcessOrTheTree) {
  auto machine = Running(ExampleSpec());
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{10, false}, At(5))), ElementsAre("signal 10"));
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{10, true}, At(5))), ElementsAre("signal-tree 10"));
  machine.OnMainEnded(Exit(0), false, At(6));
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{10, false}, At(7))), ElementsAre("refused"));
}

TEST(RunStateMachine, ShutdownEndsTheRunButNotAJobThatIsToRestart) {
  auto machine = Running(ExampleSpec(RestartMode::kOnFailure));
  EXPECT_THAT(Words(machine.OnShutdown(At(5))), ElementsAre("signal-tree 15"));
  EXPECT_THAT(Words(machine.OnShutdown(At(6))), IsEmpty());
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(15), true, At(7))), ElementsAre("exit 15 shutdown", "leave"));
  EXPECT_NE(machine.phase(), KeeperPhase::kEnded);

  auto once = Running(ExampleSpec());
  once.OnShutdown(At(5));
  EXPECT_THAT(Words(once.OnMainEnded(Killed(15), true, At(7))),
              ElementsAre("exit 15 shutdown", "end finished", "leave"));
}

TEST(RunStateMachine, AClockThatIsStoppedBeforeExecveStandsFromTheRunsStart) {
  RunStateMachine machine(Limited());
  machine.Begin({}, false, At(0));
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(1))), IsEmpty()) << "kept";
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(2))), ElementsAre("clock stands"));
  EXPECT_FALSE(machine.deadline());
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{false}, At(5002))), ElementsAre("clock goes"));
  EXPECT_EQ(machine.deadline(), At(5702));
}

TEST(RunStateMachine, AClockThatIsStoppedAndLetGoBeforeExecveGoes) {
  RunStateMachine machine(Limited());
  machine.Begin({}, false, At(0));
  machine.OnCommand(SetClockPaused{true}, At(1)).value();
  machine.OnCommand(SetClockPaused{false}, At(1)).value();
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(2))), IsEmpty());
  EXPECT_EQ(machine.deadline(), At(702));
}

TEST(RunStateMachine, AStandingClockIsOfItsRunAlone) {
  auto machine = Running(Limited());
  machine.OnCommand(SetClockPaused{true}, At(5)).value();
  machine.OnMainEnded(Killed(9), true, At(6));
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{false}, At(7))), ElementsAre("refused"))
      << "there is no run";
  machine.OnTime(At(200));
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(201))), IsEmpty());
  EXPECT_THAT(Words(machine.OnLaunchFailed({2, "exec", 2, "no"}, At(202))),
              ElementsAre("failed", "note", "restart in 200", "note"));
  machine.OnTime(At(500));
  EXPECT_THAT(Words(machine.OnLaunched({3, kMain, {}}, At(501))), IsEmpty());
}

TEST(RunStateMachine, TheClockOfLeftoversThatAreWaitedForCanBeStopped) {
  auto spec = Limited();
  spec.leftovers = LeftoverPolicy::kWait;
  auto machine = Running(spec);
  machine.OnMainEnded(Exit(0), false, At(10));
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(11))), ElementsAre("clock stands"));
  EXPECT_FALSE(machine.deadline());
}

TEST(RunStateMachine, TheClockOfARunWhoseTimeIsOverFollowsOrdersStill) {
  auto machine = Running(Limited());
  machine.OnTime(At(701));
  machine.OnTime(At(1001));
  EXPECT_EQ(machine.phase(), KeeperPhase::kStopping);
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(1002))), ElementsAre("clock stands"));
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{true}, At(1003))), IsEmpty());
  EXPECT_THAT(Words(machine.OnCommand(SetClockPaused{false}, At(1004))), ElementsAre("clock goes"));
}

TEST(RunStateMachine, SignalsBeforeExecveAreSentRightAfter) {
  RunStateMachine machine(ExampleSpec());
  machine.Begin({}, false, At(0));
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{10, false}, At(1))), IsEmpty());
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{12, true}, At(1))), IsEmpty());
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{10, false}, At(1))), IsEmpty());
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(2))), ElementsAre("signal 10", "signal-tree 12"));
}

TEST(RunStateMachine, ASecondStopBeforeExecveDoesNotTakeBackTheSignalOfTheFirst) {
  RunStateMachine machine(ExampleSpec());
  machine.Begin({}, false, At(0));
  machine.OnCommand(StopJob{{"x", ""}, SIGINT, {}}, At(1)).value();
  machine.OnCommand(StopJob{}, At(2)).value();
  EXPECT_THAT(Words(machine.OnLaunched({1, kMain, {}}, At(3))), ElementsAre("signal-tree 2"));
}

TEST(RunStateMachine, LeftoversGetTheSignalsForTheTree) {
  auto machine = Running(ExampleSpec());
  machine.OnMainEnded(Exit(0), false, At(6));
  EXPECT_THAT(Words(machine.OnCommand(SendSignalTo{10, true}, At(7))), ElementsAre("signal-tree 10"));
}

TEST(RunStateMachine, ShutdownKeepsARestartThatWasOrderedForTheNextKeeper) {
  auto machine = Running(ExampleSpec());
  machine.OnCommand(RestartJob{}, At(5)).value();
  machine.OnShutdown(At(6));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(15), true, At(7))), ElementsAre("exit 15 restart", "leave"));
  JobHistory history;
  history.last_run = 1;
  history.runs = 1;
  history.ended = RunEnded{.run = 1, .usage = {}, .ordered = EndReason{"restart", ""}};
  history.restart_ordered = RestartOrdered{{"restart", ""}};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec()).Begin(history, true, At(8))),
              ElementsAre("restart in 0", "note", "launch 2"));
}

TEST(RunStateMachine, AChangedPolicyDoesNotTakeBackARestartThatIsLeftToTheNextKeeper) {
  auto machine = Running(ExampleSpec());
  machine.OnCommand(RestartJob{}, At(5)).value();
  machine.OnShutdown(At(6));
  machine.OnMainEnded(Killed(15), true, At(7));
  UpdateSettings update;
  update.restart = RestartPolicy{.mode = RestartMode::kNo};
  EXPECT_THAT(Words(machine.OnCommand(update, At(8))), ElementsAre("settings"));
}

TEST(RunStateMachine, ShutdownDoesNotTakeBackThatAReasonWasFinal) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  machine.OnCommand(SetEndReason{1, {"memory_limit", ""}, true}, At(5)).value();
  machine.OnShutdown(At(6));
  EXPECT_THAT(Words(machine.OnMainEnded(Killed(9), true, At(7))),
              ElementsAre("exit 9 memory_limit", "end stopped", "leave"));
}

TEST(RunStateMachine, AKeeperThatLeavesStartsNothing) {
  auto machine = Running(ExampleSpec(RestartMode::kAlways));
  machine.OnMainEnded(Exit(0), true, At(10));
  EXPECT_THAT(Words(machine.OnShutdown(At(11))), ElementsAre("leave"));
  EXPECT_THAT(Words(machine.OnTime(At(1000))), IsEmpty()) << "its end may wait for the disk";
}

JobHistory OpenRun() {
  JobHistory history;
  history.last_run = 4;
  history.runs = 4;
  history.run_open = true;
  return history;
}

TEST(RunStateMachineAfterALostKeeper, OpenRunHasAnUnknownEnd) {
  RunStateMachine machine(ExampleSpec());
  EXPECT_THAT(Words(machine.Begin(OpenRun(), true, At(0))),
              ElementsAre("exit unknown keeper_lost", "end finished", "leave"));
}

TEST(RunStateMachineAfterALostKeeper, UnknownEndCountsAsFailure) {
  RunStateMachine machine(ExampleSpec(RestartMode::kOnFailure));
  EXPECT_THAT(Words(machine.Begin(OpenRun(), false, At(0))),
              ElementsAre("exit unknown machine_restarted", "restart in 100", "note"));
  EXPECT_THAT(Words(machine.OnTime(At(100))), ElementsAre("launch 5"));
}

TEST(RunStateMachineAfterALostKeeper, StopOrderedBeforeIsKept) {
  auto history = OpenRun();
  history.stop = StopOrdered{{"removed", ""}};
  RunStateMachine machine(ExampleSpec(RestartMode::kAlways));
  EXPECT_THAT(Words(machine.Begin(history, true, At(0))),
              ElementsAre("exit unknown removed", "end stopped", "leave"));
}

TEST(RunStateMachineAfterALostKeeper, RestartOrderedBeforeIsCarriedOut) {
  auto history = OpenRun();
  history.restart_ordered = RestartOrdered{{"restart", "by lab1"}};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec()).Begin(history, true, At(0))),
              ElementsAre("exit unknown restart", "restart in 0", "note", "launch 5"));
  history.stop = StopOrdered{{"removed", ""}};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec()).Begin(history, true, At(0))),
              ElementsAre("exit unknown removed", "end stopped", "leave"));
}

TEST(RunStateMachineAfterALostKeeper, ScheduledRestartIsWaitedForAnew) {
  JobHistory history;
  history.last_run = 1;
  history.runs = 1;
  history.restart = RestartScheduled{2, base::Millis{400}, 3, {}};
  history.in_a_row = 3;
  RunStateMachine machine(ExampleSpec(RestartMode::kAlways));
  EXPECT_THAT(Words(machine.Begin(history, true, At(0))), IsEmpty());
  EXPECT_EQ(machine.deadline(), At(400));
}

TEST(RunStateMachineAfterALostKeeper, ScheduledRestartIsNotBegunAgainstAPolicyThatWasChangedMeanwhile) {
  JobHistory history;
  history.last_run = 1;
  history.runs = 1;
  history.restart = RestartScheduled{2, base::Millis{400}, 3, {}};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec(RestartMode::kNo)).Begin(history, true, At(0))),
              ElementsAre("end finished", "leave"));
  history.restart->ordered = EndReason{"restart", ""};
  history.restart->delay = base::Millis{0};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec(RestartMode::kNo)).Begin(history, true, At(0))),
              ElementsAre("launch 2"));
}

TEST(RunStateMachineAfterALostKeeper, EndWithoutADecisionGetsOne) {
  JobHistory history;
  history.last_run = 1;
  history.runs = 1;
  history.ended = RunEnded{.run = 1, .kind = EndKind::kExited, .code = 0, .usage = {}, .ordered = {}};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec(RestartMode::kOnFailure)).Begin(history, true, At(0))),
              ElementsAre("end finished", "leave"));
  history.ended->ordered = EndReason{"shutdown", ""};
  EXPECT_THAT(Words(RunStateMachine(ExampleSpec(RestartMode::kOnFailure)).Begin(history, false, At(0))),
              ElementsAre("restart in 0", "note", "launch 2"));
}

}  // namespace
}  // namespace gpuman::keeper
