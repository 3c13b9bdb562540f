// Tests the guard's rules with tables. Sizes are MiB, times are milliseconds.
#include "guard/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "guard/test_machine.h"

namespace gpuman::guard {
namespace {

using base::Millis;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One story: all calls use the same state.
struct Story {
  PolicySettings settings;
  PolicyState state;
  std::vector<Action> last;

  std::vector<std::string> Next(std::int64_t now, std::vector<GpuSnapshot> gpus,
                                std::vector<JobSnapshot> jobs) {
    last = Decide({std::move(gpus), std::move(jobs)}, settings, At(now), state);
    return Words(last);
  }
};

TEST(HardLimit, ActsOnWhatIsCertainlyAboveIt) {
  const struct {
    const char* what;
    std::vector<gpu::AttributedProcess> processes;
    bool killed;
  } table[] = {
      {"nothing", {}, false},
      {"below", {Process(1, 7, 999)}, false},
      {"at it", {Process(1, 7, 1000)}, false},
      {"above", {Process(1, 7, 1001)}, true},
      {"the tree together", {Process(1, 7, 500), Process(2, 7, 501)}, true},
      {"somebody else", {Process(1, 8, 5000), Process(2, 7, 100)}, false},
      {"nobody's process", {Process(1, std::nullopt, 5000)}, false},
      {"unknown is not above", {Process(1, 7, 999), Process(2, 7, std::nullopt)}, false},
      {"unknown is not zero either", {Process(1, 7, 1001), Process(2, 7, std::nullopt)}, true},
  };
  for (const auto& row : table) {
    Story story;
    story.Next(0, {Gpu(0, row.processes)}, {Job(7, 1000), Job(8)});
    bool killed = false;
    for (const auto& action : story.last)
      if (action.what == ActionKind::kKill) {
        killed = true;
        EXPECT_EQ(action.job, JobId{7}) << row.what;
      }
    EXPECT_EQ(killed, row.killed) << row.what;
  }
}

TEST(HardLimit, LetsBeWhoseProcessesCountTheirMemoryAndTakeNoMore) {
  const struct {
    const char* what;
    std::uint64_t used;
    std::optional<std::uint64_t> counted;
    std::int64_t now;
    std::vector<std::string> words;
  } table[] = {
      {"nobody counts: ended at once", 1001, std::nullopt, 0, {"kill job 7 hard_limit"}},
      {"over by what the driver takes", 1200, 1000, 0, {"tell over_limit job 7"}},
      {"for as long as that is so", 1200, 1000, 1'000'000, {}},
      {"over by more: the count is wrong", 1300, 1000, 0, {"kill job 7 hard_limit"}},
      {"the limit was lowered", 4000, 3900, 0, {"tell over_limit job 7"}},
      {"and nothing given back yet", 4000, 3900, 9'000, {}},
      {"nor in time", 4000, 3900, 11'000, {"kill job 7 hard_limit"}},
  };
  for (const auto& row : table) {
    Story story;
    auto job = Job(7, 1000);
    if (row.counted)
      for (auto& [uuid, limit] : job.limits) limit.counted = base::MiB(*row.counted);
    if (row.now > 0) story.Next(0, {Gpu(0, {Process(1, 7, row.used)})}, {job});
    EXPECT_EQ(story.Next(row.now, {Gpu(row.now, {Process(1, 7, row.used)})}, {job}), row.words) << row.what;
  }
}

TEST(HardLimit, TellsAgainWhenItIsPassedAgain) {
  Story story;
  auto job = Job(7, 1000);
  for (auto& [uuid, limit] : job.limits) limit.counted = base::MiB(900);
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 1001)})}, {job}), ElementsAre("tell over_limit job 7"));
  EXPECT_THAT(story.Next(1, {Gpu(1, {Process(1, 7, 1000)})}, {job}), IsEmpty());
  EXPECT_THAT(story.Next(2, {Gpu(2, {Process(1, 7, 1001)})}, {job}), ElementsAre("tell over_limit job 7"));
}

TEST(HardLimit, CountsEachGpuByItself) {
  Story story;
  EXPECT_THAT(
      story.Next(0, {Gpu(0, {Process(1, 7, 900)}, 0), Gpu(0, {Process(1, 7, 900)}, 1)}, {Job(7, 1000)}),
      IsEmpty());
  EXPECT_THAT(
      story.Next(1, {Gpu(0, {Process(1, 7, 900)}, 0), Gpu(1, {Process(1, 7, 1100)}, 1)}, {Job(7, 1000)}),
      ElementsAre("kill job 7 hard_limit"));
  EXPECT_EQ(story.last[0].event.gpu, "GPU-1");
}

TEST(HardLimit, HoldsOnlyOnTheGpusItWasGivenFor) {
  Story story;
  auto job = Job(7, 1000);
  job.limits.erase("GPU-1");
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 5000)}, 1)}, {job}), IsEmpty());
}

TEST(HardLimit, GivesTheReasonWithTheNumbers) {
  Story story;
  story.Next(5, {Gpu(2, {Process(1, 7, 1001)})}, {Job(7, 1000)});
  const Action& action = story.last.at(0);
  EXPECT_TRUE(action.first);
  EXPECT_TRUE(action.note_in_log);
  EXPECT_EQ(action.event.reason, "memory_limit");
  EXPECT_EQ(
      action.event.message,
      "job 7 't7' used 1001MiB (1049624576 bytes) on GPU 0, over its limit of 1000MiB (1048576000 bytes)");
  EXPECT_EQ(action.event.data.at("used"), 1049624576);
  EXPECT_EQ(action.event.data.at("limit"), 1048576000);
  EXPECT_EQ(action.event.data.at("sampled_ns"), At(2).time_since_epoch().count());
  EXPECT_EQ(action.event.data.at("decided_ns"), At(5).time_since_epoch().count());
}

TEST(HardLimit, AsksFirstWhereThereIsAGraceAndKillsWhoIgnoresIt) {
  Story story;
  story.settings.grace = Millis(5000);
  const auto over = [](std::int64_t at) { return std::vector{Gpu(at, {Process(1, 7, 1001)})}; };
  EXPECT_THAT(story.Next(0, over(0), {Job(7, 1000)}), ElementsAre("terminate job 7 hard_limit"));
  EXPECT_EQ(NextDeadline(story.state), At(5000));
  EXPECT_THAT(story.Next(4999, over(4998), {Job(7, 1000)}), IsEmpty());
  EXPECT_THAT(story.Next(5000, over(4998), {Job(7, 1000)}), ElementsAre("kill job 7 sigkill_sent"));
  EXPECT_FALSE(story.last[0].first);
  EXPECT_THAT(story.last[0].event.message, HasSubstr("did not end within 5s of SIGTERM"));
  EXPECT_EQ(NextDeadline(story.state), std::nullopt);
}

TEST(HardLimit, UsesTheJobsOwnGraceBeforeTheCommonOne) {
  Story story;
  story.settings.grace = Millis(5000);
  auto job = Job(7, 1000);
  job.grace = Millis(0);
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 1001)})}, {job}), ElementsAre("kill job 7 hard_limit"));
}

TEST(HardLimit, CarriesThroughWhatItOrderedThoughTheMemoryCameBackOrTheGpuIsLost) {
  Story story;
  story.settings.grace = Millis(1000);
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 1001)})}, {Job(7, 1000)}),
              ElementsAre("terminate job 7 hard_limit"));
  EXPECT_THAT(story.Next(500, {Gpu(500, {Process(1, 7, 10)})}, {Job(7, 1000)}), IsEmpty());
  auto lost = Gpu(500, {});
  lost.ok = false;
  EXPECT_THAT(story.Next(1000, {lost}, {Job(7, 1000)}), ElementsAre("kill job 7 sigkill_sent"));
}

TEST(HardLimit, KillsAgainWhileTheJobStillShowsOnAGpu) {
  Story story;
  const auto over = [](std::int64_t at) { return std::vector{Gpu(at, {Process(1, 7, 1001)})}; };
  EXPECT_THAT(story.Next(0, over(0), {Job(7, 1000)}), ElementsAre("kill job 7 hard_limit"));
  EXPECT_THAT(story.Next(10, over(10), {Job(7, 1000)}), IsEmpty());
  EXPECT_THAT(story.Next(1000, over(0), {Job(7, 1000)}), IsEmpty()) << "no newer look at the GPU";
  EXPECT_THAT(story.Next(1001, over(1000), {Job(7, 1000)}), ElementsAre("kill job 7 again"));
  EXPECT_THAT(story.Next(1500, over(1500), {Job(7, 1000)}), IsEmpty());
  EXPECT_THAT(story.Next(2100, {Gpu(2100, {})}, {Job(7, 1000)}), IsEmpty()) << "gone";
}

TEST(HardLimit, GivesANewRunANewChance) {
  Story story;
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 1001)})}, {Job(7, 1000)}),
              ElementsAre("kill job 7 hard_limit"));
  auto again = Job(7, 1000);
  again.run = 2;
  again.started_at = At(100);
  EXPECT_THAT(story.Next(101, {Gpu(99, {Process(1, 7, 1001)})}, {again}), IsEmpty())
      << "seen before it began";
  EXPECT_THAT(story.Next(200, {Gpu(200, {Process(2, 7, 1001)})}, {again}),
              ElementsAre("kill job 7 hard_limit"));
}

TEST(HardLimit, HoldsForAJobThatSomebodyElseIsEnding) {
  Story story;
  auto job = Job(7, 1000);
  job.ending_since = At(-10);
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 1001)})}, {job}), ElementsAre("kill job 7 hard_limit"));
}

TEST(Samples, ThatFailedOrAreOldDecideNothing) {
  const struct {
    const char* what;
    bool ok;
    std::int64_t taken_at;
    bool killed;
  } table[] = {
      {"fresh", true, 10'000, true},          {"just fresh enough", true, 7'000, true},
      {"stale", true, 6'999, false},          {"failed", false, 10'000, false},
      {"of the future", true, 10'001, false},
  };
  for (const auto& row : table) {
    Story story;
    auto gpu = Gpu(row.taken_at, {Process(1, 7, 5000)});
    gpu.ok = row.ok;
    gpu.reserve = base::MiB(9000);
    EXPECT_EQ(!story.Next(10'000, {gpu}, {Job(7, 1000)}).empty(), row.killed) << row.what;
  }
}

TEST(SoftLimit, IsToldOnceUntilUsageFellWellBelow) {
  Story story;
  const auto with = [&](std::int64_t at, std::uint64_t used) {
    return story.Next(at, {Gpu(at, {Process(1, 7, used)})}, {Job(7, 2000, 1000)});
  };
  EXPECT_THAT(with(0, 1000), IsEmpty());
  EXPECT_THAT(with(1, 1001), ElementsAre("tell soft_limit job 7"));
  EXPECT_TRUE(story.last[0].note_in_log);
  EXPECT_EQ(story.last[0].event.reason, "") << "nothing is ended";
  EXPECT_THAT(with(2, 1500), IsEmpty());
  EXPECT_THAT(with(3, 960), IsEmpty());
  EXPECT_THAT(with(4, 1100), IsEmpty()) << "960 was not below 95 %";
  EXPECT_THAT(with(5, 949), IsEmpty());
  EXPECT_THAT(with(6, 1100), ElementsAre("tell soft_limit job 7"));
}

TEST(SoftLimit, IsNotToldOfAJobThatIsBeingEnded) {
  Story story;
  EXPECT_THAT(story.Next(0, {Gpu(0, {Process(1, 7, 3000)})}, {Job(7, 2000, 1000)}),
              ElementsAre("kill job 7 hard_limit"));
}

TEST(SoftLimit, IsToldAgainAfterItWasTakenAwayAndGivenBack) {
  Story story;
  const std::vector<gpu::AttributedProcess> over = {Process(1, 7, 1500)};
  EXPECT_THAT(story.Next(0, {Gpu(0, over)}, {Job(7, 0, 1000)}), ElementsAre("tell soft_limit job 7"));
  EXPECT_THAT(story.Next(1, {Gpu(1, over)}, {Job(7)}), IsEmpty());
  EXPECT_THAT(story.Next(2, {Gpu(2, over)}, {Job(7, 0, 1000)}), ElementsAre("tell soft_limit job 7"));
}

TEST(UnknownMemory, IsToldOnceOfAJobWithALimit) {
  Story story;
  const std::vector<gpu::AttributedProcess> unknown = {Process(1, 7, std::nullopt),
                                                       Process(2, 8, std::nullopt)};
  EXPECT_THAT(story.Next(0, {Gpu(0, unknown)}, {Job(7, 1000), Job(8)}),
              ElementsAre("tell usage_unknown job 7"));
  EXPECT_THAT(story.Next(1, {Gpu(1, unknown)}, {Job(7, 1000), Job(8)}), IsEmpty());
}

// --- The reserve ---

GpuSnapshot Tight(std::int64_t at, std::uint64_t free, std::vector<gpu::AttributedProcess> processes) {
  auto gpu = Gpu(at, std::move(processes));
  gpu.reserve = base::MiB(500);
  gpu.free = base::MiB(free);
  return gpu;
}

TEST(Reserve, ChoosesOverItsLimitThenLowestPriorityThenUnlimitedThenNewest) {
  struct Candidate {
    std::int64_t id;
    int priority;
    bool over_soft;
    unsigned hard = 0;
  };
  const struct {
    const char* what;
    std::vector<Candidate> jobs;  // ids in order of their start
    std::int64_t victim;
  } table[] = {
      {"the only one", {{1, 128, false}}, 1},
      {"the newest of equals", {{1, 128, false}, {2, 128, false}, {3, 128, false}}, 3},
      {"the lowest priority before the newest", {{1, 10, false}, {2, 128, false}}, 1},
      {"over its soft limit before the lowest priority", {{1, 200, true}, {2, 0, false}, {3, 0, false}}, 1},
      {"the lowest priority of those over", {{1, 50, true}, {2, 40, true}, {3, 0, false}}, 2},
      {"the newest of those", {{1, 50, true}, {2, 50, true}, {3, 0, false}}, 2},
      {"an older one without a limit before one within its own", {{1, 128, false}, {2, 128, false, 2000}}, 1},
      {"the lowest priority before who has no limit", {{1, 10, false, 2000}, {2, 128, false}}, 1},
      {"the newest of those within their limits", {{1, 128, false, 2000}, {2, 128, false, 2000}}, 2},
  };
  for (const auto& row : table) {
    Story story;
    std::vector<gpu::AttributedProcess> processes;
    std::vector<JobSnapshot> jobs;
    for (const auto& one : row.jobs) {
      processes.push_back(Process(static_cast<pid_t>(one.id), one.id, 1000));
      jobs.push_back(Job(one.id, one.hard, one.over_soft ? 900 : 0));
      jobs.back().priority = one.priority;
      story.state.jobs[{one.id}] = {1, {}, {"GPU-0"}, {}};  // over_soft: already told
    }
    EXPECT_THAT(story.Next(0, {Tight(0, 499, processes)}, jobs),
                ElementsAre(fmt::format("kill job {} device_pressure", row.victim)))
        << row.what;
  }
}

TEST(Reserve, LeavesEverybodyAloneWhileItIsFree) {
  Story story;
  EXPECT_THAT(story.Next(0, {Tight(0, 500, {Process(1, 7, 9000)})}, {Job(7)}), IsEmpty());
}

TEST(Reserve, LeavesJobsThatShareTheGpuTimeToMakeRoom) {
  Story story;
  std::vector<JobSnapshot> jobs = {Job(7)};
  jobs[0].shares = true;
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {Process(1, 7, 9000)})}, jobs), IsEmpty());
  EXPECT_THAT(story.Next(9900, {Tight(9900, 100, {Process(1, 7, 9000)})}, jobs), IsEmpty());
  EXPECT_THAT(story.Next(10'000, {Tight(10'000, 100, {Process(1, 7, 9000)})}, jobs),
              ElementsAre("kill job 7 device_pressure"));
}

TEST(Reserve, GivesTheReasonWithTheNumbers) {
  Story story;
  story.Next(0, {Tight(0, 100, {Process(1, 7, 9000)})}, {Job(7)});
  const Event& event = story.last.at(0).event;
  EXPECT_EQ(event.reason, "device_pressure");
  EXPECT_THAT(event.message,
              HasSubstr("GPU 0 had 100MiB (104857600 bytes) free, below its reserve of 500MiB"));
  EXPECT_THAT(event.message, HasSubstr("ended job 7 't7' with 8.8GiB"));
  EXPECT_THAT(event.message, HasSubstr("priority 128, the newest of the lowest"));
}

TEST(Reserve, TakesOneVictimAtATimeAndWaitsForItsMemory) {
  Story story;
  const std::vector<JobSnapshot> jobs = {Job(1), Job(2), Job(3)};
  const auto p1 = Process(1, 1, 3000), p2 = Process(2, 2, 3000), p3 = Process(3, 3, 3000);
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {p1, p2, p3})}, jobs), ElementsAre("kill job 3 device_pressure"));
  EXPECT_THAT(story.Next(50, {Tight(50, 100, {p1, p2, p3})}, jobs), IsEmpty()) << "still there";
  EXPECT_THAT(story.Next(100, {Tight(100, 100, {p1, p2})}, jobs), IsEmpty()) << "gone, memory on its way";
  EXPECT_THAT(story.Next(349, {Tight(349, 100, {p1, p2})}, jobs), IsEmpty());
  EXPECT_THAT(story.Next(350, {Tight(350, 100, {p1, p2})}, jobs), ElementsAre("kill job 2 device_pressure"));
  EXPECT_THAT(story.Next(400, {Tight(400, 4000, {p1})}, jobs), IsEmpty()) << "enough";
}

TEST(Reserve, DoesNotWaitForEverForAVictimThatCannotEnd) {
  Story story;
  const std::vector<JobSnapshot> jobs = {Job(1), Job(2)};
  const auto p1 = Process(1, 1, 3000), p2 = Process(2, 2, 3000);
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {p1, p2})}, jobs), ElementsAre("kill job 2 device_pressure"));
  EXPECT_THAT(story.Next(9999, {Tight(9999, 100, {p1, p2})}, jobs), ElementsAre("kill job 2 again"));
  EXPECT_THAT(story.Next(10000, {Tight(10000, 100, {p1, p2})}, jobs), IsEmpty());
  EXPECT_THAT(story.Next(10250, {Tight(10250, 100, {p1, p2})}, jobs),
              ElementsAre("kill job 1 device_pressure"));
}

TEST(Reserve, WaitsForMemoryOfAJobThatIsEndedForItsLimit) {
  Story story;
  const auto p1 = Process(1, 1, 3000), p2 = Process(2, 2, 3000);
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {p1, p2})}, {Job(1, 1000), Job(2)}),
              ElementsAre("kill job 1 hard_limit"));
  EXPECT_THAT(story.Next(50, {Tight(50, 100, {p2})}, {Job(1, 1000), Job(2)}), IsEmpty());
  EXPECT_THAT(story.Next(300, {Tight(300, 100, {p2})}, {Job(1, 1000), Job(2)}),
              ElementsAre("kill job 2 device_pressure"));
}

TEST(Reserve, WaitsAWhileForAJobThatSomebodyElseIsEnding) {
  Story story;
  auto ending = Job(2);
  ending.ending_since = At(-5000);
  const auto p1 = Process(1, 1, 3000), p2 = Process(2, 2, 3000);
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {p1, p2})}, {Job(1), ending}), IsEmpty());
  EXPECT_THAT(story.Next(4999, {Tight(4999, 100, {p1, p2})}, {Job(1), ending}), IsEmpty());
  EXPECT_THAT(story.Next(5001, {Tight(5001, 100, {p1, p2})}, {Job(1), ending}), IsEmpty()) << "settling";
  EXPECT_THAT(story.Next(5300, {Tight(5300, 100, {p1, p2})}, {Job(1), ending}),
              ElementsAre("kill job 1 device_pressure"));
}

TEST(Reserve, NeverTouchesWhatGpumanDoesNotManageUnlessToldTo) {
  auto xorg = Process(50, std::nullopt, 300, 0);
  xorg.name = "Xorg";
  auto shell = Process(51, std::nullopt, 300, 1000);
  shell.name = "gnome-shell";
  shell.kind = gpu::ProcessKind::kGraphics;
  auto pretender = Process(52, std::nullopt, 300, 1000);
  pretender.name = "Xorg";
  auto ended = Process(53, std::nullopt, 300);
  ended.id.start_time = 0;
  const auto stranger = Process(54, std::nullopt, 300), newer = Process(55, std::nullopt, 300);
  const auto job = Process(1, 7, 300);
  const struct {
    const char* what;
    bool configured;
    std::vector<gpu::AttributedProcess> processes;
    std::string action;
  } table[] = {
      {"a stranger", false, {stranger}, "tell device_pressure_unrelieved"},
      {"a job beside a stranger", false, {stranger, job}, "kill job 7 device_pressure"},
      {"a stranger where configured", true, {stranger}, "kill process 54 device_pressure"},
      {"strangers before jobs", true, {job, stranger}, "kill process 54 device_pressure"},
      {"the newest stranger", true, {newer, stranger}, "kill process 55 device_pressure"},
      {"root's display server", true, {xorg}, "tell device_pressure_unrelieved"},
      {"a user's display server", true, {shell}, "tell device_pressure_unrelieved"},
      {"who only calls itself one", true, {pretender}, "kill process 52 device_pressure"},
      {"one we could not look at", true, {ended}, "tell device_pressure_unrelieved"},
  };
  for (const auto& row : table) {
    Story story;
    story.settings.unmanaged_victims = row.configured;
    EXPECT_THAT(story.Next(0, {Tight(0, 100, row.processes)}, {Job(7)}), ElementsAre(row.action)) << row.what;
    EXPECT_THAT(story.Next(1, {Tight(1, 100, row.processes)}, {Job(7)}), IsEmpty()) << row.what;
  }
}

TEST(Reserve, IsNotHeldWhereItIsAsLargeAsTheGpu) {
  Story story;
  auto gpu = Tight(0, 100, {Process(1, 7, 9000)});
  gpu.reserve = gpu.total;
  EXPECT_THAT(story.Next(0, {gpu}, {Job(7)}), ElementsAre("tell device_pressure_unrelieved"));
  EXPECT_THAT(story.last[0].event.message, HasSubstr("not smaller than the GPU"));
}

TEST(Reserve, LeavesGpumansOwnProcessesAlone) {
  Story story;
  story.settings.unmanaged_victims = true;
  auto mover = Process(54, std::nullopt, 300);
  mover.ours = true;
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {mover})}, {}), ElementsAre("tell device_pressure_unrelieved"));
}

TEST(Reserve, TellsAgainThatNobodyCanBeEndedOnlyAfterItWasFree) {
  Story story;
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {})}, {}), ElementsAre("tell device_pressure_unrelieved"));
  EXPECT_THAT(story.Next(1, {Tight(1, 100, {})}, {}), IsEmpty());
  EXPECT_THAT(story.Next(2, {Tight(2, 600, {})}, {}), IsEmpty());
  EXPECT_THAT(story.Next(3, {Tight(3, 100, {})}, {}), ElementsAre("tell device_pressure_unrelieved"));
}

TEST(Reserve, MayChooseAJobWhoseMemoryIsUnknownButNoneWithoutAny) {
  Story story;
  EXPECT_THAT(story.Next(0, {Tight(0, 100, {Process(1, 7, std::nullopt), Process(2, 8, 0)})},
                         {Job(7), Job(8), Job(9)}),
              ElementsAre("kill job 7 device_pressure"));
}

// --- Suspension for the reserve ---

// A reserve of 1000 on a GPU of 10000, and jobs that leave it.
struct PressureStory : Story {
  PressureStory() { settings.on_pressure = OnPressure::kSuspend; }

  // `free` follows from the processes on the GPU.
  std::vector<std::string> Observe(std::int64_t now, std::vector<gpu::AttributedProcess> processes) {
    auto gpu = Gpu(now, std::move(processes));
    gpu.reserve = base::MiB(1000);
    return Next(now, {gpu}, jobs);
  }
  JobSnapshot& Of(std::int64_t id) {
    return *std::find_if(jobs.begin(), jobs.end(), [&](const auto& job) { return job.id == JobId{id}; });
  }
  void Residency(std::int64_t id, JobResidency residency, std::int64_t now) {
    Of(id).residency = residency;
    Of(id).residency_since = At(now);
  }
  // Lets a job leave when it is asked to, and come back.
  void Leave(std::int64_t id, std::int64_t now) {
    Residency(id, JobResidency::kOff, now);
    Observe(now, {Process(2, 8, 4000)});
  }
  void Return(std::int64_t id, std::int64_t now) {
    Residency(id, JobResidency::kOnGpu, now);
    Observe(now, {Process(1, 7, 2000), Process(2, 8, 4000)});
  }

  const std::vector<gpu::AttributedProcess> full{Process(1, 7, 4000), Process(2, 8, 4000),
                                                 Process(3, std::nullopt, 1500)};
  std::vector<JobSnapshot> jobs = [] {
    std::vector<JobSnapshot> both{Job(7), Job(8)};
    both[0].priority = 10;
    return both;
  }();
};

TEST(Pressure, SuspendsWhomItWouldEndWithTheNumbers) {
  PressureStory story;
  EXPECT_THAT(story.Observe(0, story.full), ElementsAre("suspend job 7 for 10s"));
  const auto& action = story.last.front();
  EXPECT_EQ(action.event.kind, kPressureSuspend);
  EXPECT_EQ(action.event.reason, "device_pressure");
  EXPECT_THAT(action.event.message,
              HasSubstr("GPU 0 had 500MiB (524288000 bytes) free, below its reserve of 1000MiB"));
  EXPECT_THAT(action.event.message,
              HasSubstr("suspended job 7 't7' with 3.9GiB (4194304000 bytes) (priority 10"));
  EXPECT_EQ(action.event.data.at("used"), 4'194'304'000);
  EXPECT_EQ(action.event.data.at("return_after_ms"), 10'000);
}

TEST(Pressure, WaitsForWhoLeavesAndThenForItsMemoryBeforeTheNext) {
  PressureStory story;
  story.Observe(0, story.full);
  story.Residency(7, JobResidency::kLeaving, 0);
  EXPECT_THAT(story.Observe(30'000, story.full), IsEmpty());
  story.Residency(7, JobResidency::kOff, 40'000);
  EXPECT_THAT(story.Observe(40'010, story.full), IsEmpty()) << "its memory comes back";
  // The rest of its memory on the GPU is no reason to choose the job again, nor to end it.
  const std::vector<gpu::AttributedProcess> later{Process(1, 7, 4), Process(2, 8, 4000),
                                                  Process(3, std::nullopt, 5500)};
  EXPECT_THAT(story.Observe(41'000, later), ElementsAre("suspend job 8 for 10s"));
  story.Residency(8, JobResidency::kOff, 42'000);
  EXPECT_THAT(story.Observe(43'000, {Process(1, 7, 4), Process(3, std::nullopt, 9500)}), IsEmpty());
  EXPECT_THAT(story.Observe(44'000, {Process(1, 7, 4), Process(3, std::nullopt, 9500)}),
              ElementsAre("tell device_pressure_unrelieved"));
}

TEST(Pressure, WaitsForAJobThatIsNotListedWhileTheMoverCopiesItsMemory) {
  PressureStory story;
  EXPECT_THAT(story.Observe(0, story.full), ElementsAre("suspend job 7 for 10s"));
  story.Residency(7, JobResidency::kLeaving, 0);
  // Once it is checkpointed, its memory is listed with the mover, which is gpuman's own.
  auto mover = Process(9, std::nullopt, 4000);
  mover.ours = true;
  const std::vector<gpu::AttributedProcess> copying{mover, Process(2, 8, 4000),
                                                    Process(3, std::nullopt, 1500)};
  EXPECT_THAT(story.Observe(1000, copying), IsEmpty());
  EXPECT_THAT(story.Observe(5000, copying), IsEmpty()) << "its memory is still on the GPU";
  story.Residency(7, JobResidency::kOff, 6000);
  EXPECT_THAT(story.Observe(6010, {Process(2, 8, 4000), Process(3, std::nullopt, 1500)}), IsEmpty());
}

TEST(Pressure, SuspendsIdleJobsBeforeAllOthersWhateverIsSet) {
  for (const auto set : {OnPressure::kSuspend, OnPressure::kEnd}) {
    PressureStory story;
    story.settings.on_pressure = set;
    story.Of(8).idle = true;  // the more important one
    EXPECT_THAT(story.Observe(0, story.full), ElementsAre("suspend job 8 for 10s"));
    EXPECT_EQ(story.last.front().event.reason, "idle");
    EXPECT_THAT(story.last.front().event.message, HasSubstr("(idle)"));
  }
}

TEST(Pressure, AnIdleJobThatCannotLeaveIsChosenAsAnyOther) {
  PressureStory story;
  story.Of(8).idle = true;
  story.Of(8).left["GPU-0"] = base::MiB(4000);
  EXPECT_THAT(story.Observe(0, story.full), ElementsAre("suspend job 7 for 10s"));
}

TEST(Pressure, EndsWhoCannotBeSuspended) {
  PressureStory story;
  story.Observe(0, story.full);
  story.Of(7).refusal = {At(500), "old driver"};
  EXPECT_THAT(story.Observe(500, story.full), IsEmpty()) << "the memory of whoever leaves has its time";
  EXPECT_THAT(story.Observe(1000, story.full), ElementsAre("kill job 7 device_pressure"));
  EXPECT_THAT(
      story.last.front().event.message,
      HasSubstr("ended job 7 't7' with 3.9GiB (4194304000 bytes) (priority 10, the newest of the lowest), "
                "which could not be suspended: old driver"));
}

TEST(Pressure, EndsWhoIsNotOffTheGpuInTime) {
  PressureStory story;
  story.Observe(0, story.full);
  story.Residency(7, JobResidency::kLeaving, 0);
  EXPECT_THAT(story.Observe(59'000, story.full), IsEmpty());
  story.Observe(60'000, story.full);
  EXPECT_THAT(story.Observe(61'000, story.full), ElementsAre("kill job 7 device_pressure"));
  EXPECT_THAT(story.last.front().event.message, HasSubstr("it was not off the GPU within 1m"));
}

TEST(Pressure, EndsNobodyWhoCouldNotLeaveOnceItIsOver) {
  PressureStory story;
  story.Observe(0, story.full);
  story.Of(7).refusal = {At(100), "busy"};
  EXPECT_THAT(story.Observe(1000, {Process(1, 7, 4000), Process(2, 8, 4000)}), IsEmpty());
  EXPECT_THAT(story.Observe(310'000, story.full), ElementsAre("suspend job 7 for 10s"))
      << "a new chance, later";
}

TEST(Pressure, EndsWhoCouldNotComeBack) {
  PressureStory alone;
  alone.settings.unmanaged_victims = false;
  EXPECT_THAT(alone.Observe(0, {Process(1, 7, 9500)}), ElementsAre("kill job 7 device_pressure"));
  EXPECT_THAT(alone.last.front().event.message, HasSubstr("more than GPU 0 has, so it could not come back"));
  PressureStory unknown;
  EXPECT_THAT(unknown.Observe(0, {Process(1, 7, std::nullopt), Process(2, 8, 9500)}),
              ElementsAre("kill job 7 device_pressure"));
}

// Jobs 7 and 8 with 4000 MiB each; 500 MiB are missing, and so much of a job would stay.
struct Staying : PressureStory {
  explicit Staying(std::uint64_t left7, std::uint64_t left8 = 0, int priority8 = 10) {
    if (left7 > 0) Of(7).left = {{"GPU-0", base::MiB(left7)}};
    if (left8 > 0) Of(8).left = {{"GPU-0", base::MiB(left8)}};
    Of(8).priority = priority8;
    Of(7).started_at = At(-1);  // so it goes before job 8 of the same priority
  }
};

TEST(Pressure, SuspendsWhoLeavesEnoughWhateverStays) {
  Staying story(3500);
  EXPECT_THAT(story.Observe(0, story.full), ElementsAre("suspend job 7 for 10s"));
  EXPECT_EQ(story.last.front().event.data.at("left"), 3'670'016'000);
  Staying other_gpu(0);
  other_gpu.Of(7).left = {{"GPU-1", base::MiB(4000)}};
  EXPECT_THAT(other_gpu.Observe(0, other_gpu.full), ElementsAre("suspend job 7 for 10s"));
}

TEST(Pressure, SuspendsAnotherThatIsNoMoreImportantWhereTooMuchWouldStay) {
  Staying story(3501);
  EXPECT_THAT(story.Observe(0, story.full), ElementsAre("suspend job 8 for 10s"));
  EXPECT_THAT(story.last.front().event.message,
              HasSubstr("suspended job 8 't8' with 3.9GiB (4194304000 bytes) (priority 10, the newest of the "
                        "lowest), and not job 7 't7': 3.4GiB of it would stay on GPU 0"));
}

TEST(Pressure, EndsWhoWouldStayBeforeAMoreImportantJobLeaves) {
  Staying story(3501, 0, 128);
  EXPECT_THAT(story.Observe(0, story.full), ElementsAre("kill job 7 device_pressure"));
  EXPECT_THAT(story.last.front().event.message,
              HasSubstr("as its suspension would not help: 3.4GiB of it would stay on GPU 0"));
  EXPECT_EQ(story.last.front().event.data.at("left"), 3'671'064'576);
}

TEST(Pressure, SuspendsSeveralOfWhichMuchStaysWhereThatIsEnough) {
  Staying both(3700, 3800);
  EXPECT_THAT(both.Observe(0, both.full), ElementsAre("suspend job 7 for 10s"));
  both.Residency(7, JobResidency::kOff, 10);
  const std::vector<gpu::AttributedProcess> then{Process(1, 7, 3700), Process(2, 8, 4000),
                                                 Process(3, std::nullopt, 1500)};
  both.Observe(20, then);
  EXPECT_THAT(both.Observe(1000, then), ElementsAre("suspend job 8 for 10s"));
  Staying nothing(4000, 3400);
  EXPECT_THAT(nothing.Observe(0, nothing.full), ElementsAre("suspend job 8 for 10s"));
  Staying too_little(3700, 3900);
  EXPECT_THAT(too_little.Observe(0, too_little.full), ElementsAre("kill job 7 device_pressure"));
}

TEST(Pressure, EndsNobodyForWhatStaysWhereTheEndOfAllWouldNotHelpEither) {
  Staying story(150, 150);
  EXPECT_THAT(story.Observe(0, {Process(1, 7, 200), Process(2, 8, 200), Process(3, std::nullopt, 9500)}),
              ElementsAre("suspend job 7 for 10s"));
}

TEST(Pressure, TellsWhatStaysOfSuspendedJobsWhereNothingMayBeEnded) {
  Staying story(3000);
  story.Residency(7, JobResidency::kOff, 0);
  EXPECT_THAT(story.Observe(0, {Process(1, 7, 3000), Process(3, std::nullopt, 6500)}),
              ElementsAre("tell device_pressure_unrelieved"));
  EXPECT_THAT(story.last.front().event.message, HasSubstr("; 2.9GiB of suspended job 7 't7' stay there"));
}

TEST(Pressure, MemoryThatStaysMakesNoRoomForTheReturn) {
  Staying story(3000);
  EXPECT_THAT(story.Observe(0, {Process(1, 7, 9500)}), ElementsAre("kill job 7 device_pressure"));
  EXPECT_THAT(story.last.front().event.message, HasSubstr("so it could not come back"));
}

TEST(Pressure, LeavesAloneWhomSomebodyElseSuspends) {
  PressureStory story;
  story.Residency(7, JobResidency::kLeaving, 0);
  EXPECT_THAT(story.Observe(10, story.full), IsEmpty()) << "its memory comes back";
  story.Residency(7, JobResidency::kOff, 20);
  story.Observe(20, story.full);
  EXPECT_THAT(story.Observe(1000, story.full), ElementsAre("suspend job 8 for 10s"));
  PressureStory ends;
  ends.settings.on_pressure = OnPressure::kEnd;
  ends.Residency(7, JobResidency::kOff, 0);
  EXPECT_THAT(ends.Observe(10, ends.full), ElementsAre("kill job 8 device_pressure"))
      << "a suspended job has nothing to give";
}

TEST(Pressure, SuspendsNothingThatIsNotAJob) {
  PressureStory story;
  EXPECT_THAT(story.Observe(0, {Process(3, std::nullopt, 9500)}),
              ElementsAre("tell device_pressure_unrelieved"));
  PressureStory may;
  may.settings.unmanaged_victims = true;
  EXPECT_THAT(may.Observe(0, may.full), ElementsAre("kill process 3 device_pressure"));
}

TEST(Pressure, LetsAJobThatHasToLeaveAgainAndAgainStayAwayLonger) {
  PressureStory story;
  std::vector<std::string> said;
  std::int64_t now = 0;
  for (int i = 0; i < 8; ++i) {
    for (const auto& word : story.Observe(now, story.full)) said.push_back(word);
    story.Leave(7, now + 1000);
    story.Return(7, now + 20'000);
    now += 60'000;
  }
  EXPECT_THAT(said, ElementsAre("suspend job 7 for 10s", "suspend job 7 for 20s", "suspend job 7 for 40s",
                                "suspend job 7 for 1m20s", "suspend job 7 for 2m40s",
                                "suspend job 7 for 5m20s", "suspend job 7 for 10m", "suspend job 7 for 10m"));
  EXPECT_THAT(story.Observe(now + 400'000, story.full), ElementsAre("suspend job 7 for 10s"))
      << "after a calm";
  story.jobs[0].run = 2;
  story.Observe(now + 401'000, story.full);
  EXPECT_THAT(story.Observe(now + 402'000, story.full), ElementsAre("suspend job 7 for 10s")) << "a new run";
}

TEST(Unmanaged, HoldsEachUserToTheRuleForThem) {
  const UnmanagedRule warn_all{std::nullopt, {base::MiB(1000)}, UnmanagedMode::kWarn};
  const UnmanagedRule hold_all{std::nullopt, {base::MiB(1000)}, UnmanagedMode::kEnforce};
  const UnmanagedRule hold_1000{uid_t{1000}, {{}, 50}, UnmanagedMode::kEnforce};
  const UnmanagedRule hold_root{uid_t{0}, {base::MiB(1000)}, UnmanagedMode::kEnforce};
  const auto none = std::nullopt;
  auto xorg = Process(9, none, 5000, 0);
  xorg.name = "Xorg";
  auto mover = Process(9, none, 5000);
  mover.ours = true;
  const struct {
    const char* what;
    std::vector<UnmanagedRule> rules;
    std::vector<gpu::AttributedProcess> processes;
    std::vector<std::string> actions;
  } table[] = {
      {"no rule", {}, {Process(1, none, 9000)}, {}},
      {"at the ceiling", {hold_all}, {Process(1, none, 1000)}, {}},
      {"above, warned", {warn_all}, {Process(1, none, 1001)}, {"tell unmanaged_warning"}},
      {"above, ended", {hold_all}, {Process(1, none, 1001)}, {"kill process 1 unmanaged_limit"}},
      {"the newest of a user's",
       {hold_all},
       {Process(1, none, 600), Process(2, none, 600)},
       {"kill process 2 unmanaged_limit"}},
      {"two users are two sums", {hold_all}, {Process(1, none, 600, 1000), Process(2, none, 600, 1001)}, {}},
      {"a user's own rule first", {hold_all, hold_1000}, {Process(1, none, 4000, 1000)}, {}},
      {"a percentage", {hold_1000}, {Process(1, none, 5001, 1000)}, {"kill process 1 unmanaged_limit"}},
      {"a job is not outside", {hold_all}, {Process(1, 7, 5000)}, {}},
      {"root has no rule by default", {hold_all}, {Process(1, none, 5000, 0)}, {}},
      {"root with a rule", {hold_root}, {Process(1, none, 5000, 0)}, {"kill process 1 unmanaged_limit"}},
      {"root's display server never", {hold_root}, {xorg}, {}},
      {"gpuman's own never", {hold_all}, {mover, Process(1, none, 1000)}, {}},
      {"unknown memory is not above", {hold_all}, {Process(1, none, none)}, {}},
  };
  for (const auto& row : table) {
    Story story;
    story.settings.unmanaged = row.rules;
    EXPECT_EQ(story.Next(0, {Gpu(0, row.processes)}, {Job(7)}), row.actions) << row.what;
    EXPECT_THAT(story.Next(1, {Gpu(1, row.processes)}, {Job(7)}), IsEmpty()) << row.what << ", once";
  }
}

TEST(Unmanaged, EndsOneProcessAfterTheOther) {
  Story story;
  story.settings.unmanaged = {{std::nullopt, {base::MiB(1000)}, UnmanagedMode::kEnforce}};
  const auto p1 = Process(1, std::nullopt, 900), p2 = Process(2, std::nullopt, 900),
             p3 = Process(3, std::nullopt, 900);
  EXPECT_THAT(story.Next(0, {Gpu(0, {p1, p2, p3})}, {}), ElementsAre("kill process 3 unmanaged_limit"));
  EXPECT_THAT(story.Next(5, {Gpu(5, {p1, p2, p3})}, {}), IsEmpty());
  EXPECT_THAT(story.Next(10, {Gpu(10, {p1, p2})}, {}), ElementsAre("kill process 2 unmanaged_limit"));
  EXPECT_THAT(story.Next(15, {Gpu(15, {p1})}, {}), IsEmpty());
}

TEST(Unmanaged, GivesTheGraceToo) {
  Story story;
  story.settings.grace = Millis(100);
  story.settings.unmanaged = {{std::nullopt, {base::MiB(1000)}, UnmanagedMode::kEnforce}};
  const auto process = Process(1, std::nullopt, 2000);
  EXPECT_THAT(story.Next(0, {Gpu(0, {process})}, {}), ElementsAre("terminate process 1 unmanaged_limit"));
  EXPECT_THAT(story.Next(100, {Gpu(0, {process})}, {}), ElementsAre("kill process 1 sigkill_sent"));
}

TEST(Unmanaged, WarnsAgainAfterUsageFell) {
  Story story;
  story.settings.unmanaged = {{std::nullopt, {base::MiB(1000)}, UnmanagedMode::kWarn}};
  const auto with = [&](std::int64_t at, std::uint64_t used) {
    return story.Next(at, {Gpu(at, {Process(1, std::nullopt, used)})}, {});
  };
  EXPECT_THAT(with(0, 1100), ElementsAre("tell unmanaged_warning"));
  EXPECT_THAT(with(1, 960), IsEmpty());
  EXPECT_THAT(with(2, 1100), IsEmpty());
  EXPECT_THAT(with(3, 900), IsEmpty());
  EXPECT_THAT(with(4, 1100), ElementsAre("tell unmanaged_warning"));
}

}  // namespace
}  // namespace gpuman::guard
