// What the record keeps of a job, its file, the output file, and the views of both.
#include "cli/compat/slurm/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/test_temp_dir.h"
#include "cli/compat/slurm/output_file_reader.h"
#include "cli/compat/slurm/views.h"

namespace gpuman::cli::slurm {
namespace {

using spec::JobState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SubmissionRecord Job(std::uint32_t id, const std::string& name = "train") {
  SubmissionRecord job;
  job.id = id;
  job.name = name;
  job.submitted_at = base::WallTime(base::Millis(1'800'000'000'000));
  job.command = {"python", "x.py"};
  job.directory = "/home/ada";
  job.output = "/home/ada/slurm-%j.out";
  return job;
}

TEST(SubmissionLog, HasWhatWasSubmittedAndHowItEnded) {
  const base::TempDir dir;
  const SubmissionLog record(dir.path() / "state" / "slurm.jsonl");
  EXPECT_THAT(record.Jobs(), IsEmpty());
  auto first = Job(7);
  first.project = "vision";
  first.array = true;
  ASSERT_TRUE(record.Add(first));
  ASSERT_TRUE(record.Add(Job(8, "öfter")));
  ASSERT_TRUE(record.SetEnded(7, {JobState::kFailed, true, 3, {}, first.submitted_at}));
  const auto jobs = record.Jobs();
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_EQ(jobs[0].project, "vision");
  EXPECT_TRUE(jobs[0].array);
  EXPECT_THAT(jobs[0].command, ElementsAre("python", "x.py"));
  EXPECT_EQ(jobs[0].submitted_at, first.submitted_at);
  ASSERT_TRUE(jobs[0].ended);
  EXPECT_EQ(jobs[0].ended->state, JobState::kFailed);
  EXPECT_EQ(jobs[0].ended->exit_code, 3);
  EXPECT_EQ(jobs[0].ended->signal, std::nullopt);
  EXPECT_EQ(record.Find(8)->name, "öfter");
  EXPECT_FALSE(record.Find(9));
}

TEST(SubmissionLog, KeepsThatNobodyKnowsHowAJobEnded) {
  auto job = Job(7);
  job.ended = JobEnd{};
  const auto read = ReadRecord(WriteRecord({job}));
  ASSERT_TRUE(read.at(0).ended);
  EXPECT_FALSE(read[0].ended->known);
  EXPECT_EQ(ExitStatusOf(*read[0].ended), 1);
}

TEST(SubmissionLog, PassesOverWhatIsNoJob) {
  const auto text = "nonsense\n{\"id\":-1}\n{\"id\":\"7\"}\n[]\n" + WriteRecord({Job(7)}) + "{\"id\":8,\"na";
  EXPECT_THAT(ReadRecord(text), SizeIs(1));
}

TEST(SubmissionLog, ForgetsEndedJobsFirst) {
  const base::TempDir dir;
  const auto file = dir.path() / "slurm.jsonl";
  std::vector<SubmissionRecord> many;
  for (std::uint32_t id = 1; id <= SubmissionLog::kMax; ++id) many.push_back(Job(id));
  many[4].ended = JobEnd{};
  ASSERT_TRUE(base::ReplaceFile(file, WriteRecord(many)));
  const SubmissionLog record(file);
  ASSERT_TRUE(record.Add(Job(5000)));
  EXPECT_FALSE(record.Find(5));
  ASSERT_TRUE(record.Add(Job(5001)));
  EXPECT_FALSE(record.Find(1));
  EXPECT_TRUE(record.Find(2));
  EXPECT_THAT(record.Jobs(), SizeIs(SubmissionLog::kMax));
}

TEST(SubmissionLog, LosesNothingWhereSeveralWriteAtOnce) {
  const base::TempDir dir;
  const SubmissionLog record(dir.path() / "slurm.jsonl");
  std::vector<std::thread> writers;
  for (std::uint32_t writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      for (std::uint32_t i = 1; i <= 10; ++i) EXPECT_TRUE(record.Add(Job(100 * writer + i)));
    });
  for (auto& writer : writers) writer.join();
  EXPECT_THAT(record.Jobs(), SizeIs(40));
}

// --- the output

std::string ReadAll(OutputFileReader& file) {
  std::string text;
  EXPECT_TRUE(file.Read([&](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

TEST(OutputFileReader, GivesWhatIsNew) {
  const base::TempDir dir;
  const auto path = dir.path() / "out";
  OutputFileReader file(path.string());
  EXPECT_EQ(ReadAll(file), "");
  std::ofstream(path) << "one\n";
  EXPECT_EQ(ReadAll(file), "one\n");
  std::ofstream(path, std::ios::app) << "two\n";
  EXPECT_EQ(ReadAll(file), "two\n");
  std::ofstream(path) << "new\n";
  EXPECT_EQ(ReadAll(file), "new\n") << "it was started anew";
}

TEST(OutputFileReader, SkipsToTheLastLines) {
  const base::TempDir dir;
  const auto path = dir.path() / "out";
  const std::string long_line(100'000, 'x');
  std::ofstream(path) << "1\n" << long_line << "\n3\n4";
  const std::vector<std::pair<std::uint64_t, std::string>> rows{{0, ""},
                                                                {1, "4"},
                                                                {2, "3\n4"},
                                                                {3, long_line + "\n3\n4"},
                                                                {4, "1\n" + long_line + "\n3\n4"},
                                                                {9, "1\n" + long_line + "\n3\n4"}};
  for (const auto& [lines, text] : rows) {
    OutputFileReader file(path.string());
    ASSERT_TRUE(file.SkipTo(lines));
    EXPECT_EQ(ReadAll(file) == text, true) << lines;
  }
  std::ofstream(path) << "1\n2\n";
  OutputFileReader whole(path.string());
  ASSERT_TRUE(whole.SkipTo(1));
  EXPECT_EQ(ReadAll(whole), "2\n");
}

// --- views

SeenJob Seen(JobState state, const std::string& task = {}) {
  SeenJob job;
  job.id = 12;
  job.job = 12;
  job.task = task;
  job.state = state;
  return job;
}

TEST(Views, ExitAsTheWorstTaskDid) {
  auto bad = Seen(JobState::kFailed, "1");
  bad.exit_code = 7;
  auto killed = Seen(JobState::kFailed, "2");
  killed.signal = 9;
  auto fine = Seen(JobState::kFinished, "0");
  fine.exit_code = 0;
  EXPECT_EQ(ExitStatusOf(WorstOf({fine})), 0);
  EXPECT_EQ(ExitStatusOf(WorstOf({fine, bad})), 7);
  EXPECT_EQ(ExitStatusOf(WorstOf({bad, killed, fine})), 137);
  auto cancelled = Seen(JobState::kCancelled);
  cancelled.exit_code = 0;  // it never ran
  EXPECT_EQ(ExitStatusOf(EndOf(cancelled)), 1);
}

TEST(Views, ChooseAsTheQueueDoes) {
  const auto line = LineOf(Seen(JobState::kRunning, "3"), Job(12));
  const auto chosen = [&](auto change) {
    api::QueueFilter filter;
    change(filter);
    return IsChosen(line, filter);
  };
  EXPECT_TRUE(chosen([](auto&) {}));
  EXPECT_TRUE(chosen([](auto& f) { f.jobs = {"slurm-12"}; }));
  EXPECT_TRUE(chosen([](auto& f) { f.jobs = {"slurm-12_3"}; }));
  EXPECT_FALSE(chosen([](auto& f) { f.jobs = {"slurm-1", "7"}; }));
  EXPECT_FALSE(chosen([](auto& f) { f.states = {"queued"}; }));
  EXPECT_TRUE(chosen([](auto& f) { f.names = {"train"}; }));
  EXPECT_FALSE(chosen([](auto& f) { f.projects = {"vision"}; }));
  auto ended = Job(12);
  ended.ended = JobEnd{};
  EXPECT_FALSE(IsChosen(LineOf({}, ended), {}));
  EXPECT_TRUE(IsChosen(LineOf({}, ended), {{"all"}, {}, {}, {}, {}, {}, {}}));
}

TEST(Views, SayThatNobodyKnowsWhatSlurmHasForgotten) {
  auto kept = Job(12);
  kept.ended = JobEnd{};
  const auto line = LineOf({}, kept);
  EXPECT_EQ(Sentence(line), "job slurm-12 'train' has ended: n/a, Slurm no longer says how");
  EXPECT_TRUE(ToJson(line)["state"].is_null());
  EXPECT_EQ(line.output, "/home/ada/slurm-12.out");
  EXPECT_THAT(RenderTable({line}, {}, kept.submitted_at), HasSubstr("n/a"));
}

TEST(Views, ShowATaskWithItsOwnFile) {
  auto kept = Job(12);
  kept.array = true;
  kept.output = "/home/ada/%A_%a-%j";
  auto task = Seen(JobState::kRunning, "3");
  task.id = 15;
  EXPECT_EQ(LineOf(task, kept).output, "/home/ada/12_3-15");
  EXPECT_EQ(LineOf(Seen(JobState::kQueued, "4-9%2"), kept).id, "slurm-12_[4-9%2]");
}

}  // namespace
}  // namespace gpuman::cli::slurm
