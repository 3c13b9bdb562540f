#include "cli/top/update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/top/rows.h"
#include "cli/top/test_state.h"

namespace gpuman::cli::top {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = Key::Code;
using std::chrono::seconds;

// "1" for a job, "p11" for a process, "#" for a heading.
std::vector<std::string> RowNames(const State& state) {
  std::vector<std::string> names;
  for (const auto& row : RowsOf(state))
    names.push_back(row.id.kind == RowId::Kind::kHeading ? "#"
                    : row.process                        ? fmt::format("p{}", row.process->pid)
                                                         : std::to_string(NameOf(row)->id));
  return names;
}

template <typename T>
const T* Only(const std::vector<Effect>& effects) {
  return effects.size() == 1 ? std::get_if<T>(&effects.front()) : nullptr;
}

base::MonoTime At(int second) { return base::MonoTime(seconds(1000 + second)); }

TEST(TopUpdate, AsksOnceForWhatWasRecordedOfEachGpuAndOfTheJobThatIsShown) {
  State state;
  auto effects = Update(state, StatusCame{TestMachine()});
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(std::get<AskHistory>(effects[0]).of, (HistoryOf{"GPU-0"}));
  EXPECT_EQ(std::get<AskHistory>(effects[1]).of, (HistoryOf{"GPU-1"}));
  EXPECT_EQ(std::get<AskHistory>(effects[1]).interval, state.interval);
  EXPECT_THAT(Update(state, StatusCame{TestMachine()}), IsEmpty());
  state.job_page = JobPage{.job = 1};
  const JobCame came{1, TestJob(1, "train", "ann"), api::JobStory{}, std::string()};
  effects = Update(state, came);
  ASSERT_TRUE(Only<AskHistory>(effects));
  EXPECT_EQ(Only<AskHistory>(effects)->of, (HistoryOf{{}, 1}));
  EXPECT_THAT(Update(state, came), IsEmpty());
}

TEST(TopUpdate, GoesOnWithoutWhatWasRecorded) {
  State state;
  Update(state, StatusCame{TestMachine()});
  EXPECT_THAT(Update(state, HistoryCame{base::Fail(base::ErrorCode::kNotFound, "nothing is recorded")}),
              IsEmpty());
  EXPECT_TRUE(state.problem.empty());
  api::HistoryView history;
  history.gpu = "GPU-0";
  history.since = base::WallTime(seconds(1000));
  history.until = base::WallTime(seconds(1001));
  history.step = base::Millis(1000);
  history.utilization.mean = {25};
  Update(state, HistoryCame{history});
  EXPECT_EQ(state.samples.Gpu("GPU-0")->utilization.Last(2, state.samples.now()).front(), 0.25);
}

TEST(TopRows, AreATreeOfJobsAndTheirProcesses) {
  auto state = TestState();
  EXPECT_THAT(RowNames(state), ElementsAre("2", "p21", "1", "p12", "p11", "p99", "3"));
  const auto rows = RowsOf(state);
  EXPECT_TRUE(rows[3].below && !rows[3].last && rows[4].last);
  Press(state, "t");
  EXPECT_THAT(RowNames(state), ElementsAre("2", "1", "p99", "3")) << "processes are folded";
}

TEST(TopRows, AreInTheOrderThatKeysAndTitlesChoose) {
  auto state = TestState();
  Press(state, "tu");
  EXPECT_THAT(RowNames(state), ElementsAre("1", "2", "p99", "3"));
  Press(state, "i");
  EXPECT_THAT(RowNames(state), ElementsAre("p99", "2", "1", "3")) << "ended jobs stay at the end";
  Press(state, "ij");
  EXPECT_THAT(RowNames(state), ElementsAre("1", "2", "p99", "3"));
  Press(state, "a");
  EXPECT_THAT(RowNames(state), ElementsAre("1", "2", "p99", "3")) << "an age that is not known comes last";
  state.status.gpus[0].processes[0].gpu_percent = 30;
  state.status.gpus[0].processes[1].gpu_percent = 15;
  state.status.gpus[1].processes[1].gpu_percent = 40;
  Press(state, "l");
  EXPECT_THAT(RowNames(state), ElementsAre("1", "p99", "2", "3")) << "a use that is not known comes last";
  Update(state, Click{{ClickTarget::Kind::kOrder, static_cast<std::size_t>(TopOrder::kJob)}});
  EXPECT_EQ(state.order, TopOrder::kJob);
  EXPECT_FALSE(state.inverted);
  Update(state, Click{{ClickTarget::Kind::kOrder, static_cast<std::size_t>(TopOrder::kJob)}});
  EXPECT_TRUE(state.inverted) << "the same title again";
}

TEST(TopRows, AreSortedByTheUseOfTheHost) {
  auto machine = TestMachine();
  for (const int pid : {11, 12, 21}) {
    machine.facts[pid].resident = base::MiB(static_cast<std::uint64_t>(pid));
    machine.facts[pid].cpu = pid == 21 ? 0.5 : 2.0;
  }
  auto state = TestState({100, 30}, machine);
  Press(state, "tC");
  EXPECT_THAT(RowNames(state), ElementsAre("1", "2", "p99", "3"));
  EXPECT_EQ(HostUseOf(state, state.status.jobs[0]).cpu, 4.0) << "of both processes";
  EXPECT_EQ(HostUseOf(state, state.status.jobs[0]).memory, base::MiB(23));
  Press(state, "4H");
  EXPECT_THAT(RowNames(state), ElementsAre("p21", "p12", "p11", "p99"));
}

TEST(TopRows, AreFilteredByWords) {
  auto state = TestState();
  const auto with = [&](const std::string& filter) {
    state.filter = filter;
    return RowNames(state);
  };
  EXPECT_THAT(with("gpu:1"), ElementsAre("2", "p21", "p99"));
  EXPECT_THAT(Screenful(state), Not(HasSubstr("\n0   H200"))) << "the other GPU has no panel";
  EXPECT_THAT(with("user:ANN"), ElementsAre("1", "p12", "p11", "3"));
  EXPECT_THAT(with("name:bert"), ElementsAre("2", "p21"));
  EXPECT_THAT(with("id:3"), ElementsAre("3"));
  EXPECT_THAT(with("state:running gpu:0"), ElementsAre("1", "p12", "p11")) << "all words fit";
  EXPECT_THAT(with("bert.py"), ElementsAre("2", "p21")) << "the command";
  EXPECT_THAT(with("pid:11"), ElementsAre("1", "p11")) << "a job stays for its process";
  EXPECT_THAT(with("eve"), ElementsAre("p99"));
  EXPECT_THAT(with("nobody"), IsEmpty());
}

TEST(TopFilter, IsTypedAndLeft) {
  auto state = TestState();
  Press(state, "/gpu:1q");
  EXPECT_TRUE(state.filtering) << "q is a letter there";
  EXPECT_THAT(RowNames(state), IsEmpty());
  EXPECT_THAT(Screenful(state), AllOf(HasSubstr("/gpu:1q"), HasSubstr("Nothing fits the filter")));
  Press(state, Code::kBackspace);
  EXPECT_THAT(RowNames(state), ElementsAre("2", "p21", "p99"));
  Press(state, Code::kEnter);
  EXPECT_FALSE(state.filtering);
  EXPECT_EQ(state.filter, "gpu:1");
  EXPECT_THAT(Press(state, Code::kEscape), IsEmpty()) << "leaves the filter, not the program";
  EXPECT_EQ(state.filter, "");
  EXPECT_THAT(Press(state, Code::kEscape), IsEmpty()) << "a slow line may break a key's sequence";
  EXPECT_THAT(Screenful(state), HasSubstr("q quits"));
  Press(state, "/");
  Update(state, Key{Code::kCharacter, "ü"});
  Press(state, Code::kBackspace);
  EXPECT_EQ(state.filter, "") << "a whole character goes";
}

TEST(TopChoice, MovesAndStaysWithItsJob) {
  auto state = TestState();
  EXPECT_EQ(state.choice().id.number, 2) << "the first row";
  Press(state, Code::kDown);
  Press(state, Code::kDown);
  EXPECT_EQ(state.choice().id.number, 1);
  auto machine = TestMachine();
  machine.status.jobs.push_back(TestJob(50, "new", "eve"));
  Update(state, StatusCame{machine});
  EXPECT_EQ(state.choice().id.number, 1) << "though a row came above it";
  EXPECT_EQ(state.choice().index, 3u);
  Press(state, Code::kEnd);
  EXPECT_EQ(state.choice().id.number, 3);
  Press(state, Code::kDown);
  EXPECT_EQ(state.choice().id.number, 3) << "the last row";
  Press(state, Code::kHome);
  EXPECT_EQ(state.choice().id.number, 50);
  Update(state, Wheel{2});
  EXPECT_EQ(state.choice().index, 2u);
}

TEST(TopChoice, GoesToTheNextRowWhenItsJobEnds) {
  auto state = TestState();
  Press(state, "t");
  ASSERT_EQ(state.choice().id.number, 2);
  auto machine = TestMachine();
  machine.status.jobs.erase(machine.status.jobs.begin() + 1);
  machine.status.gpus[1].processes.clear();
  Update(state, StatusCame{machine});
  EXPECT_EQ(state.choice().id.number, 1);
  machine.status = {};
  Update(state, StatusCame{machine});
  EXPECT_EQ(state.choice().id, RowId{});
  EXPECT_THAT(Press(state, Code::kEnter), IsEmpty());
  Press(state, "s");
  EXPECT_FALSE(state.question);
}

TEST(TopChoice, StaysInSightOfALongList) {
  auto machine = TestMachine();
  for (int i = 0; i < 200; ++i) machine.status.jobs.push_back(TestJob(1000 + i, "many", "eve"));
  auto state = TestState({80, 24}, machine);
  for (const auto code :
       {Code::kPageDown, Code::kPageDown, Code::kDown, Code::kEnd, Code::kPageUp, Code::kUp, Code::kHome}) {
    Press(state, code);
    EXPECT_THAT(Screenful(state), HasSubstr("\n> ")) << static_cast<int>(code);
  }
  Update(state, Resized{{40, 6}});
  EXPECT_THAT(Screenful(state), HasSubstr("\n> "));
}

TEST(TopClick, ChoosesThenOpens) {
  auto state = TestState();
  Update(state, Click{{ClickTarget::Kind::kRow, 2}});
  EXPECT_EQ(state.choice().id.number, 1);
  EXPECT_FALSE(state.job_page);
  const auto effects = Update(state, Click{{ClickTarget::Kind::kRow, 2}});
  ASSERT_TRUE(state.job_page);
  ASSERT_TRUE(Only<AskJob>(effects));
  EXPECT_EQ(Only<AskJob>(effects)->job, 1);
  Update(state, Click{{ClickTarget::Kind::kPage, 1}});
  EXPECT_EQ(state.page, Page::kQueue);
  EXPECT_FALSE(state.job_page);
  EXPECT_THAT(Update(state, Click{{ClickTarget::Kind::kRow, 500}}), IsEmpty()) << "a row that has gone";
}

TEST(TopClick, FindsWhatIsDrawnThere) {
  const auto state = TestState();
  const auto picture = Draw(state);
  for (std::size_t row = 0; row < picture.lines.size(); ++row) {
    const auto text = picture.lines[row].text();
    if (text.find(" train ") == text.npos) continue;
    EXPECT_EQ(picture.At(3, row), (ClickTarget{ClickTarget::Kind::kRow, 2}));
    EXPECT_EQ(picture.At(99, row), (ClickTarget{ClickTarget::Kind::kRow, 2}));
  }
  const auto tab = picture.lines[0].text().find("3 Sharing");
  EXPECT_EQ(picture.At(tab, 0), (ClickTarget{ClickTarget::Kind::kPage, 2}));
  EXPECT_EQ(picture.At(0, 0), std::nullopt);
  EXPECT_EQ(picture.At(0, 500), std::nullopt);
}

struct ActionCase {
  char key;
  Action action;
  const char* text;
};

TEST(TopAction, AsksAndActsAfterYesAlone) {
  for (const auto& [key, action, text] :
       {ActionCase{'s', Action::kSuspend, "suspend job 2 'bert' of bob? y/n"},
        {'r', Action::kResume, "resume job 2 'bert' of bob? y/n"},
        {'c', Action::kCancel, "cancel job 2 'bert' of bob? y/n"},
        {'e', Action::kEnd, "end job 2 'bert' of bob? y/n"}}) {
    auto state = TestState();
    EXPECT_THAT(Press(state, std::string(1, key)), IsEmpty());
    EXPECT_THAT(Screenful(state), AllOf(HasSubstr(text), HasSubstr("y yes  n no")));
    EXPECT_THAT(Press(state, "xq12 "), IsEmpty()) << "neither yes nor no";
    EXPECT_TRUE(state.question);
    EXPECT_THAT(Press(state, "n"), IsEmpty());
    EXPECT_FALSE(state.question);
    Press(state, std::string(1, key));
    EXPECT_THAT(Press(state, Code::kEscape), IsEmpty());
    EXPECT_FALSE(state.question);
    Press(state, std::string(1, key));
    const auto effects = Press(state, "y");
    ASSERT_TRUE(Only<PerformAction>(effects));
    EXPECT_EQ(Only<PerformAction>(effects)->question.action, action);
    EXPECT_EQ(Only<PerformAction>(effects)->question.job, 2);
    EXPECT_FALSE(state.question);
    Update(state,
           ActionResult{Only<PerformAction>(effects)->question, std::string("job 2 'bert' is as you wish")});
    EXPECT_THAT(Screenful(state), HasSubstr("job 2 'bert' is as you wish"));
  }
}

TEST(TopAction, ShowsARefusalInTheWordsOfTheDaemon) {
  auto state = TestState();
  Press(state, "sy");
  Update(state,
         ActionResult{{}, base::Fail(base::ErrorCode::kPermissionDenied, "job 2 belongs to bob", "ask bob")});
  EXPECT_TRUE(state.message_is_refusal);
  EXPECT_THAT(Screenful(state), HasSubstr("! job 2 belongs to bob (ask bob)"));
  Press(state, Code::kDown);
  EXPECT_EQ(state.message, "");
}

TEST(TopAction, KillsNoJob) {
  auto state = TestState();
  Press(state, "k");
  EXPECT_FALSE(state.question);
  EXPECT_THAT(state.message, HasSubstr("is ended with e"));
}

TEST(TopAction, ActsOnTheJobOfAProcess) {
  auto state = TestState();
  Press(state, Code::kDown);
  ASSERT_EQ(state.choice().id.kind, RowId::Kind::kProcess);
  Press(state, "s");
  ASSERT_TRUE(state.question);
  EXPECT_EQ(state.question->job, 2);
}

TEST(TopAction, EndsAProcessOfNoJobThatItKnows) {
  auto machine = TestMachine();
  auto state = TestState({100, 30}, machine);
  Press(state, "/pid:99");
  Press(state, Code::kEnter);
  Press(state, "s");
  EXPECT_THAT(state.message, HasSubstr("belongs to no job"));
  Press(state, "e");
  EXPECT_THAT(state.message, HasSubstr("not seen from here")) << "whose it is now is not known";
  machine.facts[99].id = {99, 777};
  Update(state, StatusCame{machine});
  Press(state, "e");
  EXPECT_THAT(Screenful(state), HasSubstr("send SIGTERM to process 99 'python' of eve? y/n"));
  const auto effects = Press(state, "y");
  ASSERT_TRUE(Only<PerformAction>(effects));
  EXPECT_EQ(Only<PerformAction>(effects)->question.process, (base::ProcessId{99, 777}));
  Press(state, "k");
  EXPECT_THAT(Screenful(state), HasSubstr("send SIGKILL to process 99"));
  EXPECT_EQ(Only<PerformAction>(Press(state, "y"))->question.action, Action::kKill);
  machine.status.gpus[1].processes[1].gpuman = true;
  Update(state, StatusCame{machine});
  Press(state, "e");
  EXPECT_FALSE(state.question);
  EXPECT_THAT(state.message, HasSubstr("a part of gpuman"));
}

TEST(TopAction, KeepsItsQuestionWhileDataComesAndDropsItWhenTheJobEnds) {
  auto state = TestState();
  Press(state, "s");
  auto machine = TestMachine();
  machine.status.jobs.push_back(TestJob(90, "larger", "eve"));
  Update(state, StatusCame{machine});
  EXPECT_THAT(Screenful(state), HasSubstr("suspend job 2 'bert' of bob? y/n"));
  Update(state, StatusCame{base::Fail(base::ErrorCode::kUnavailable, "it is away")});
  EXPECT_TRUE(state.question);
  machine.status.jobs[1].state = spec::JobState::kFinished;
  Update(state, StatusCame{machine});
  EXPECT_FALSE(state.question);
  EXPECT_THAT(state.message, HasSubstr("has ended meanwhile"));
  EXPECT_THAT(Press(state, "y"), IsEmpty()) << "the yes comes too late";
}

TEST(TopAction, MayBeOnAJobThatHasEnded) {
  auto state = TestState();
  Press(state, Code::kEnd);
  Press(state, "e");
  Update(state, StatusCame{TestMachine()});
  ASSERT_TRUE(state.question);
  EXPECT_TRUE(Only<PerformAction>(Press(state, "y")));
}

TEST(TopData, IsAskedForOnceAnInterval) {
  auto state = TestState();
  state.asked_at = At(0);
  EXPECT_THAT(Update(state, Tick{At(0)}), IsEmpty());
  EXPECT_EQ(NextTick(state), At(1));
  const auto effects = Update(state, Tick{At(1)});
  ASSERT_TRUE(Only<AskStatus>(effects));
  EXPECT_FALSE(Only<AskStatus>(effects)->share) << "no job shares";
  EXPECT_THAT(Update(state, Tick{At(2)}), IsEmpty()) << "one question at a time";
  Update(state, StatusCame{TestMachine()});
  EXPECT_FALSE(Update(state, Tick{At(2)}).empty());
  Update(state, StatusCame{TestMachine()});
  Press(state, " ");
  EXPECT_FALSE(Update(state, Tick{At(2)}).empty()) << "space asks at once";
}

TEST(TopData, IsAskedAsThePageNeeds) {
  auto state = TestState();
  const auto asked = [&](const std::string& keys) {
    Press(state, keys);
    const auto effects = Update(state, Tick{At(5)});
    Update(state, StatusCame{TestMachine()});
    return std::get<AskStatus>(effects.at(0));
  };
  EXPECT_TRUE(asked("3").share);
  EXPECT_TRUE(asked("2").queue);
  state.queue.emplace(6000);
  int times = 0;
  for (int i = 0; i < 30; ++i) times += asked(" ").queue ? 1 : 0;
  EXPECT_EQ(times, 3) << "of a long queue less often";
  EXPECT_FALSE(asked("1").queue);
  state.status.jobs[0].options.share = true;
  EXPECT_TRUE(asked(" ").share) << "turns are drawn from the time on that top was opened";
}

TEST(TopData, IsOldWhileTheDaemonIsSilentOrAway) {
  auto state = TestState();
  state.asked_at = At(0);
  Update(state, Tick{At(1)});
  Update(state, Tick{At(3)});
  EXPECT_EQ(state.problem, "");
  EXPECT_EQ(NextTick(state), At(4));
  Update(state, Tick{At(6)});
  EXPECT_THAT(Screenful(state), HasSubstr("! these are old figures: the daemon has not answered for 5s"));
  EXPECT_EQ(NextTick(state), At(7)) << "the seconds are counted";
  Update(state, StatusCame{base::Fail(base::ErrorCode::kUnavailable, "no daemon serves")});
  EXPECT_THAT(Screenful(state), AllOf(HasSubstr("old figures: no daemon serves"), HasSubstr("train")));
  EXPECT_FALSE(Update(state, Tick{At(7)}).empty()) << "it is asked again";
  Update(state, StatusCame{TestMachine()});
  EXPECT_THAT(Screenful(state), Not(HasSubstr("old figures")));
}

TEST(TopJobPage, FollowsItsJobAndTakesNoAnswerOfAnother) {
  auto state = TestState();
  ASSERT_EQ(Only<AskJob>(Press(state, Code::kEnter))->job, 2);
  Press(state, Code::kEscape);
  EXPECT_FALSE(state.job_page);
  Press(state, Code::kDown);
  Press(state, Code::kDown);
  EXPECT_THAT(Press(state, Code::kEnter), IsEmpty()) << "the answer for the other one is still on its way";
  const auto late =
      Update(state, JobCame{2, TestJob(2, "bert", "bob"), api::JobStory{}, std::string("of bert")});
  ASSERT_TRUE(Only<AskJob>(late));
  EXPECT_EQ(Only<AskJob>(late)->job, 1);
  EXPECT_THAT(state.job_page->log, IsEmpty());
  api::JobStory story;
  story.because = "it has the GPU";
  Update(state, JobCame{1, TestJob(1, "train", "ann"), story, std::string("epoch 1\nepoch 2\n")});
  EXPECT_THAT(Screenful(state), AllOf(HasSubstr("job 1 'train' of ann"), HasSubstr("epoch 2"),
                                      HasSubstr("it has the GPU"), HasSubstr("1GiB used of 100GiB")));
  Press(state, "s");
  EXPECT_EQ(state.question->job, 1);
}

TEST(TopJobPage, MarksAStartThatIsAGuess) {
  auto machine = TestMachine();
  auto job = TestJob(2, "bert", "bob", spec::JobState::kQueued);
  job.queue.emplace().estimated_start = machine.at + std::chrono::hours(48);
  for (const bool guess : {false, true}) {
    job.queue->estimate_presumed = guess;
    machine.status.jobs = {job};
    auto state = TestState({100, 30}, machine);
    Press(state, Code::kEnter);
    Update(state, JobCame{2, job, api::JobStory{}, std::string()});
    EXPECT_THAT(Screenful(state), HasSubstr(guess ? "; starts ~1970-01-0" : "; starts 1970-01-0"));
  }
}

TEST(TopJobPage, ScrollsItsLogAndFollowsItsEnd) {
  auto state = TestState({80, 24});
  Press(state, Code::kEnter);
  std::string log;
  for (int i = 1; i <= 100; ++i) log += fmt::format("line {}\n", i);
  const auto came = [&] { Update(state, JobCame{2, TestJob(2, "bert", "bob"), api::JobStory{}, log}); };
  came();
  EXPECT_THAT(Screenful(state), HasSubstr("line 100"));
  Press(state, Code::kUp);
  EXPECT_THAT(Screenful(state),
              AllOf(HasSubstr("line 99"), Not(HasSubstr("line 100")), HasSubstr("1 lines back")));
  log += "line 101\n";
  came();
  EXPECT_THAT(Screenful(state), AllOf(HasSubstr("line 99"), Not(HasSubstr("line 100")))) << "it stays";
  Press(state, Code::kHome);
  EXPECT_THAT(Screenful(state), HasSubstr("line 1\n"));
  Press(state, Code::kEnd);
  EXPECT_THAT(Screenful(state), HasSubstr("line 101"));
}

TEST(TopJobPage, SaysWhyThereIsNoLog) {
  auto state = TestState();
  Press(state, Code::kEnter);
  Update(state, JobCame{2, base::Fail(base::ErrorCode::kNotFound, "there is no job 2"),
                        base::Fail(base::ErrorCode::kNotFound, "there is no job 2"),
                        base::Fail(base::ErrorCode::kPermissionDenied, "the log belongs to bob")});
  EXPECT_THAT(Screenful(state), HasSubstr("log: the log belongs to bob"));
  state.status.jobs.clear();
  EXPECT_THAT(Screenful(state), HasSubstr("there is no job 2"));
}

TEST(TopKeys, HaveAHelpPage) {
  for (const char* key : {"h", "?"}) {
    auto state = TestState({100, 24});
    Press(state, key);
    EXPECT_THAT(Screenful(state),
                AllOf(HasSubstr("suspend, resume the chosen job"), HasSubstr("gpuman health says")));
    EXPECT_THAT(Press(state, "q"), IsEmpty());
    EXPECT_FALSE(state.help);
  }
}

TEST(TopKeys, GoFromPageToPage) {
  auto state = TestState();
  for (const auto page : {Page::kQueue, Page::kSharing, Page::kProcesses, Page::kJobs}) {
    Press(state, Code::kTab);
    EXPECT_EQ(state.page, page);
  }
  Press(state, Code::kBackTab);
  EXPECT_EQ(state.page, Page::kProcesses);
  EXPECT_THAT(RowNames(state), ElementsAre("p21", "p12", "p11", "p99"));
  EXPECT_TRUE(Only<Quit>(Press(state, "q")));
}

TEST(TopSharing, HasHeadingsThatNobodyChooses) {
  auto machine = TestMachine();
  api::ShareView share;
  for (const int index : {0, 1}) {
    api::ShareGpu gpu;
    gpu.index = index;
    gpu.number = std::to_string(index);
    gpu.uuid = fmt::format("GPU-{}", index);
    gpu.contended = true;
    for (const std::int64_t id : {1, 2}) {
      api::ShareJob job;
      job.id = id;
      job.tag = id == 1 ? "train" : "bert";
      job.in_run_set = id == 1;
      job.gate = id == 1 ? "open" : "closed";
      if (id == 2) job.waits_for = "turn";
      gpu.jobs.push_back(job);
    }
    share.gpus.push_back(gpu);
  }
  machine.share = share;
  auto state = TestState({120, 30}, machine);
  Press(state, "3");
  EXPECT_THAT(RowNames(state), ElementsAre("#", "1", "2", "#", "1", "2"));
  EXPECT_EQ(state.choice().index, 1u);
  Press(state, Code::kDown);
  Press(state, Code::kDown);
  EXPECT_EQ(state.choice().index, 4u) << "the heading is passed";
  Press(state, Code::kUp);
  EXPECT_EQ(state.choice().index, 2u);
  Press(state, Code::kHome);
  EXPECT_EQ(state.choice().index, 1u);
  Update(state, Click{{ClickTarget::Kind::kRow, 3}});
  EXPECT_EQ(state.choice().index, 1u);
  EXPECT_THAT(Screenful(state),
              AllOf(HasSubstr("GPU 0: turns"), HasSubstr("waits for turn"), HasSubstr("█")));
}

TEST(TopQueue, ShowsJobsThatTheStatusLeavesOut) {
  auto machine = TestMachine();
  api::QueueRow row;
  row.id = 7000;
  row.tag = "later";
  row.user = "eve";
  row.reason = "resources";
  row.position = 1;
  row.estimated_start = machine.at + std::chrono::hours(48);
  machine.queue = std::vector{row};
  auto state = TestState({100, 30}, machine);
  Press(state, "2");
  EXPECT_THAT(Screenful(state), AllOf(HasSubstr("7000 later"), HasSubstr("resources"), HasSubstr("1970-01-0"),
                                      Not(HasSubstr("~"))));
  Press(state, "c");
  EXPECT_THAT(Screenful(state), HasSubstr("cancel job 7000 'later' of eve? y/n"));
  Update(state, StatusCame{machine});
  EXPECT_TRUE(state.question) << "the status never had it";
  Press(state, "n");
  machine.queue->front().estimate_presumed = 1;
  Update(state, StatusCame{machine});
  EXPECT_THAT(Screenful(state), HasSubstr("~1970-01-0")) << "a guess is marked";
}

}  // namespace
}  // namespace gpuman::cli::top
