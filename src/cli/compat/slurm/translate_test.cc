// What sbatch gets for a command line of `gpuman submit --to slurm`.
#include "cli/compat/slurm/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/compat/known_tools.h"
#include "cli/compat/slurm/batch_script.h"
#include "cli/queue/request.h"
#include "cli/queue/test_command_line.h"

namespace gpuman::cli::slurm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

constexpr base::WallTime kNow{base::Millis(1'800'000'000'000)};

base::Result<api::Submission> Parsed(Words options, const Words& command = {"train"}) {
  options.emplace_back("--to=slurm");
  GPUMAN_ASSIGN(auto typed, queue::ParseSubmission(options, queue::kGpuman, kNow));
  typed.line.trailing = command;
  queue::SubmitContext context{KnownTools()};
  context.origin.directory = "/home/ada";
  context.now = kNow;
  GPUMAN_ASSIGN(auto made,
                queue::MakeSubmission(std::move(typed.settings), typed.line, queue::kGpuman, context));
  return std::move(made.request.jobs.front());
}

TranslationContext ContextOfAda() {
  TranslationContext context;
  context.directory = "/home/ada";
  context.now = kNow;
  context.job_of = [](const std::string& word) -> base::Result<SlurmJobId> {
    if (const auto name = SlurmJobIdFromString(word)) return *name;
    return base::Fail(base::ErrorCode::kNotFound, "no such job: " + word);
  };
  return context;
}

base::Result<SbatchRequest> TranslatedOf(const Words& options,
                                         const TranslationContext& context = ContextOfAda()) {
  GPUMAN_ASSIGN(const auto job, Parsed(options));
  return Translate(job, context);
}

struct Row {
  Words typed;
  Words sbatch;  // without the options that are always there
};

TEST(Translate, SaysInSlurmsWordsWhatIsAskedFor) {
  const std::vector<Row> rows{
      {{}, {}},
      {{"--gpus=2"}, {"--gres=gpu:2"}},
      {{"--gpus=1", "--gpu-model=h200"}, {"--gres=gpu:h200:1"}},
      {{"--gpus=1", "--gpu-model=1g.18gb"}, {"--gres=gpu:1g.18gb:1"}},
      {{"--gpus=1", "--memory=20GiB", "--soft=10G"},
       {"--gres=gpu:1", "--gpuman-mem=20GiB", "--gpuman-soft=10GiB"}},
      {{"--gpus=1", "--memory=50%"}, {"--gres=gpu:1", "--gpuman-mem=50%"}},
      {{"--gpus=1", "--share", "--memory=8GiB"}, {"--gres=shard:8", "--gpuman-mem=8GiB", "--gpuman-share"}},
      {{"--gpus=1", "--share", "--memory=8GiB", "--compute=30%+"},
       {"--gres=shard:8", "--gpuman-mem=8GiB", "--gpuman-share", "--gpuman-compute=30%+"}},
      {{"--gpus=1", "--share", "--memory=8GiB", "--latency"},
       {"--gres=shard:8", "--gpuman-mem=8GiB", "--gpuman-share", "--gpuman-latency"}},
      {{"--gpus=1", "--share", "--memory=1537MiB"},
       {"--gres=shard:2", "--gpuman-mem=1537MiB", "--gpuman-share"}},
      {{"--gpus=1", "--share", "--memory=1073741825"},
       {"--gres=shard:2", "--gpuman-mem=1073741825", "--gpuman-share"}},
      {{"--host-memory=1G"}, {"--mem=1024M"}},
      {{"--host-memory=1000000"}, {"--mem=1M"}},
      {{"--cpus=4"}, {"--cpus-per-task=4"}},
      {{"--time=90m"}, {"--time=0-01:30:00"}},
      {{"--time=2d"}, {"--time=2-00:00:00"}},
      {{"--time=1500ms"}, {"--time=0-00:00:02"}},
      {{"--time=1h", "--warn=60s"}, {"--time=0-01:00:00", "--signal=B:USR1@60"}},
      {{"--time=1h", "--warn=TERM@2m"}, {"--time=0-01:00:00", "--signal=B:TERM@120"}},
      {{"--begin=now+2h"}, {"--begin=now+7200"}},
      {{"--project=vision"}, {"--account=vision"}},
      {{"--priority=128"}, {}},
      {{"--priority=127"}, {"--nice=100"}},
      {{"--priority=0"}, {"--nice=12800"}},
      {{"--hold"}, {"--hold"}},
      {{"--retries=2"}, {"--requeue"}},
      {{"--depends=slurm-7"}, {"--dependency=afterok:7", "--kill-on-invalid-dep=yes"}},
      {{"--depends=afterany:slurm-7_3,after:slurm-8", "--no-auto-cancel"},
       {"--dependency=afterany:7_3,after:8", "--kill-on-invalid-dep=no"}},
      {{"--depends-any=slurm-7,slurm-8"}, {"--dependency=afterok:7?afterok:8", "--kill-on-invalid-dep=yes"}},
      {{"--input=in-%j"}, {"--input=/home/ada/in-%j"}},
      {{"--error=/e/%x.%a"}, {"--error=/e/%x.0"}},
      {{"--notify-mail=a@b.c"}, {"--mail-user=a@b.c", "--mail-type=END"}},
      {{"--notify-mail=a@b.c", "--notify-on=started,failed,timeout,requeued"},
       {"--mail-user=a@b.c", "--mail-type=BEGIN,FAIL,TIME_LIMIT,REQUEUE"}},
      {{"--notify-mail=a@b.c", "--notify-on=all"}, {"--mail-user=a@b.c", "--mail-type=ALL"}},
  };
  for (const auto& [typed, sbatch] : rows) {
    const auto made = TranslatedOf(typed);
    ASSERT_TRUE(made) << testing::PrintToString(typed) << made.error().message;
    Words options = made->options;
    for (const char* usual :
         {"--job-name=train", "--chdir=/home/ada", "--export=ALL", "--output=/home/ada/slurm-%j.out"}) {
      EXPECT_THAT(options, Contains(usual));
      std::erase(options, usual);
    }
    EXPECT_EQ(options, sbatch) << testing::PrintToString(typed);
  }
}

TEST(Translate, RefusesByTheOptionsNameWhatSlurmHasNoWordFor) {
  const std::vector<std::pair<Words, std::string>> rows{
      {{"--gpu=0"}, "--gpu: "},
      {{"--gpus=1", "--gpu-free=8G"}, "--gpu-free: "},
      {{"--gpus=2", "--share", "--memory=8G"}, "--share: "},
      {{"--gpus=1", "--share", "--memory=8G", "--gpu-model=h200"}, "--gpu-model: "},
      {{"--gpus=1", "--share", "--memory=50%"}, "--memory: "},
      {{"--gpus=1", "--gpu-model=NVIDIA H200"}, "--gpu-model: "},
      {{"--priority=129"}, "--priority: "},
      {{"--preemptible"}, "--preemptible: "},
      {{"--max-concurrent=2"}, "--max-concurrent: "},
      {{"--gpus=1", "--mps"}, "--mps: "},
      {{"--gpus=1", "--device-profile=quiet"}, "--device-profile: "},
      {{"--gpus=1", "--oversubscribe", "--share", "--memory=8G"}, "--oversubscribe: "},
      {{"--gpus=1", "--weight=2"}, "--weight: "},
      {{"--gpus=1", "--trace-allocations"},
       "--trace-allocations: gpuman's plugin for Slurm has no such option"},
      {{"--group=a"}, "--group: "},
      {{"--gpus=1", "--interactive"}, "--interactive: "},
      {{"--no-preload"}, "--no-preload: "},
      {{"--grace=10s"}, "--grace: "},
      {{"--notify-url=https://x.y/"}, "--notify-url: "},
      {{"--notify-mail=a@b.c,d@e.f"}, "--notify-mail: "},
      {{"--notify-mail=a@b.c", "--notify-on=cancelled"}, "--notify-on: "},
      {{"--time=3d", "--warn=1d"}, "--warn: "},
      {{"--time=3d", "--warn=60s", "--retries=1"}, "--warn: "},
      {{"--output=a\\b"}, "--output: "},
  };
  for (const auto& [typed, begin] : rows) {
    const auto made = TranslatedOf(typed);
    ASSERT_FALSE(made) << testing::PrintToString(typed);
    EXPECT_THAT(made.error().message, StartsWith(begin)) << testing::PrintToString(typed);
    EXPECT_EQ(made.error().code, base::ErrorCode::kUnsatisfiable) << begin;
    EXPECT_NE(made.error().hint, "") << begin;
  }
}

TEST(Translate, WritesAnArrayAsSlurmDoes) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"0-99", "0-99"}, {"0-98:2%4", "0-98:2%4"}, {"1,3,5-7", "1,3,5-7"}, {"7", "7"}};
  for (const auto& [typed, slurm] : rows) {
    const auto made = TranslatedOf({"--array=" + typed});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_THAT(made->options, Contains("--array=" + slurm));
    EXPECT_EQ(made->output, "/home/ada/slurm-%A_%a.out");
  }
}

TEST(Translate, TakesOverFilesWithTheirMarksAndHidesThoseThatOnlySlurmKnows) {
  const auto one = TranslatedOf({"--output=o/%j.%A.%a.%x.%u.%5j.%%.%", "--directory=/scratch/50%"});
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->output, "/scratch/50%%/o/%j.%j.0.%x.%%u.%%5j.%%.%%");
  EXPECT_THAT(one->options, Contains("--chdir=/scratch/50%"));
  EXPECT_EQ(ExpandFile(one->output, {12, {}}, 12, "train"), "/scratch/50%/o/12.12.0.train.%u.%5j.%.%");
  const auto array = TranslatedOf({"--array=0-3", "--output=%j.%A.%a"});
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->output, "/home/ada/%j.%A.%a");
  EXPECT_EQ(ExpandFile(array->output, {12, 3}, 15, "train"), "/home/ada/15.12.3");
}

TEST(Translate, NamesAJobAfterItsCommandOrItsScript) {
  const auto named = [](const api::Submission& job, const std::string& fallback) {
    auto context = ContextOfAda();
    context.fallback_name = fallback;
    const auto made = Translate(job, context);
    return made ? made->name : made.error().message;
  };
  EXPECT_EQ(named(*Parsed({}, {"/opt/bin/train", "x"}), ""), "train");
  EXPECT_EQ(named(*Parsed({"--name=own"}), ""), "own");
  api::Submission script;
  script.script = "#!/bin/sh\ntrue\n";
  EXPECT_EQ(named(script, "jobs/train.sh"), "train.sh");
  EXPECT_EQ(named(script, ""), "gpuman");
}

TEST(Translate, PutsTheUsersOwnOptionsLastAndKeepsItsOwn) {
  auto context = ContextOfAda();
  context.slurm_options = {"partition=gpu", "--qos=high", "exclusive"};
  const auto made = TranslatedOf({}, context);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(Words(made->options.end() - 3, made->options.end()),
              ElementsAre("--partition=gpu", "--qos=high", "--exclusive"));
  for (const char* taken : {"wrap=true", "--parsable", "output=x", "-p gpu"}) {
    context.slurm_options = {taken};
    const auto refused = TranslatedOf({}, context);
    ASSERT_FALSE(refused) << taken;
    EXPECT_THAT(refused.error().message, StartsWith("--slurm-option: "));
  }
}

TEST(Translate, DoesAsTheClusterIsSaidToHaveIt) {
  const auto site = [](const std::map<std::string, std::string>& variables) {
    return SiteOf([=](const char* name) {
      const auto it = variables.find(name);
      return it != variables.end() ? std::optional(it->second) : std::nullopt;
    });
  };
  auto context = ContextOfAda();
  context.site = *site({{"GPUMAN_SLURM_PROJECT", "comment"}, {"GPUMAN_SLURM_SHARD", "2GiB"}});
  const auto made = TranslatedOf({"--project=p", "--gpus=1", "--share", "--memory=5GiB"}, context);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->options, AllOf(Contains("--comment=p"), Contains("--gres=shard:3")));
  EXPECT_THAT(site({{"GPUMAN_SLURM_PROJECT", "x"}}).error().message, HasSubstr("GPUMAN_SLURM_PROJECT: 'x'"));
  EXPECT_THAT(site({{"GPUMAN_SLURM_SHARD", "lots"}}).error().message, StartsWith("GPUMAN_SLURM_SHARD: "));
}

TEST(Translate, PassesOnWhyADependencyIsUnknown) {
  const auto made = TranslatedOf({"--depends=prep"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "--depends: no such job: prep");
}

// --- the script

std::string ScriptOf(const api::Submission& job) {
  auto script = BatchScript(job);
  return script ? *script : script.error().message;
}

TEST(BatchScript, EndsAsTheCommandDoes) {
  EXPECT_EQ(ScriptOf(*Parsed({}, {"sh", "-c", "it's $HOME"})), "#!/bin/sh\nexec sh -c 'it'\\''s $HOME'\n");
}

TEST(BatchScript, GivesATaskItsIndex) {
  EXPECT_EQ(ScriptOf(*Parsed({"--array=0-1"})),
            "#!/bin/sh\n"
            "export GPUMAN_ARRAY_TASK_ID=\"$SLURM_ARRAY_TASK_ID\"\n"
            "export GPUMAN_ARRAY_JOB_ID=\"slurm-$SLURM_ARRAY_JOB_ID\"\n"
            "exec train\n");
}

TEST(BatchScript, RunsACommandAgainWhereItFailed) {
  const auto script = ScriptOf(*Parsed({"--retries=3", "--retry-on=75,76", "--retry-delay=90s"}));
  EXPECT_THAT(script, AllOf(HasSubstr("  (exec train)\n"), HasSubstr("-ge 3 ]"),
                            HasSubstr("case $status in 75|76) ;; *) exit \"$status\" ;; esac"),
                            HasSubstr("sleep 90\n")));
  EXPECT_THAT(ScriptOf(*Parsed({"--retries=1"})), AllOf(Not(HasSubstr("case")), Not(HasSubstr("sleep"))));
}

TEST(BatchScript, LeavesAScriptAsItIsButForWhatComesBeforeItsFirstCommand) {
  api::Submission job;
  job.script = "#!/bin/bash\n#SBATCH -p gpu\n\n# about\npython x.py \"$@\"\n";
  EXPECT_EQ(ScriptOf(job), *job.script);
  job.arguments = {"a b", "c"};
  job.conda_env = "torch";
  job.umask = 027;
  EXPECT_EQ(ScriptOf(job),
            "#!/bin/bash\n#SBATCH -p gpu\n\n# about\nset -- 'a b' c\numask 0027\n"
            "eval \"$(\"${CONDA_EXE:-conda}\" shell.posix hook)\" && conda activate torch || exit 1\n"
            "python x.py \"$@\"\n");
}

TEST(BatchScript, NamesAShellWhereAScriptNamesNone) {
  api::Submission job;
  job.script = "echo here";
  EXPECT_EQ(ScriptOf(job), "#!/bin/sh\necho here");
  job.script = "#!/bin/sh";
  job.arguments = {"x"};
  EXPECT_EQ(ScriptOf(job), "#!/bin/sh\nset -- x\n");
}

TEST(BatchScript, RefusesWhatAScriptCannotBeMadeTo) {
  api::Submission job;
  job.script = "#!/usr/bin/env fish\necho $argv\n";
  EXPECT_EQ(ScriptOf(job), *job.script);
  job.arguments = {"x"};
  EXPECT_THAT(ScriptOf(job), HasSubstr("fish"));
  job.script = "#!/bin/sh\ntrue\n";
  job.retries.count = 1;
  EXPECT_THAT(ScriptOf(job), StartsWith("--retries: "));
}

}  // namespace
}  // namespace gpuman::cli::slurm
