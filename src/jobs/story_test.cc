#include "jobs/story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gpuman::jobs {
namespace {

using base::GiB;
using base::MiB;
using base::Millis;
using base::WallTime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

WallTime Clock(int seconds) { return WallTime(Millis(1'000'000) + Millis(seconds * 1000)); }

JobOwner Ann() {
  JobOwner ann;
  ann.user = "ann";
  return ann;
}

// A job of the queue that ran from second 100 to second 200 and failed with exit status 1.
class StoryLines : public testing::Test {
 protected:
  StoryLines() {
    job.id = {7};
    job.tag = "train";
    job.owner = Ann();
    job.command = {"python3", "train.py"};
    job.queued = true;
    job.gpus = {"GPU-b"};
    job.submitted_at = job.waiting_since = Clock(0);
    job.started_at = Clock(100);
    Ends(JobState::kFailed, "exit_status", "ended with exit status 1");
    job.exit_code = 1;
    facts.gpu_name = [](const std::string& uuid) { return uuid == "GPU-b" ? "GPU 1" : "GPU 0"; };
    Tell(100, "job_started", "started as process 60");
  }
  void Ends(JobState state, std::optional<std::string> reason, const std::string& detail = "") {
    job.state = facts.state = state;
    job.reason = std::move(reason);
    job.reason_detail = facts.reason_detail = detail;
    if (detail.empty()) job.reason_detail.reset();
    job.ended_at = Clock(200);
    job.exit_code.reset();
  }
  void Tell(int second, const std::string& kind, const std::string& message) {
    Event event;
    event.id = ++last_;
    event.at = Clock(second);
    event.kind = kind;
    event.job = 7;
    event.message = message;
    facts.events.push_back(event);
  }
  void Refuse(int second) {
    facts.refusal = RefusedAllocation{"GPU-b", MiB(512), MiB(7782), GiB(8), "limit", Clock(second)};
    facts.refusal_text = "512MiB was refused at its limit of 8GiB on GPU 1, of which it used 7.6GiB";
  }
  RunAccount Run(std::int64_t id, const std::string& user, const std::string& gpu, int ended) {
    RunAccount run;
    run.job = {id};
    run.user = user;
    run.name = "sweep";
    run.gpus = {gpu};
    run.ended = Clock(ended);
    return run;
  }
  JobStory Story() const { return StoryOf(job, facts); }
  std::string Cause() const { return std::string(ToString(Story().cause)); }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const StoryLine& line : Story().lines) texts.push_back(line.text);
    return texts;
  }

  Job job;
  StoryFacts facts;

 private:
  std::int64_t last_ = 0;
};

TEST_F(StoryLines, AnExitStatusIsTheCauseWhereNothingElseHappened) {
  EXPECT_EQ(Cause(), "exit_status");
  EXPECT_EQ(Story().because, "ended with exit status 1");
  EXPECT_THAT(Story().advice, ElementsAre(HasSubstr("gpuman logs 7")));
}

TEST_F(StoryLines, ARefusalSoonBeforeTheEndIsTheCauseAndAnEarlierOneIsNot) {
  Refuse(197);
  EXPECT_EQ(Cause(), "memory_refused");
  EXPECT_EQ(Story().because,
            "512MiB was refused at its limit of 8GiB on GPU 1, of which it used 7.6GiB; it ended with exit "
            "status 1 3s later");
  EXPECT_THAT(Story().advice, ElementsAre("`gpuman job redo 7 --memory SIZE` runs it again with more",
                                          HasSubstr("gpuman stats --by name")));
  facts.refusal->by = "device";
  EXPECT_THAT(Story().advice, ElementsAre(HasSubstr("gpuman status"),
                                          "`gpuman job redo 7` runs it again, when the GPU has room"))
      << "a larger limit is of no use";
  facts.refusal->by = "sharing";
  EXPECT_THAT(Story().advice,
              ElementsAre(HasSubstr("gpuman share status"), HasSubstr("when the GPU has room")));
  facts.refusal->by = "limit";
  job.exit_code.reset();
  job.signal = 6;
  job.reason = "signal";
  EXPECT_THAT(Story().because, HasSubstr("it was ended by SIGABRT 3s later"));
  Refuse(201);
  EXPECT_THAT(Story().because, HasSubstr("it was ended by SIGABRT at once")) << "the clocks differ a little";
  Refuse(139);
  EXPECT_EQ(Cause(), "signal");
  job.signal.reset();
  Ends(JobState::kFinished, std::nullopt);
  Refuse(199);
  EXPECT_EQ(Cause(), "finished") << "the program did without";
}

TEST_F(StoryLines, ASignalThatWasTheWarningBeforeTheTimeLimitIsCalledThat) {
  job.exit_code.reset();
  job.signal = 10;
  job.reason = "signal";
  EXPECT_THAT(Story().because, Not(HasSubstr("--warn")));
  job.spec.Change([](auto& spec) {
    spec.time_limit = Millis{100'000};
    spec.warn_signal = spec::Signal{10};
    spec.warn_before = Millis{5'000};
  });
  EXPECT_EQ(Story().because,
            "it was ended by SIGUSR1, the warning that `--warn` sends 5s before the time limit of 1m40s: a "
            "program that does not handle the signal is ended by it");
  job.suspended = Millis{10'000};
  EXPECT_THAT(Story().because, Not(HasSubstr("--warn"))) << "it had run for 90 s: somebody else sent it";
  job.suspended = Millis{0};
  job.signal = 9;
  EXPECT_THAT(Story().because, Not(HasSubstr("--warn")));
}

TEST_F(StoryLines, AFaultOfTheGpuComesBeforeARefusal) {
  Refuse(197);
  Tell(196, "gpu_unhealthy", "GPU 1 has fallen off the bus");
  EXPECT_EQ(Cause(), "gpu_fault");
  EXPECT_EQ(Story().because, "GPU 1 has fallen off the bus; it ended with exit status 1 4s later");
  facts.events.back().kind = "gpu_fault";
  EXPECT_EQ(Cause(), "memory_refused") << "a degraded GPU works on";
  facts.events.back().data["unhealthy"] = 1;
  EXPECT_EQ(Cause(), "gpu_fault");
  facts.events.back().kind = "gpu_lost";
  EXPECT_EQ(Cause(), "gpu_fault");
  facts.events.back().at = Clock(50);
  EXPECT_EQ(Cause(), "memory_refused") << "the fault was before this run";
  job.reason = "memory_refused";
  EXPECT_EQ(Cause(), "memory_refused");
  facts.events.back().at = Clock(196);
  EXPECT_EQ(Cause(), "gpu_fault");
}

TEST_F(StoryLines, ARefusalOfWhichNothingIsKnownIsNotTold) {
  job.reason = "memory_refused";
  EXPECT_EQ(Cause(), "exit_status");
  EXPECT_EQ(Story().because, "ended with exit status 1");
  job.exit_code.reset();
  job.signal = 6;
  EXPECT_EQ(Cause(), "signal");
  Refuse(197);
  job.ended_at.reset();
  EXPECT_EQ(Cause(), "signal");
}

TEST_F(StoryLines, EachReasonWordHasItsCause) {
  const struct {
    JobState state;
    std::string reason, cause, advice;
  } ends[] = {
      {JobState::kKilled, "memory_limit", "memory_limit",
       "`gpuman job redo 7 --memory SIZE` runs it again with more"},
      {JobState::kKilled, "device_pressure", "device_pressure", "`gpuman job redo 7` runs it again"},
      {JobState::kFailed, "host_memory", "host_memory",
       "let it use less of the machine's memory (fewer workers, smaller batches), or run fewer jobs at once"},
      {JobState::kKilled, "host_memory_limit", "host_memory", "give it a larger `--host-memory`"},
      {JobState::kTimeout, "time_limit", "time_limit",
       "`gpuman job redo 7 --time DURATION` runs it again for longer"},
      {JobState::kFailed, "signal", "signal", "`gpuman logs 7` has what it wrote last"},
      {JobState::kCancelled, "cancelled", "cancelled", ""},
      {JobState::kCancelled, "dependency_never", "dependency",
       "`gpuman job redo 7` submits it again, when what it waits for was redone"},
      {JobState::kKilled, "removed", "cancelled", ""},
      {JobState::kFailed, "reboot", "machine_restarted", "`gpuman job redo 7` runs it again"},
      {JobState::kFailed, "machine_restarted", "machine_restarted", "`gpuman job redo 7` runs it again"},
      {JobState::kFailed, "keeper_lost", "keeper_lost", "`gpuman job redo 7` runs it again"},
      {JobState::kFailed, "command_not_found", "never_started",
       "`gpuman job show 7` shows its command and its directory"},
      {JobState::kFailed, "command_not_executable", "never_started",
       "`gpuman job show 7` shows its command and its directory"},
      {JobState::kFailed, "start_failed", "never_started",
       "`gpuman job show 7` shows its command and its directory"},
      {JobState::kFailed, "directory_unusable", "never_started",
       "`gpuman job show 7` shows its command and its directory"},
      {JobState::kKilled, "mps_died", "other", ""},
  };
  for (const auto& end : ends) {
    Ends(end.state, end.reason, "because of " + end.reason);
    EXPECT_EQ(Cause(), end.cause);
    EXPECT_EQ(Story().because, "because of " + end.reason);
    EXPECT_EQ(Story().advice.empty() ? "" : Story().advice.front(), end.advice) << end.reason;
  }
  Ends(JobState::kCancelled, std::nullopt);
  EXPECT_EQ(Story().because, "cancelled") << "no reason is known";
}

TEST_F(StoryLines, AJobThatHasNotEndedTellsWhatItDoes) {
  job.ended_at.reset();
  Refuse(197);
  for (const auto& [state, cause] : {std::pair{JobState::kRunning, "runs"},
                                     {JobState::kSuspended, "suspended"},
                                     {JobState::kStarting, "runs"},
                                     {JobState::kQueued, "waits"},
                                     {JobState::kHeld, "waits"}}) {
    job.state = facts.state = state;
    EXPECT_EQ(Cause(), cause);
  }
  facts.state = JobState::kSuspended;
  facts.reason_detail = "85GiB are in host memory";
  EXPECT_EQ(Story().because, "85GiB are in host memory");
  job.state = facts.state = JobState::kHeld;
  EXPECT_THAT(Story().advice, ElementsAre(HasSubstr("gpuman job release 7")));
  job.state = facts.state = JobState::kRunning;
  facts.reason_detail.clear();
  EXPECT_EQ(Story().because, "it runs on GPU 1");
  facts.state = JobState::kQueued;
  EXPECT_EQ(Story().because, "it is about to start");
  facts.reason_detail = "waits for 2 GPUs";
  EXPECT_EQ(Story().because, "waits for 2 GPUs");
  job.state = JobState::kQueued;
  for (const auto& [reason, advice] :
       std::map<std::string, std::string>{{"paused", "gpuman gpu choice resume"},
                                          {"quota", "gpuman quota list"},
                                          {"unmanaged", "gpuman proclist"},
                                          {"reservation", "gpuman reserve list"},
                                          {"unavailable", "gpuman health"},
                                          {"resources", "`gpuman status` shows who has the GPUs"},
                                          {"priority", "`gpuman queue` who is before it"}}) {
    facts.reason = reason;
    ASSERT_FALSE(Story().advice.empty()) << reason;
    EXPECT_THAT(Story().advice.front(), HasSubstr(advice));
  }
  facts.reason = "dependency";
  EXPECT_TRUE(Story().advice.empty());
}

TEST_F(StoryLines, AJobThatWaitsForAGpuNamesWhoHasIt) {
  job.ended_at.reset();
  job.state = facts.state = JobState::kQueued;
  facts.reason = "resources";
  facts.reason_detail = "wants 1 GPU; 0 of 2 GPUs can be used now";
  facts.in_the_way = {{"GPU-a", "job 5 'train' (ann)", Clock(0)},
                      {"GPU-b", "job 5 'train' (ann)", Clock(0)},
                      {"GPU-b", "pid 7 (python, user bob), no job of gpuman", std::nullopt}};
  EXPECT_EQ(Story().because,
            "wants 1 GPU; 0 of 2 GPUs can be used now; GPU 0 and GPU 1 are held by job 5 'train' (ann) since "
            "1970-01-01T00:16:40.000Z, GPU 1 is held by pid 7 (python, user bob), no job of gpuman");
  facts.reason_detail.clear();
  EXPECT_THAT(Story().because, testing::StartsWith("GPU 0 and GPU 1 are held by"));
  for (const char* const who : {"c", "d", "e", "f"}) facts.in_the_way.push_back({"GPU-b", who, {}});
  EXPECT_THAT(Story().because, testing::EndsWith("GPU 1 is held by c, and 3 more"));
  facts.in_the_way.clear();
  facts.in_front = {"job 5 'train' (ann)"};
  facts.reason_detail = "wants 1 GPU; what is free is kept";
  EXPECT_EQ(Story().because, "wants 1 GPU; what is free is kept; job 5 'train' (ann) comes first");
  facts.in_front = {"a", "b", "c", "d", "e"};
  EXPECT_THAT(Story().because, testing::EndsWith("; a, b, c, and 2 more come first"));
}

TEST_F(StoryLines, AJobThatWaitsOnASharedGpuSaysSoAndWhoHasIt) {
  job.ended_at.reset();
  job.state = facts.state = JobState::kRunning;
  facts.reason_detail.clear();
  facts.wait = SharedGpuWait{{"GPU-b"}, "turn", Clock(0), {"job 5 'train' (ann)"}};
  EXPECT_EQ(Cause(), "runs");
  EXPECT_EQ(Story().because,
            "it waits for its turn on GPU 1 since 1970-01-01T00:16:40.000Z; job 5 'train' (ann) has it");
  EXPECT_THAT(Story().advice, ElementsAre(HasSubstr("gpuman share status")));
  facts.wait->gpus = {"GPU-a", "GPU-b"};
  facts.wait->others = {"a", "b"};
  EXPECT_THAT(Story().because, HasSubstr("its turn on GPU 0 and GPU 1 since"));
  EXPECT_THAT(Story().because, HasSubstr("; a, b have it"));
  facts.wait->others.clear();
  EXPECT_THAT(Story().because, HasSubstr("it is being handed over"));
  for (const auto& [word, text] : std::map<std::string, std::string>{{"room", "it waits for room on GPU 0"},
                                                                     {"return", "its memory comes back"},
                                                                     {"retry", "could not be moved"},
                                                                     {"too_large", "not even alone"}}) {
    facts.wait->word = word;
    EXPECT_THAT(Story().because, HasSubstr(text));
  }
  facts.reason_detail = "waits for the place of job 5";
  EXPECT_EQ(Story().because, "waits for the place of job 5");
}

TEST_F(StoryLines, TheStoryHasItsWaitItsStartItsPeakAndItsEnd) {
  facts.peak = MiB(7782);
  Tell(150, "allocation_refused", "512MiB was refused");
  Tell(160, "allocation_refused", "512MiB was refused");
  Tell(200, "job_failed", "ended with exit status 1");
  facts.holders = {Run(3, "eve", "GPU-a", 80), Run(5, "bob", "GPU-b", 99)};
  EXPECT_THAT(Texts(), ElementsAre("submitted by ann: python3",
                                   "had waited 1m40s; until then bob had GPU 1 (job 5, sweep)",
                                   "started on GPU 1 as process 60", "allocation refused: 512MiB was refused",
                                   "had used at most 7.6GiB of a GPU", "failed: ended with exit status 1"));
  facts.peak_parts = base::MemoryParts{MiB(7000), {}, {}, {}, MiB(782), {}, {}};
  EXPECT_THAT(Texts()[4], HasSubstr("7.6GiB of a GPU (6.8GiB in allocations, 782MiB in contexts and code)"));
  EXPECT_EQ(Story().lines[3].times, 2);
  EXPECT_EQ(Story().lines[3].last, Clock(160));
  EXPECT_EQ(Story().lines[1].at, Clock(100));
}

TEST_F(StoryLines, AJobThatFinishedIsToldOfALimitThatItDidNotNeed) {
  Ends(JobState::kFinished, std::nullopt);
  EXPECT_EQ(Story().because, "it finished with exit status 0");
  EXPECT_TRUE(Story().advice.empty());
  const std::string said = "its limit was 3GiB on each GPU, and it used 304MiB at most";
  Tell(200, "limit_above_need", said);
  Tell(200, "job_finished", "finished");
  EXPECT_EQ(Story().because, "it finished with exit status 0; " + said);
  EXPECT_THAT(Story().advice, ElementsAre(HasSubstr("gpuman stats --by name")));
  EXPECT_THAT(Texts(), ::testing::Contains("limit above need: " + said));
  job.started_at = Clock(250);
  EXPECT_EQ(Story().because, "it finished with exit status 0") << "that was an earlier run";
}

TEST_F(StoryLines, AJobThatWasRetriedHasEachRunAndWhatCameBetween) {
  job.gpus.clear();
  job.started_at = Clock(150);
  job.waiting_since = Clock(110);
  Tell(110, "job_requeued", "ended with exit status 1; retry 1 of 1");
  Tell(150, "job_restarted", "started as process 61");
  Tell(200, "job_failed", "ended with exit status 1");
  EXPECT_EQ(Cause(), "exit_status");
  EXPECT_THAT(Texts(), ElementsAre("submitted by ann: python3", "started as process 60",
                                   "requeued: ended with exit status 1; retry 1 of 1", "had waited 40s",
                                   "started again as process 61", "failed: ended with exit status 1"));
}

TEST_F(StoryLines, TheRefusalIsNotToldTwice) {
  Refuse(199);
  Tell(199, "allocation_refused", facts.refusal_text);
  Tell(200, "job_failed", "ended with exit status 1; " + facts.refusal_text);
  EXPECT_EQ(Texts().back(), "failed: ended with exit status 1");
}

TEST_F(StoryLines, OfManyHoldersTheLastOnesAreNamed) {
  for (int i = 0; i < 9; ++i) facts.holders.push_back(Run(10 + i, "bob", "GPU-b", 90 + i));
  EXPECT_THAT(Texts()[1],
              HasSubstr("bob had GPU 1 (job 18, sweep), bob had GPU 1 (job 17, sweep), bob had GPU 1 "
                        "(job 16, sweep), others as well"));
  facts.holders = {Run(7, "ann", "GPU-b", 99)};
  EXPECT_EQ(Texts()[1], "had waited 1m40s") << "its own earlier run";
}

TEST_F(StoryLines, AJobOutsideTheQueueWaitedForNobody) {
  job.queued = false;
  facts.holders = {Run(5, "bob", "GPU-b", 99)};
  EXPECT_THAT(Texts()[0], HasSubstr("run by ann"));
  EXPECT_THAT(Texts()[1], HasSubstr("started on GPU 1"));
  Refuse(197);
  EXPECT_THAT(Story().advice.front(), HasSubstr("gpuman restart train --memory SIZE"));
  job.attached = true;
  EXPECT_THAT(Story().advice, ElementsAre(HasSubstr("stats"))) << "gpuman did not start it";
}

TEST_F(StoryLines, OfALongStoryTheEarlierEventsOfAKindAreOneLine) {
  for (int i = 0; i < 300; ++i) {
    Tell(110 + i, "job_suspended", "the " + std::to_string(i) + "th time");
    Tell(110 + i, "job_resumed", "the " + std::to_string(i) + "th time");
  }
  const JobStory story = Story();
  ASSERT_EQ(story.lines.size(), 11u);
  EXPECT_EQ(story.left_out, 0);
  EXPECT_THAT(story.lines[0].text, HasSubstr("submitted"));
  EXPECT_THAT(story.lines[1].text, HasSubstr("had waited"));
  EXPECT_THAT(story.lines[2].text, HasSubstr("started on GPU 1"));
  const std::string more = "; 296 more of this kind until " + base::FormatIso8601(Clock(406));
  EXPECT_EQ(story.lines[3], (StoryLine{Clock(110), "suspended: the 0th time" + more, 1, Clock(110)}));
  EXPECT_EQ(story.lines[4], (StoryLine{Clock(110), "resumed: the 0th time" + more, 1, Clock(110)}));
  EXPECT_EQ(story.lines[5], (StoryLine{Clock(407), "suspended: the 297th time", 1, Clock(407)}));
  EXPECT_THAT(story.lines.back().text, HasSubstr("299th"));
}

TEST_F(StoryLines, TheBeginningOfTheLastRunStaysALineOfItsOwn) {
  for (int i = 0; i < 9; ++i) Tell(110 + i, "job_restarted", "started as process " + std::to_string(7 + i));
  for (int i = 0; i < 9; ++i) Tell(130 + i, "job_suspended", "the " + std::to_string(i) + "th time");
  const JobStory story = Story();
  const auto has = [&](const std::string& text) {
    return std::any_of(story.lines.begin(), story.lines.end(),
                       [&](const StoryLine& line) { return line.text.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(has("process 7; 7 more of this kind until"));
  EXPECT_TRUE(has("process 15"));
  EXPECT_FALSE(has("process 9")) << "it is one of those more";
}

TEST_F(StoryLines, OfAStoryWithManyKindsOfEventsSomeLinesAreLeftOut) {
  for (int i = 0; i < 300; ++i) Tell(110 + i / 10, "kind_" + std::to_string(i), "it happened");
  const JobStory story = Story();
  EXPECT_EQ(story.lines.size(), 15u);
  EXPECT_EQ(story.left_out, 303 - 15);
  EXPECT_EQ(story.left_out_after, 5);
  EXPECT_THAT(story.lines.back().text, HasSubstr("kind 299"));
  EXPECT_THAT(story.lines.front().text, HasSubstr("submitted"));
}

TEST_F(StoryLines, AJobThatWasStartedAgainAfterItsEndHasItsEarlierRunsBefore) {
  Tell(200, "job_failed", "ended with exit status 1");
  job.submitted_at = Clock(500);
  job.queued = false;
  job.started_at = Clock(501);
  Tell(501, "job_restarted", "started as process 61");
  EXPECT_THAT(Texts(), ElementsAre("started as process 60", "failed: ended with exit status 1",
                                   "run by ann: python3", "started again on GPU 1 as process 61"));
}

TEST_F(StoryLines, AJobThatRunsHasUsedSoMuchUntilNow) {
  facts.peak = GiB(7);
  facts.now = Clock(9000);
  job.state = facts.state = JobState::kRunning;
  job.ended_at.reset();
  EXPECT_EQ(Story().lines.back().text, "had used at most 7GiB of a GPU");
  EXPECT_EQ(Story().lines.back().at, Clock(9000));
}

TEST_F(StoryLines, AJobWithoutEventsHasAStoryAsWell) {
  facts.events.clear();
  job.command.clear();
  EXPECT_THAT(Texts(), ElementsAre("submitted by ann"));
}

}  // namespace
}  // namespace gpuman::jobs
