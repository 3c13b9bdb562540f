#include "cli/views.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/nearest.h"
#include "cli/share_views.h"
#include "cli/table.h"

namespace gpuman::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr TerminalStyle kPipe{};
constexpr TerminalStyle kTerminal{true, false, 80};
constexpr TerminalStyle kColors{true, true, 80};

base::WallTime At(int seconds) { return base::WallTime(std::chrono::seconds(1'800'000'000 + seconds)); }

api::GpuView H200() {
  api::GpuView gpu;
  gpu.index = 0;
  gpu.uuid = "GPU-11111111-2222-3333-4444-555555555555";
  gpu.name = "NVIDIA H200";
  gpu.memory = api::MemoryView{base::MiB(143771), base::MiB(71000), base::MiB(72000), base::MiB(771)};
  gpu.utilization_gpu = 87;
  gpu.utilization_memory = 40;
  gpu.temperature_c = 54;
  gpu.power_w = 512.4;
  gpu.processes.push_back({4711, "lab1", "python", base::GiB(69), 1, "train", {"python", "train.py"}});
  gpu.processes.push_back({12, {}, {}, {}, {}, {}, {}});
  return gpu;
}

api::GpuView Laptop() {
  api::GpuView gpu;
  gpu.index = 1;
  gpu.uuid = "GPU-aaaaaaaa-2222-3333-4444-555555555555";
  gpu.name = "NVIDIA GeForce RTX 4050 Laptop GPU";
  gpu.health = {"unhealthy", {"Xid 79: the GPU fell off the bus; power-cycle the machine"}};
  return gpu;
}

api::JobView Training() {
  api::JobView job;
  job.id = 1;
  job.tag = "train";
  job.user = "lab1";
  job.state = spec::JobState::kRunning;
  job.pid = 4711;
  job.gpus = {H200().uuid};
  job.command = {"python", "train.py", "--name", "a b"};
  job.memory = {base::GiB(80), std::nullopt, base::GiB(69), base::GiB(70), std::nullopt};
  job.started_at = At(0);
  return job;
}

api::JobView Hog() {
  api::JobView job;
  job.id = 12;
  job.tag = "test_cuda_app";
  job.user = "someone-else";
  job.state = spec::JobState::kKilled;
  job.reason = "memory_limit";
  job.reason_detail = "it used 612MiB on GPU 0 where its limit is 512MiB";
  job.gpus = {H200().uuid, Laptop().uuid};
  job.command = {"/home/someone-else/build/cuda_mem_stable"};
  job.memory = {base::MiB(512), std::nullopt, std::nullopt, base::MiB(612), std::nullopt};
  job.signal = 9;
  job.started_at = At(-100);
  job.ended_at = At(-40);
  return job;
}

TEST(RenderStatus, ShowsEverythingOnAPipe) {
  const api::StatusView status{{H200(), Laptop()}, {Training(), Hog()}, {}};
  EXPECT_EQ(
      RenderStatus(status, kPipe, At(3725)),
      "GPU  NAME                                MEMORY              UTIL  TEMP  POWER  HEALTH\n"
      "0    NVIDIA H200                         69.3GiB / 140.4GiB   87%   54C   512W  healthy\n"
      "1    NVIDIA GeForce RTX 4050 Laptop GPU  n/a                  n/a   n/a    n/a  unhealthy\n"
      "\n"
      "ID  TAG            USER          STATE                  GPU  MEMORY   LIMIT    PEAK   TIME  COMMAND\n"
      " 1  train          lab1          running                0     69GiB   80GiB   70GiB  1h02m  python "
      "train.py --name 'a b'\n"
      "12  test_cuda_app  someone-else  killed (memory_limit)  all     n/a  512MiB  612MiB     1m  "
      "/home/someone-else/build/cuda_mem_stable\n"
      "\n"
      "GPU 1: Xid 79: the GPU fell off the bus; power-cycle the machine\n"
      "job 12 test_cuda_app: it used 612MiB on GPU 0 where its limit is 512MiB\n");
}

TEST(RenderStatus, FitsATerminalOf80Columns) {
  const api::StatusView status{{H200(), Laptop()}, {Training(), Hog()}, {}};
  EXPECT_EQ(RenderStatus(status, kTerminal, At(3725)),
            "GPU  NAME          MEMORY                           UTIL  TEMP  POWER  HEALTH\n"
            "0    NVIDIA H200   [#####     ] 69.3GiB / 140.4GiB   87%   54C   512W  healthy\n"
            "1    NVIDIA GeFo…  n/a                               n/a   n/a    n/a  unhealthy\n"
            "\n"
            "ID  TAG            USER      STATE         GPU  MEMORY   LIMIT   TIME  COMMAND\n"
            " 1  train          lab1      running       0     69GiB   80GiB  1h02m  python t…\n"
            "12  test_cuda_app  someone…  killed (mem…  all     n/a  512MiB     1m  /home/so…\n"
            "\n"
            "GPU 1: Xid 79: the GPU fell off the bus; power-cycle the machine\n"
            "job 12 test_cuda_app: it used 612MiB on GPU 0 where its limit is 512MiB\n");
}

TEST(RenderStatus, ColoursOnlyWhereAsked) {
  const api::StatusView status{{H200()}, {Training()}, {}};
  EXPECT_THAT(RenderStatus(status, kTerminal, At(0)), Not(HasSubstr("\033")));
  EXPECT_THAT(RenderStatus(status, kColors, At(0)), HasSubstr("\033[32mrunning\033[0m"));
}

TEST(RenderStatus, OnlyAJobThatHasGpusShowsSome) {
  const std::vector<std::string> both{H200().uuid, Laptop().uuid};
  struct Row {
    spec::JobState state;
    std::vector<std::string> gpus;
    bool started;
    const char* shown;
  };
  for (const auto& [state, gpus, started, shown] :
       std::vector<Row>{{spec::JobState::kQueued, {}, false, "- "},
                        {spec::JobState::kHeld, {}, false, "- "},
                        {spec::JobState::kStarting, {H200().uuid}, false, "0"},
                        {spec::JobState::kRunning, both, true, "all"},
                        {spec::JobState::kRunning, {}, true, "none"},
                        {spec::JobState::kFinished, both, true, "all"},
                        {spec::JobState::kFinished, {}, true, "none"},
                        {spec::JobState::kCancelled, {}, false, "- "},
                        {spec::JobState::kCancelled, {H200().uuid}, true, "0"},
                        {spec::JobState::kFailed, both, false, "- "}}) {
    api::JobView job = Training();
    job.gpus = gpus;
    job.state = state;
    if (!started) job.started_at.reset();
    EXPECT_THAT(RenderStatus({{H200(), Laptop()}, {job}, {}}, kPipe, At(3725)),
                ::testing::ContainsRegex("lab1 +[a-z]+ +" + std::string(shown)));
  }
}

TEST(RenderStatus, AScriptThatWasCopiedIsShownAsOne) {
  auto job = Training();
  job.command = {"/bin/bash", "{script}", "a b"};
  EXPECT_THAT(RenderStatus({{}, {job}, {}}, kPipe, At(0)), HasSubstr("/bin/bash (its script) 'a b'"));
}

TEST(RenderStatus, AStateThatSaysWhyIsSaidOnce) {
  auto job = Training();
  job.state = spec::JobState::kCancelled;
  job.reason = "cancelled";
  EXPECT_EQ(StateText(job), "cancelled");
  job.reason = "dependency";
  EXPECT_EQ(StateText(job), "cancelled (dependency)");
}

TEST(RenderStatus, JobsThatWaitAndCameTogetherAreOneLine) {
  api::StatusView status;
  const auto add = [&](std::int64_t id, const std::string& tag, spec::JobState state, int submitted) {
    api::JobView job;
    job.id = id;
    job.tag = tag;
    job.user = "lab1";
    job.state = state;
    job.submitted_at = At(submitted);
    job.command = {"train"};
    status.jobs.push_back(job);
  };
  add(1, "arr", spec::JobState::kRunning, 0);
  for (int id = 2; id <= 30; ++id) add(id, "arr", spec::JobState::kQueued, 0);
  for (int id = 31; id <= 60; ++id) add(id, fmt::format("lr-{}", id - 30), spec::JobState::kQueued, 1);
  add(61, "alone", spec::JobState::kQueued, 2);
  add(62, "held", spec::JobState::kHeld, 2);
  for (std::size_t i = 30; i < 60; ++i) {
    const auto number = fmt::to_string(i);
    status.jobs[i].command = {"python", "train it.py", "--lr=0." + number, "--seed", number};
  }
  const auto text = RenderStatus(status, kPipe, At(5));
  EXPECT_THAT(text, HasSubstr("  python 'train it.py' --lr=… --seed …\n"))
      << "what all of them have in common";
  EXPECT_THAT(text, HasSubstr("  train\n"));
  EXPECT_THAT(text, HasSubstr(" 2-30  arr (29)   lab1  queued   -   "));
  EXPECT_THAT(text, HasSubstr("31-60  lr-* (30)  lab1  queued   -   "));
  for (const char* own : {"    1  arr ", "   61  alone ", "   62  held "}) EXPECT_THAT(text, HasSubstr(own));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8) << text;
}

// Job `id` of a sweep: all were submitted together.
api::JobView OfSweep(int id) {
  api::JobView job;
  job.id = id;
  job.tag = fmt::format("lr-{}", id);
  job.user = "lab1";
  job.submitted_at = At(0);
  return job;
}

TEST(RenderStatus, ALineOfASweepHasTheSweepsNameAndWhatItsCommandsHaveInCommon) {
  api::StatusView status;
  for (int id = 1; id <= 12; ++id) {
    api::JobView job = OfSweep(id);
    job.state = id < 10 ? spec::JobState::kRunning : spec::JobState::kQueued;
    job.command = {"train", "--long"};
    if (id == 11) job.command = {"train"};
    status.jobs.push_back(job);
  }
  const auto text = RenderStatus(status, kPipe, At(5));
  EXPECT_THAT(text, HasSubstr("10-12  lr-* (3) ")) << "not lr-1*, which would be others, too";
  EXPECT_THAT(text, HasSubstr("  train …\n"));
  for (auto& job : status.jobs) job.tag = job.id == 12 ? "other" : "lr";
  EXPECT_THAT(RenderStatus(status, kPipe, At(5)), HasSubstr("10-12  (3 jobs) "));
}

TEST(RenderStatus, TheIdsOfALineAreThoseOfItsJobsAlone) {
  api::StatusView status;
  for (int id = 2; id <= 21; ++id) {
    if (id == 4) continue;  // somebody else's
    api::JobView job = OfSweep(id);
    job.state = spec::JobState::kQueued;
    job.command = {"train"};
    status.jobs.push_back(job);
  }
  EXPECT_THAT(RenderStatus(status, kPipe, At(5)), HasSubstr("2-3,5-21  lr-* (19) "));
  const auto odd = [](const auto& job) { return job.id % 2 != 0; };
  status.jobs.erase(std::remove_if(status.jobs.begin(), status.jobs.end(), odd), status.jobs.end());
  EXPECT_THAT(RenderStatus(status, kPipe, At(5)), HasSubstr("2…20  lr-* (9) "))
      << "no range to give to a command";
}

TEST(RenderStatus, JobsThatEndedAlikeAndCameTogetherAreOneLine) {
  api::StatusView status;
  for (int id = 1; id <= 30; ++id) {
    api::JobView job = OfSweep(id);
    job.command = {"train"};
    job.state = id <= 2 ? spec::JobState::kFailed : spec::JobState::kCancelled;
    job.reason = id <= 2 ? "exit_status" : "cancelled";
    job.reason_detail = id <= 2 ? fmt::format("ended with exit status {}", id) : "cancelled by lab1";
    if (id <= 4) job.started_at = At(0);
    if (id <= 4) job.gpus = {"GPU-a"};
    if (id <= 4) job.ended_at = At(10 * id);
    status.jobs.push_back(job);
  }
  const auto text = RenderStatus(status, kPipe, At(500));
  EXPECT_THAT(text, HasSubstr("   1  lr-1       lab1  failed (exit_status)  GPU-a "));
  EXPECT_THAT(text, HasSubstr("   2  lr-2       lab1  failed (exit_status)  GPU-a "));
  EXPECT_THAT(text, HasSubstr("3-30  lr-* (28)  lab1  cancelled             various "));
  EXPECT_THAT(text, HasSubstr("\njob 3-30 lr-* (28): cancelled by lab1\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10) << text;
}

TEST(RenderStatus, SaysThatJobsAreLeftOut) {
  api::StatusView status{{}, {Training()}, {}};
  status.waiting_left_out = 99'000;
  status.ended_left_out = 3;
  const auto text = RenderStatus(status, kPipe, At(5));
  EXPECT_THAT(text, HasSubstr("99000 more wait: gpuman queue lists them.\n"));
  EXPECT_THAT(text, HasSubstr("3 more ended earlier: gpuman status --all lists them.\n"));
}

TEST(RenderStatus, AJobThatGoesOnSaysWhatItWasRefused) {
  auto job = Training();
  job.refusal = api::RefusedAllocationView{H200().uuid,
                                           base::MiB(256),
                                           base::GiB(80),
                                           base::GiB(80),
                                           "limit",
                                           At(0),
                                           "256MiB was refused at its limit of 80GiB on GPU 0"};
  EXPECT_THAT(RenderStatus({{H200()}, {job}, {}}, kPipe, At(90)),
              HasSubstr("job 1 train: 256MiB was refused at its limit of 80GiB on GPU 0 (1m30s ago)\n"));
  EXPECT_THAT(RenderStatus({{H200()}, {job}, {}}, kPipe, At(0)), HasSubstr("(just now)\n"));
  job.state = spec::JobState::kFailed;  // the reason already says it
  EXPECT_THAT(RenderStatus({{H200()}, {job}, {}}, kPipe, At(90)), Not(HasSubstr("refused")));
}

TEST(RenderProcesses, MarkGpumansOwn) {
  auto gpu = H200();
  gpu.processes = {{77, "lab1", "gpuman-mover", base::MiB(500), {}, {}, {"gpuman-mover"}, true}};
  EXPECT_THAT(RenderProcesses({gpu}, kPipe), HasSubstr("(gpuman)"));
}

TEST(RenderStatus, SaysWhyThereIsNothingToShow) {
  EXPECT_EQ(RenderStatus({{}, {}, "libnvidia-ml.so.1 cannot be loaded"}, kPipe, At(0)),
            "No GPUs: libnvidia-ml.so.1 cannot be loaded\n\nNo jobs.\n");
}

TEST(RenderStatus, LetsNoNameActOnTheTerminal) {
  auto job = Training();
  job.tag = "a\033[2Jb";
  job.command = {"x\ny", "\xff"};
  job.reason_detail = "\a";
  const auto text = RenderStatus({{}, {job}, {}}, kPipe, At(0));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, Not(HasSubstr("\a")));
  EXPECT_THAT(text, HasSubstr("a?[2Jb"));
  EXPECT_THAT(text, HasSubstr("'x?y' '?'"));
}

TEST(RenderProcesses, ListsEveryGpu) {
  EXPECT_EQ(RenderProcesses({H200(), Laptop()}, kPipe),
            "GPU   PID  USER  MEMORY  JOB      COMMAND\n"
            "0    4711  lab1   69GiB  1 train  python train.py\n"
            "0      12  n/a      n/a  -        n/a\n");
  EXPECT_EQ(RenderProcesses({}, kPipe), "No process uses GPU memory.\n");
}

TEST(RenderGpu, ShowsWhatIsKnownAndWhatIsNot) {
  EXPECT_EQ(RenderGpu(Laptop(), kPipe),
            "GPU           1\n"
            "UUID          GPU-aaaaaaaa-2222-3333-4444-555555555555\n"
            "Name          NVIDIA GeForce RTX 4050 Laptop GPU\n"
            "Memory        n/a\n"
            "Utilization   GPU n/a, memory n/a\n"
            "Temperature   n/a\n"
            "Power         n/a\n"
            "Health        unhealthy\n"
            "              Xid 79: the GPU fell off the bus; power-cycle the machine\n"
            "\n"
            "No process uses GPU memory.\n");
  EXPECT_THAT(RenderGpu(H200(), kPipe),
              HasSubstr("Memory total  140.4GiB (771MiB of it kept by the driver)\n"));
}

TEST(RenderEvent, NamesTheJobOnce) {
  api::EventView event;
  event.kind = "hard_limit";
  event.job = 1;
  event.tag = "hog";
  event.gpu = "GPU-11111111-2222";
  event.message = "job 1 'hog' used 612MiB";
  EXPECT_THAT(RenderEvent(event, kPipe), HasSubstr(" hard_limit job 1 'hog' used 612MiB\n"));
}

TEST(RenderStatus, NamesTheJobOnceInItsNote) {
  auto job = Hog();
  job.reason_detail = "job 12 'test_cuda_app' used 612MiB";
  EXPECT_THAT(RenderStatus({{}, {job}, {}}, kPipe, At(0)),
              HasSubstr("\n\njob 12 'test_cuda_app' used 612MiB\n"));
}

TEST(RenderStatus, CountsTimeFromZeroSeconds) {
  auto job = Training();
  EXPECT_THAT(RenderStatus({{}, {job}, {}}, kPipe, At(0)), HasSubstr("  0s  python"));
  EXPECT_THAT(RenderStatus({{}, {job}, {}}, kPipe, At(-5)),
              HasSubstr("  0s  python"));  // the clock was set back
}

TEST(JobSentence, SaysHowItIsOrHowItEnded) {
  EXPECT_EQ(JobSentence(Training()), "job 1 'train' is running (pid 4711), at most 80GiB on each GPU");
  EXPECT_EQ(JobSentence(Hog()), "job 12 'test_cuda_app' has ended: killed (memory_limit)");
}

TEST(RenderEvent, IsOneLine) {
  api::EventView event;
  event.kind = "hard_limit";
  event.job = 12;
  event.tag = "hog";
  event.message = "612MiB used,\nlimit 512MiB";
  const auto text = RenderEvent(event, kPipe);
  EXPECT_THAT(text, HasSubstr(" hard_limit job 12 hog 612MiB used,?limit 512MiB\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(StateText, SaysHowAJobEnded) {
  api::JobView job;
  job.state = spec::JobState::kFailed;
  job.exit_code = 3;
  EXPECT_EQ(StateText(job), "failed (exit 3)");
  job.exit_code.reset();
  job.signal = 11;
  EXPECT_EQ(StateText(job), "failed (signal 11)");
  job.reason = "command_not_found";
  EXPECT_EQ(StateText(job), "failed (command_not_found)");
  job = {};
  job.state = spec::JobState::kFinished;
  job.exit_code = 0;
  EXPECT_EQ(StateText(job), "finished");
}

TEST(Table, ShrinksTheLastColumnsFirst) {
  Table table({{"A", Align::kLeft, 3}, {"B"}, {"C", Align::kLeft, 3}});
  table.Add({"aaaaaaaa", "bbbb", "cccccccc"});
  const TerminalStyle narrow{true, false, 20};
  EXPECT_EQ(table.Render(narrow), "A         B     C\naaaaaaaa  bbbb  ccc…\n");
  const TerminalStyle tiny{true, false, 14};
  EXPECT_EQ(table.Render(tiny), "A    B     C\naa…  bbbb  cc…\n");
}

TEST(ShareTable, HasAColumnForManagedMemoryWhereThereIsSome) {
  api::ShareView view;
  view.gpus.emplace_back();
  view.gpus[0].jobs.emplace_back();
  view.gpus[0].jobs[0].tag = "train";
  EXPECT_THAT(RenderShare(view, kPipe), Not(HasSubstr("MANAGED")));
  view.gpus[0].jobs[0].memory.managed = base::GiB(7);
  EXPECT_THAT(RenderShare(view, kPipe), HasSubstr("AWAY  MANAGED  WANTS"));
  EXPECT_THAT(RenderShare(view, kPipe), HasSubstr("7GiB"));
}

TEST(ShareTable, SaysInWordsWhatAJobWaitsFor) {
  api::ShareView view;
  view.gpus.emplace_back();
  view.gpus[0].jobs.emplace_back();
  view.gpus[0].jobs[0].waits_for = "turn";
  view.gpus[0].jobs[0].waiting = base::Millis(7000);
  EXPECT_THAT(RenderShare(view, kPipe), HasSubstr("waits for turn (7s)"));
  view.gpus[0].jobs[0].waits_for = "too_large";
  EXPECT_THAT(RenderShare(view, kPipe), HasSubstr("does not fit, not even alone"));
}

TEST(Cut, CountsCharactersAndNotBytes) {
  EXPECT_EQ(Cut("äöü", 3), "äöü");
  EXPECT_EQ(Cut("äöüß", 3), "äö…");
  EXPECT_EQ(Cut("abc", 1), "…");
  EXPECT_EQ(Cut("abc", 0), "");
}

TEST(Nearest, FindsAMisspeltTagAndNothingFarAway) {
  EXPECT_EQ(base::Nearest("trian", {"train", "eval"}), "train");
  EXPECT_EQ(base::Nearest("tran", {"train", "eval"}), "train");
  EXPECT_EQ(base::Nearest("test_cuda_ap", {"test_cuda_app", "x"}), "test_cuda_app");
  EXPECT_EQ(base::Nearest("hog", {"dog", "log"}), "dog");
  EXPECT_EQ(base::Nearest("zebra", {"train"}), std::nullopt);
  EXPECT_EQ(base::Nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace gpuman::cli
