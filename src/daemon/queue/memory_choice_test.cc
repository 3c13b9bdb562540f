#include "daemon/queue/memory_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/lifecycle.h"

namespace gpuman::daemon {
namespace {

using base::Bytes;
using base::GiB;
using base::MiB;
using testing::HasSubstr;

base::WallTime AtSecond(std::int64_t seconds) { return base::WallTime(base::Millis(seconds * 1000)); }

jobs::RunAccount Account(std::int64_t job, Bytes peak, const char* outcome = "finished") {
  jobs::RunAccount run;
  run.job = {job};
  run.user = "ann";
  run.name = "train";
  run.gpus = {"GPU-a"};
  run.peak = peak;
  run.ended = AtSecond(job);
  run.outcome = outcome;
  return run;
}

class MemoryChoiceTest : public ::testing::Test {
 protected:
  MemoryChoiceTest() {
    updater.SetGpus({{.index = 0, .uuid = "GPU-a", .model = "NVIDIA H200", .memory = GiB(100)},
                     {.index = 1, .uuid = "GPU-b", .model = "NVIDIA A100", .memory = GiB(40)},
                     {.index = 2, .uuid = "GPU-c", .model = "NVIDIA A100", .memory = GiB(40)}});
    job.id = {50};
    job.tag = "train";
    job.queued = true;
    job.owner = jobs::JobOwner{1000, 1000, {}, "ann"};
    job.command = {"python", "train.py"};
    spec.memory_auto = true;
    spec.gpus.count = 1;
  }

  void Ran(const jobs::RunAccount& run) {
    if (const auto shown = PastRunOf(run)) past.Add(run.user, run.name, *shown);
  }
  // The size that is chosen; nullopt: no limit.
  std::optional<Bytes> Chosen() {
    note = ChooseMemory(job, {past, updater}, spec);
    return spec.memory ? std::optional(spec.memory->bytes) : std::nullopt;
  }

  queue::PastRuns past;
  queue::SnapshotUpdater updater;
  jobs::Job job;
  spec::JobSpec spec;
  std::string note;
};

TEST_F(MemoryChoiceTest, OnlyTheUsersOwnRunsOfTheNameCount) {
  auto run = Account(1, GiB(10));
  run.user = "bob";
  Ran(run);
  run.user = "ann";
  run.name = "eval";
  Ran(run);
  EXPECT_EQ(Chosen(), std::nullopt);
  EXPECT_EQ(note, "memory: all of the GPU, as no run of 'train' is known yet");
  Ran(Account(2, GiB(10)));
  EXPECT_EQ(Chosen(), GiB(15));
}

TEST_F(MemoryChoiceTest, TheLessonOfARunDependsOnItsEnd) {
  EXPECT_TRUE(PastRunOf(Account(1, GiB(4)))->to_its_end);
  EXPECT_TRUE(PastRunOf(Account(1, GiB(4), "timeout"))->to_its_end);
  for (const char* const early : {"failed", "killed", "cancelled"})
    EXPECT_FALSE(PastRunOf(Account(1, GiB(4), early))->to_its_end) << early;
  auto run = Account(1, GiB(4), "failed");
  run.needed = GiB(5);
  EXPECT_EQ(PastRunOf(run)->needed, GiB(5));
  EXPECT_EQ(PastRunOf(Account(1, {})), std::nullopt) << "it did not use its GPU";
  run.peak.reset();
  EXPECT_EQ(PastRunOf(run), std::nullopt);
  run = Account(1, GiB(4));
  run.gpus.clear();
  EXPECT_EQ(PastRunOf(run), std::nullopt);
}

TEST_F(MemoryChoiceTest, AJobThatSharesHasASizeEvenIfNoRunIsKnown) {
  spec.share = true;
  EXPECT_EQ(Chosen(), GiB(100)) << "of the largest GPU";
  spec.gpus.model = "a100";
  EXPECT_EQ(Chosen(), GiB(40));
}

TEST_F(MemoryChoiceTest, IsNeverMoreThanEachOfItsGpusHas) {
  Ran(Account(1, GiB(60)));
  EXPECT_EQ(Chosen(), GiB(90)) << "only the one GPU does";
  spec.gpus.count = 2;
  EXPECT_EQ(Chosen(), GiB(40));
  EXPECT_THAT(note, HasSubstr("all of the GPU"));
  spec.gpus = {2, {"GPU-a", "GPU-b"}, {}, {}};
  EXPECT_EQ(Chosen(), GiB(40));
  spec.gpus = {4, {}, {}, {}};
  EXPECT_EQ(Chosen(), std::nullopt) << "there are too few; the queue refuses the job";
}

TEST_F(MemoryChoiceTest, IsNotBelowTheSoftLimit) {
  Ran(Account(1, GiB(4)));
  spec.soft = base::SizeSpec{GiB(20), 0};
  EXPECT_EQ(Chosen(), GiB(20));
  EXPECT_THAT(note, HasSubstr("its soft limit"));
}

TEST_F(MemoryChoiceTest, AJobWithoutANameIsKnownByItsProgramUnlessThatRunsAnything) {
  auto run = Account(1, GiB(10));
  run.name = "train.py";
  Ran(run);
  run.name = "bash";
  Ran(run);
  job.tag = "job-50";
  EXPECT_EQ(Chosen(), GiB(15));
  job.command = {"/bin/bash", "-c", "echo"};
  EXPECT_EQ(Chosen(), std::nullopt);
  EXPECT_THAT(note, HasSubstr("'bash' may run anything"));
}

TEST_F(MemoryChoiceTest, IsMadeAnewWhenTheJobsTurnHasCome) {
  const auto anew = [&]() -> std::optional<Bytes> {
    job.spec = spec;
    const auto choice = ChooseMemoryAnew(job, {past, updater});
    if (!choice) return std::nullopt;
    EXPECT_EQ(choice->spec.memory_on_each, choice->spec.memory->bytes);
    return choice->spec.memory_on_each;
  };
  EXPECT_EQ(anew(), std::nullopt) << "still no run is known";
  Ran(Account(1, GiB(10)));
  EXPECT_EQ(anew(), GiB(15)) << "it had no limit";
  for (const auto& [had, size] : {std::pair{GiB(14), std::optional(GiB(15))},
                                  {GiB(15), std::nullopt},
                                  {GiB(16), std::nullopt},
                                  {GiB(20), std::optional(GiB(15))}}) {
    spec.memory = base::SizeSpec{had, 0};
    EXPECT_EQ(anew(), size) << had.count;
  }
  job.more_memory = jobs::MoreMemory{GiB(10), MiB(512), GiB(20), true};
  EXPECT_EQ(anew(), std::nullopt) << "it was refused memory, and got more for that";
  job.more_memory.reset();
  spec.memory_auto = false;
  EXPECT_EQ(anew(), std::nullopt);
}

class MoreMemoryTest : public MemoryChoiceTest {
 protected:
  MoreMemoryTest() {
    spec.memory = base::SizeSpec{GiB(8), 0};
    spec.memory_on_each = GiB(8);
    job.verdict = spec::JobState::kFailed;
    job.reason = "exit_status";
    job.refusal = jobs::RefusedAllocation{"GPU-a", MiB(512), GiB(8), GiB(8), "limit", AtSecond(100)};
  }
  std::optional<jobs::MoreMemory> More(std::int64_t ended = 101) {
    job.spec = spec;
    return MoreMemoryAfter(job, AtSecond(ended), updater);
  }
};

TEST_F(MoreMemoryTest, IsForARunThatItsLimitRefusedMemory) {
  EXPECT_EQ(More(), (jobs::MoreMemory{GiB(8), MiB(512), GiB(16)}));
  EXPECT_EQ(More(161), std::nullopt) << "it went on for a minute";
  job.reason = "memory_refused";
  EXPECT_EQ(More(), (jobs::MoreMemory{GiB(8), MiB(512), GiB(16)}));
  job.refusal->by = "sharing";
  EXPECT_EQ(More(), std::nullopt) << "a larger limit would not have helped";
  job.refusal.reset();
  EXPECT_EQ(More(), std::nullopt);
}

TEST_F(MoreMemoryTest, IsOnlyForJobsWhoseMemoryWasChosen) {
  spec.memory_auto = false;
  EXPECT_EQ(More(), std::nullopt);
  spec.memory_auto = true;
  spec.memory.reset();
  EXPECT_EQ(More(), std::nullopt) << "it had the whole GPU";
}

TEST_F(MoreMemoryTest, IsOnlyForARunThatFailedByItself) {
  job.verdict = spec::JobState::kFinished;
  EXPECT_EQ(More(), std::nullopt);
  job.verdict = spec::JobState::kCancelled;
  EXPECT_EQ(More(), std::nullopt);
  job.verdict = spec::JobState::kFailed;
  job.reason = "keeper_lost";
  EXPECT_EQ(More(), std::nullopt);
}

TEST_F(MoreMemoryTest, IsForARunThatTheGuardEndedAtItsLimit) {
  job.refusal.reset();
  job.verdict = spec::JobState::kKilled;
  job.reason = "memory_limit";
  job.peak = GiB(15);
  EXPECT_EQ(More(), (jobs::MoreMemory{GiB(8), {}, MiB(19'200)})) << "a quarter more than what it used";
}

TEST_F(MoreMemoryTest, IsGivenOnceAndNotBeyondTheGpu) {
  spec.memory = base::SizeSpec{GiB(60), 0};
  EXPECT_EQ(More()->next, GiB(100));
  spec.memory = base::SizeSpec{GiB(100), 0};
  EXPECT_EQ(More(), std::nullopt);
  spec.memory = base::SizeSpec{GiB(8), 0};
  job.more_memory = jobs::MoreMemory{GiB(4), MiB(512), GiB(8), true};
  EXPECT_EQ(More(), std::nullopt);
}

}  // namespace
}  // namespace gpuman::daemon
