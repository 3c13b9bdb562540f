#include "daemon/queue/submission.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "spec/json.h"

namespace gpuman::daemon {
namespace {

using base::JobId;

class SubmissionTest : public ::testing::Test {
 protected:
  SubmissionTest() {
    inventory.gpus = {{0, "GPU-aaaa", "NVIDIA H200", "", base::GiB(100)},
                      {1, "GPU-bbbb", "NVIDIA A100", "", base::GiB(40)}};
    request.directory = "/home/ann";
    request.environment = {{"PATH", "/bin"}};
  }

  api::Submission& Add(std::vector<std::string> command = {"true"}) {
    api::Submission job;
    job.command = std::move(command);
    request.jobs.push_back(job);
    return request.jobs.back();
  }
  base::Result<PreparedSubmission> Read() {
    return Prepare(request, {caller, inventory, driver, limits, JobId{11}, base::WallTime{}, lookup, memory});
  }
  PreparedSubmission Fine() {
    auto prepared = Read();
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedSubmission{};
  }

  queue::PastRuns past;
  queue::SnapshotUpdater updater;
  MemoryChoiceContext memory{past, updater};
  api::SubmitRequest request;
  Caller caller{1000, 1000, {1000}, "ann"};
  gpu::Inventory inventory;
  std::map<std::string, std::string> driver;
  jobs::Shared<jobs::ResourceLimits> limits;
  // Job 5 has the name "before"; @ is 9, @~1 is 5.
  queue::ReferenceLookup lookup = [](const queue::Reference& reference) -> std::vector<JobId> {
    using Kind = queue::Reference::Kind;
    if (reference.kind == Kind::kTag && reference.tag == "before") return {{5}};
    if (reference.kind == Kind::kRecent && reference.back < 2) return {{reference.back == 0 ? 9 : 5}};
    if (reference.kind == Kind::kId && reference.id.value < 11) return {reference.id};
    return {};
  };
};

TEST_F(SubmissionTest, AJobHasWhatItWasSubmittedWith) {
  auto& asked = Add({"python", "train.py"});
  asked.gpus.count = 2;
  asked.project = "vision";
  asked.time_limit = base::Millis(7'200'000);
  asked.warn_before = base::Millis(1000);
  asked.priority = 200;
  asked.retries = {2, base::Millis(500), {75}};
  const auto prepared = Fine();
  ASSERT_EQ(prepared.jobs.size(), 1U);
  const auto& job = prepared.jobs[0];
  EXPECT_EQ(job.tag, "job-11");
  EXPECT_EQ(job.owner->user, "ann");
  EXPECT_EQ(*job.directory, "/home/ann");
  EXPECT_EQ(job.state, spec::JobState::kQueued);
  EXPECT_EQ(job.spec->priority, 200);
  EXPECT_EQ(job.spec->project.value_or(""), "vision");
  EXPECT_EQ(job.spec->retries, (spec::Retries{2, base::Millis(500), {75}}));
  EXPECT_EQ(job.spec->warn_signal, spec::Signal{SIGUSR1});
  EXPECT_EQ(job.spec->warn_before, base::Millis(1000));
  EXPECT_EQ(job.spec->gpus.count, 2);
  const auto back = spec::ParseJobSpec(spec::Serialize(*job.spec));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, *job.spec) << "what is kept says the same";
}

TEST_F(SubmissionTest, ASoftLimitAboveTheHardOneIsRefused) {
  auto& asked = Add();
  asked.gpus.count = 1;
  asked.memory = base::SizeSpec{{}, 10};
  asked.soft = base::SizeSpec{base::GiB(4), 0};
  EXPECT_EQ(Fine().jobs.size(), 1U);
  asked.soft = base::SizeSpec{base::GiB(5), 0};
  const auto refused = Read();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("soft"), std::string::npos) << refused.error().message;
}

TEST_F(SubmissionTest, MemoryIsChosenByPastRunsOfTheUserAndTheName) {
  updater.SetGpus({{.index = 0, .uuid = "GPU-aaaa", .model = "NVIDIA H200", .memory = base::GiB(100)}});
  past.Add("ann", "train", {{1}, {}, base::GiB(10), {}, true});
  past.Add("ann", "eval.py", {{2}, {}, base::GiB(2), {}, true});
  past.Add("bob", "other", {{3}, {}, base::GiB(2), {}, true});
  const auto ask = [&](const char* name, const std::vector<std::string>& command) -> api::Submission& {
    auto& asked = Add(command);
    if (*name != '\0') asked.name = name;
    asked.gpus.count = 1;
    asked.memory_auto = true;
    return asked;
  };
  ask("train", {"python", "train.py"});
  ask("", {"python", "eval.py"});
  ask("other", {"true"});
  ask("train", {"python", "train.py"}).array = api::ArrayRequest{{{0, 2, 1}}, {}};
  for (const bool dry_run : {false, true}) {
    request.dry_run = dry_run;
    const auto prepared = Fine();
    ASSERT_EQ(prepared.jobs.size(), 6U);
    EXPECT_EQ(prepared.jobs[0].spec->memory_on_each, base::GiB(15));
    EXPECT_TRUE(prepared.jobs[0].spec->memory_auto) << "it says that the size was chosen";
    EXPECT_EQ(prepared.jobs[1].spec->memory_on_each, base::GiB(3));
    EXPECT_EQ(prepared.jobs[2].spec->memory, std::nullopt) << "the runs are somebody else's";
    for (std::size_t task = 3; task < 6; ++task)
      EXPECT_EQ(prepared.jobs[task].spec->memory_on_each, base::GiB(15)) << task;
    EXPECT_EQ(prepared.notes,
              (std::vector<std::string>{"memory: 15GiB, as the one known run of 'train' used 10GiB",
                                        "memory: 3GiB, as the one known run of 'eval.py' used 2GiB",
                                        "memory: all of the GPU, as no run of 'other' is known yet"}));
  }
}

TEST_F(SubmissionTest, ManyNotesOnMemoryAreSummedUp) {
  for (int i = 0; i < 9; ++i) {
    auto& asked = Add();
    asked.name = "name" + std::to_string(i);
    asked.gpus.count = 1;
    asked.memory_auto = true;
  }
  const auto prepared = Fine();
  ASSERT_EQ(prepared.notes.size(), 6U);
  EXPECT_EQ(prepared.notes.back(), "memory: chosen in the same way for 4 more jobs");
}

TEST_F(SubmissionTest, ADryRunMakesNoNamesOfIdsThatNobodyGets) {
  Add();
  Add().name = "eval";
  request.dry_run = true;
  const auto prepared = Fine();
  ASSERT_EQ(prepared.jobs.size(), 2U);
  EXPECT_EQ(prepared.jobs[0].tag, "");
  EXPECT_EQ(prepared.jobs[1].tag, "eval");
}

TEST_F(SubmissionTest, APercentageWhereNoGpuIsKnownIsRefusedByItsField) {
  inventory.gpus.clear();
  const auto names = [&](auto& size, const std::string& field) {
    size = base::SizeSpec{{}, 10};
    const auto refused = Read();
    size.reset();
    return !refused && refused.error().message.starts_with(field + ": ");
  };
  auto& asked = Add();
  asked.gpus.count = 1;
  EXPECT_TRUE(names(asked.memory, "memory"));
  EXPECT_TRUE(names(asked.soft, "soft"));
  EXPECT_TRUE(names(asked.gpus.free_memory, "gpus.free_memory"));
}

TEST_F(SubmissionTest, TheReceiversOfNotificationsAreKept) {
  using On = spec::NotifyOn;
  Add().notify = {{"https://x/"}, {"a@b"}, {On::kKilled, On::kSuspended}};
  Add().notify = {{}, {"a@b"}, {On::kFailed, On::kAll}};
  const auto prepared = Fine();
  ASSERT_EQ(prepared.jobs.size(), 2U);
  EXPECT_EQ(prepared.jobs[0].spec->notify,
            (spec::NotificationOptions{{"https://x/"}, {"a@b"}, {On::kKilled, On::kSuspended}}));
  EXPECT_EQ(prepared.jobs[1].spec->notify.on, (std::vector{On::kFailed, On::kAll}));
}

TEST_F(SubmissionTest, TasksOfAnArrayHaveConsecutiveIdsAndOneText) {
  Add();
  auto& asked = Add();
  asked.array = api::ArrayRequest{{{0, 4, 2}, {9, 9, 1}}, 2};
  const auto prepared = Fine();
  EXPECT_EQ(prepared.heads, (std::vector<std::size_t>{0, 1}));
  ASSERT_EQ(prepared.jobs.size(), 5U);
  const std::vector<std::int64_t> indices{0, 2, 4, 9};
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto& job = prepared.jobs[i + 1];
    EXPECT_EQ(job.array, (spec::ArrayTask{{12}, indices[i], 2}));
    EXPECT_EQ(job.spec.pointer(), prepared.jobs[1].spec.pointer());
  }
}

TEST_F(SubmissionTest, ReferencesReachOverTheSubmissionToWhatCameBefore) {
  Add().name = "first";
  Add().array = api::ArrayRequest{{{0, 1, 1}}, {}};
  auto& last = Add();
  const auto depends = [&](const char* on) {
    last.depends.list = {{spec::DependencyKind::kAfterOk, on}};
    std::vector<std::int64_t> ids;
    const auto prepared = Fine();
    for (const auto& one : prepared.jobs.back().spec->depends.list) ids.push_back(one.job.value);
    return ids;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(depends("first"), Ids{11});
  EXPECT_EQ(depends("@"), (Ids{12, 13})) << "all tasks of the array";
  EXPECT_EQ(depends("@~1"), Ids{11});
  EXPECT_EQ(depends("@~2"), Ids{9}) << "submitted before";
  EXPECT_EQ(depends("before"), Ids{5});
  EXPECT_EQ(depends("7"), Ids{7});
  last.depends.list = {{spec::DependencyKind::kAfterOk, "nobody"}};
  const auto refused = Read();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kNotFound);
  EXPECT_NE(refused.error().message.find("jobs[2]"), std::string::npos) << refused.error().message;
}

TEST_F(SubmissionTest, SoManyDependenciesThatNobodyCouldKeepThemAreRefused) {
  Add().array = api::ArrayRequest{{{0, 999, 1}}, {}};
  auto& last = Add();
  last.depends.list = {{spec::DependencyKind::kAfterOk, "@"}};
  last.array = api::ArrayRequest{{{0, 1998, 2}}, {}};
  EXPECT_EQ(Fine().jobs.back().spec->depends.list.size(), 1000U);
  last.array = api::ArrayRequest{{{0, 2000, 2}}, {}};
  const auto refused = Read();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("jobs[1].depends: 1001 jobs that wait for 1000 each"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(SubmissionTest, AScriptIsRunByWhatItsFirstLineNames) {
  const auto command = [](const char* script) { return CommandOfScript(script, {"a"}); };
  using Words = std::vector<std::string>;
  EXPECT_EQ(command("echo hi\n"), (Words{"/bin/sh", "{script}", "a"}));
  EXPECT_EQ(command("#!/bin/bash\necho hi\n"), (Words{"/bin/bash", "{script}", "a"}));
  EXPECT_EQ(command("#!/usr/bin/env python3\nprint(1)\n"),
            (Words{"/usr/bin/env", "python3", "{script}", "a"}));
  EXPECT_EQ(command("#!/bin/bash"), (Words{"/bin/bash", "{script}", "a"}));
}

TEST_F(SubmissionTest, SharesOfAGpuAreOfTheSmallestThatWouldDo) {
  auto& asked = Add();
  asked.gpus.count = 1;
  asked.share = true;
  asked.memory = base::SizeSpec{{}, 50};
  EXPECT_EQ(Fine().jobs[0].spec->memory_on_each, base::GiB(20));
  asked.gpus = {0, {"0"}, {}, {}};
  const auto prepared = Fine();
  EXPECT_EQ(prepared.jobs[0].spec->memory_on_each, base::GiB(50));
  EXPECT_EQ(prepared.jobs[0].spec->gpus.devices, std::vector<std::string>{"GPU-aaaa"});
  EXPECT_EQ(prepared.jobs[0].spec->gpus.count, 1);
}

TEST_F(SubmissionTest, AJobOnHoldSaysWhoHoldsIt) {
  Add().hold = true;
  const auto prepared = Fine();
  EXPECT_EQ(prepared.jobs[0].state, spec::JobState::kHeld);
  EXPECT_EQ(prepared.jobs[0].reason, "held_by_user");
}

TEST_F(SubmissionTest, AnInstanceIsAskedForAlone) {
  inventory.gpus[0].split = true;
  gpu::Gpu instance{0, "MIG-cccc", "NVIDIA H200 MIG 1g.18gb", "", base::GiB(16)};
  instance.mig = gpu::Instance{"GPU-aaaa", 0, 1, 0, "1g.18gb"};
  inventory.gpus.insert(inventory.gpus.begin() + 1, instance);
  auto& asked = Add();
  asked.gpus.devices = {"0:0"};
  asked.memory = base::SizeSpec{{}, 50};
  EXPECT_EQ(Fine().jobs[0].spec->memory_on_each, base::GiB(8)) << "a percentage is of the instance";
  asked.share = true;
  EXPECT_TRUE(Fine().jobs[0].spec->share);
  inventory.gpus[1].mig->profile = "1c.3g.71gb";
  EXPECT_EQ(Read().error().code, base::ErrorCode::kNotSupported);
  inventory.gpus[1].mig->profile = "1g.18gb";
  asked.share = false;
  asked.gpus.devices = {"0:0", "1"};
  EXPECT_EQ(Read().error().code, base::ErrorCode::kConflict);
  asked.gpus.devices = {"0"};
  EXPECT_NE(Read().error().message.find("0:0 (1g.18gb, MIG-cccc)"), std::string::npos);
}

TEST_F(SubmissionTest, InPiecesItComesToTheSame) {
  for (int i = 0; i < 7; ++i) {
    auto& job = Add();
    job.name = "job" + std::to_string(i % 3);
    if (i == 2) job.array = api::ArrayRequest{{{0, 3, 1}}, {}};
    if (i > 0) job.depends.list = {{spec::DependencyKind::kAfterOk, i % 2 ? "@" : "job0"}};
  }
  const auto whole = Fine();
  SubmissionPreparer preparation(
      request, {caller, inventory, driver, limits, JobId{11}, base::WallTime{}, lookup, memory});
  std::vector<bool> more;
  do more.push_back(preparation.Continue(3).value());
  while (more.back());
  EXPECT_EQ(more, (std::vector{true, true, true, false}));
  const auto pieces = preparation.Take();
  EXPECT_EQ(pieces.heads, whole.heads);
  ASSERT_EQ(pieces.jobs.size(), whole.jobs.size());
  for (std::size_t i = 0; i < pieces.jobs.size(); ++i) {
    EXPECT_EQ(pieces.jobs[i].tag, whole.jobs[i].tag);
    EXPECT_EQ(pieces.jobs[i].spec->depends.list, whole.jobs[i].spec->depends.list) << i;
  }
  EXPECT_EQ(pieces.jobs[4].spec->depends.list.size(), 1U);
  EXPECT_EQ(pieces.jobs[6].spec->depends.list.size(), 4U) << "the array before it";
}

TEST_F(SubmissionTest, RefusesWhatItCannotMakeSenseOf) {
  Add().gpus.devices = {"7"};
  EXPECT_EQ(Read().error().code, base::ErrorCode::kNotFound);
  request.jobs.clear();
  Add().directory = "relative";
  EXPECT_EQ(Read().error().code, base::ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpuman::daemon
