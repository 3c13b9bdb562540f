#include "cli/compat/slurm/sbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/test_temp_dir.h"
#include "cli/compat/known_tools.h"
#include "cli/queue/request.h"
#include "cli/queue/test_command_line.h"
#include "cli/values.h"

namespace gpuman::cli::slurm {
namespace {

using queue::MadeSubmission;
using queue::SubmitSettings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

api::Submission JobOf(std::string_view text) {
  SubmitSettings settings;
  const auto reading = ApplySbatch(text, "s.sh", settings, {});
  EXPECT_TRUE(reading) << text << ": " << reading.error().message;
  return settings.job;
}

TEST(Sbatch, ReadsTheCommonOptionsAsSlurmMeansThem) {
  const auto job = JobOf(
      "#!/bin/bash\n"
      "#SBATCH --job-name='my run' --gres=gpu:2\n"
      "#SBATCH -t 1-02:00:00 --mem=32G -c 8\n"
      "#SBATCH --array=0-9%2  # four at once\n"
      "#SBATCH -d afterok:7:8 -o %x-%j.out --error err.txt -A vision\n"
      "#SBATCH --signal=B:USR1@60 --hold --nodes=1 -n1\n"
      "#SBATCH --mail-user=a@b.c --mail-type=FAIL,TIME_LIMIT\n"
      "python train.py\n");
  EXPECT_EQ(job.name, "my-run");
  EXPECT_EQ(job.gpus.count, 2);
  EXPECT_EQ(job.time_limit, base::Millis(std::chrono::hours(26)));
  EXPECT_EQ(job.host_memory, base::GiB(32));
  EXPECT_EQ(job.cpus, 8);
  EXPECT_EQ(job.array->limit, 2);
  EXPECT_EQ(job.depends.list.size(), 2u);
  EXPECT_EQ(job.stdout_file, "%x-%j.out");
  EXPECT_EQ(job.stderr_file, "err.txt");
  EXPECT_EQ(job.project, "vision");
  EXPECT_EQ(job.warn_signal, spec::Signal{SIGUSR1});
  EXPECT_EQ(job.warn_before, base::Millis(60'000));
  EXPECT_TRUE(job.hold);
  EXPECT_THAT(job.notify.mails, ElementsAre("a@b.c"));
  EXPECT_THAT(job.notify.on,
              ElementsAre(spec::NotifyOn::kFailed, spec::NotifyOn::kTimeout, spec::NotifyOn::kKilled));
}

TEST(Sbatch, TakesNumbersAloneAsMinutesAndMebibytes) {
  const auto job = JobOf("#SBATCH --time=30 --mem=512 --gpus-per-node=h200:4\n");
  EXPECT_EQ(job.time_limit, base::Millis(std::chrono::minutes(30)));
  EXPECT_EQ(job.host_memory, base::MiB(512));
  EXPECT_EQ(job.gpus.count, 4);
  EXPECT_EQ(job.gpus.model, "h200");
  EXPECT_EQ(JobOf("#SBATCH -G1\n").gpus.count, 1);
  EXPECT_FALSE(JobOf("#SBATCH --time=UNLIMITED\n").time_limit);
}

TEST(Sbatch, NamesWhatItDoesNotRead) {
  SubmitSettings settings;
  const auto reading = ApplySbatch(
      "#!/bin/sh\n"
      "#SBATCH -p gpu --qos high --nodes=2 --exclusive\n"
      "#SBATCH --gres=gpu:1,nvme:1 --mem-per-cpu=2G --dependency=singleton -J a\n"
      "# SBATCH --hold\n"
      "#SBATCHX --hold\n"
      "srun python x.py\n"
      "#SBATCH --hold\n",
      "s.sh", settings, {});
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_THAT(reading->not_read,
              ElementsAre("-p gpu", "--qos=high", "--nodes=2", "--exclusive", "--gres=gpu:1,nvme:1",
                          "--mem-per-cpu=2G", "--dependency=singleton"));
  EXPECT_THAT(reading->taken, ElementsAre("-J a"));
  EXPECT_FALSE(settings.job.hold) << "neither another word nor a line below the first command counts";
}

TEST(Sbatch, NamesTheLineOfAValueThatIsWrong) {
  for (const auto& [text, says] : std::vector<std::pair<const char*, const char*>>{
           {"#!/bin/sh\n#SBATCH --time=soon\n", "s.sh:2: --time: 'soon' is not a time"},
           {"#SBATCH --gpus=many\n", "s.sh:1: --gpus: 'many' is not a number of GPUs"},
           {"#SBATCH --job-name='a\n", "s.sh:1: a ' is never closed"},
           {"#SBATCH --array\n", "s.sh:1: --array"}}) {
    SubmitSettings settings;
    const auto reading = ApplySbatch(text, "s.sh", settings, {});
    ASSERT_FALSE(reading) << text;
    EXPECT_THAT(reading.error().message, HasSubstr(says));
  }
}

TEST(GpuCount, IsWhatGpumanAndSlurmWrite) {
  EXPECT_EQ(ParseGpuCount("2")->count, 2);
  EXPECT_EQ(ParseGpuCount("gpu")->count, 1);
  EXPECT_EQ(ParseGpuCount("gpu:3")->count, 3);
  EXPECT_EQ(ParseGpuCount("gpu:h100")->model, "h100");
  const auto both = ParseGpuCount("gpu:h100:2");
  EXPECT_EQ(both->count, 2);
  EXPECT_EQ(both->model, "h100");
  EXPECT_EQ(ParseGpuCount("a100:8")->count, 8);
  for (const char* text : {"", "all", "-1", "1.5", "gpu:", "gpu::2", ":2", "2000", "h100:"})
    EXPECT_FALSE(ParseGpuCount(text)) << text;
}

// --- in a submission

class SbatchScript : public ::testing::Test {
 protected:
  MadeSubmission Submit(const std::string& text, std::vector<std::string> options = {}) {
    std::ofstream(directory_.path() / "job.sh") << text;
    options.emplace_back("job.sh");
    queue::SubmitContext context{KnownTools()};
    context.origin.directory = directory_.path().string();
    context.origin.environment = {"PATH=/usr/bin:/bin"};
    auto typed = queue::ParseSubmission(options);
    if (!typed) ADD_FAILURE() << typed.error().message;
    if (!typed) return {};
    auto made = queue::MakeSubmission(std::move(typed->settings), typed->line, queue::kGpuman, context);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : MadeSubmission{};
  }
  static std::string Printed(const MadeSubmission& made) {
    std::string all;
    for (const auto& note : made.notes) all += note + "\n";
    return all;
  }
  base::TempDir directory_;
};

TEST_F(SbatchScript, OptionsRememberTheirScriptLines) {
  const auto made = Submit("#!/bin/bash\n#SBATCH --mem=4G\n#SBATCH -c 8 --gres=gpu:1\ntrue\n", {"--gpus=2"});
  EXPECT_EQ(made.lines.at("--host-memory"), "job.sh:2");
  EXPECT_EQ(made.lines.at("--cpus"), "job.sh:3");
  EXPECT_EQ(made.lines.at("--gpus"), "") << "the command line has the last word";
}

TEST_F(SbatchScript, WithoutAnyOptionIsToldThatItGetsNoGpu) {
  const std::string text = "#!/bin/bash\npython x.py\n";
  EXPECT_THAT(Printed(Submit(text)), HasSubstr("job.sh: it asks for no GPU, so the job gets none"));
  EXPECT_THAT(Printed(Submit(text, {"--gpus=0"})), Not(HasSubstr("no GPU"))) << "that was said";
  EXPECT_THAT(Printed(Submit(text, {"--gpu=0"})), Not(HasSubstr("no GPU")));
  EXPECT_THAT(Printed(Submit("#!/bin/bash\n# GPUMAN --time 2h\ntrue\n")), Not(HasSubstr("no GPU")));
}

TEST_F(SbatchScript, ReadAndUnreadOptionsAreReported) {
  const auto made = Submit("#!/bin/bash\n#SBATCH --gres=gpu:1 --partition=gpu\npython x.py\n");
  EXPECT_EQ(made.request.jobs[0].gpus.count, 1);
  EXPECT_THAT(Printed(made), HasSubstr("job.sh: read from its #SBATCH lines: --gres=gpu:1\n"));
  EXPECT_THAT(Printed(made), HasSubstr("not read, since gpuman has nothing like it: --partition=gpu"));
  EXPECT_THAT(Printed(made), Not(HasSubstr("no GPU")));
}

TEST_F(SbatchScript, SaysThatItGetsNoGpu) {
  const auto text = "#!/bin/bash\n#SBATCH --mem=4G\nsrun python x.py\n";
  EXPECT_THAT(Printed(Submit(text)), HasSubstr("it asks for no GPU, so the job gets none"));
  EXPECT_THAT(Printed(Submit(text)), HasSubstr("job.sh:3: srun belongs to Slurm"));
  EXPECT_THAT(Printed(Submit(text, {"--gpus=1"})), Not(HasSubstr("no GPU")));
}

TEST_F(SbatchScript, GivesWayToTheCommandLineAndToLinesOfGpuman) {
  const auto typed = Submit("#!/bin/bash\n#SBATCH --gpus=4 --time=30\ntrue\n", {"--gpus=1"});
  EXPECT_EQ(typed.request.jobs[0].gpus.count, 1);
  EXPECT_EQ(typed.request.jobs[0].time_limit, base::Millis(std::chrono::minutes(30)));
  const auto both = Submit("#!/bin/bash\n#SBATCH --gpus=4\n# GPUMAN --gpus 2\ntrue\n");
  EXPECT_EQ(both.request.jobs[0].gpus.count, 2);
  EXPECT_THAT(Printed(both), HasSubstr("its #SBATCH lines are not read, as it has # GPUMAN lines"));
}

TEST_F(SbatchScript, IsLeftToSbatchWhereItGoesToSlurm) {
  const auto made = Submit("#!/bin/bash\n#SBATCH --gpus=4\ntrue\n", {"--to=slurm"});
  EXPECT_EQ(made.request.jobs[0].gpus.count, 0);
  EXPECT_THAT(made.notes, IsEmpty());
}

TEST_F(SbatchScript, FindsItsTaskUnderSlurmsName) {
  const auto made = Submit("#!/bin/bash\n#SBATCH --array=1-3\necho $SLURM_ARRAY_TASK_ID\n");
  EXPECT_THAT(*made.request.jobs[0].script,
              HasSubstr("export SLURM_ARRAY_TASK_ID=\"$GPUMAN_ARRAY_TASK_ID\"\necho"));
}

}  // namespace
}  // namespace gpuman::cli::slurm
