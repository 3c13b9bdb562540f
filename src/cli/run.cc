#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/queue/submit.h"
#include "cli/run_request.h"
#include "cli/views.h"
#include "cli/wait.h"

namespace gpuman::cli {
namespace {

struct RunFlags {
  RunOptions options;
  bool wait = false;
  bool detach = false;
  bool pty = false;
  std::optional<std::string> gpus, time;  // for the queue
  const CLI::Option* tag = nullptr;
};

// The options of `gpuman submit` for the same job.
base::Result<std::vector<std::string>> SubmitOptionsOf(const RunFlags& flags) {
  const RunOptions& o = flags.options;
  if (o.restart != "no")
    return base::Fail(base::ErrorCode::kInvalidArgument, "--restart does not go with --gpus",
                      "gpuman submit --retries N runs a job of the queue again when it fails");
  std::vector<std::string> words{"--gpus=" + *flags.gpus, fmt::format("--priority={}", o.priority),
                                 fmt::format("--weight={}", o.weight)};
  const auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) words.push_back(fmt::format("{}={}", name, *value));
  };
  if (!o.tag.empty()) add("--name", o.tag);
  add("--memory", o.memory);
  add("--soft", o.soft);
  add("--grace", o.grace);
  add("--command", o.command);
  add("--time", flags.time);
  add("--device-profile", o.device_profile);
  for (const auto& gpu : o.gpus) add("--gpu", gpu);
  if (o.no_preload) words.emplace_back("--no-preload");
  if (o.share) words.emplace_back("--share");
  if (o.oversubscribe) words.emplace_back("--oversubscribe");
  if (o.mps) words.emplace_back("--mps");
  add("--mps-threads", o.mps_threads);
  return words;
}

base::Result<int> RunQueued(Session& session, const RunFlags& flags) {
  if (flags.pty && flags.detach)
    return base::Fail(base::ErrorCode::kInvalidArgument, "--pty and --detach exclude each other");
  if (!flags.options.command && !session.trailing)
    return base::Fail(base::ErrorCode::kInvalidArgument, "there is no command to run",
                      "gpuman run --gpus 1 -- COMMAND ARGUMENTS…");
  queue::QueuedRun run;
  GPUMAN_ASSIGN(run.typed, SubmitOptionsOf(flags));
  run.detach = flags.detach;
  run.pty = flags.pty;
  return queue::RunInQueue(session, run);
}

base::Result<int> Run(Session& session, const RunFlags& flags) {
  if (flags.wait && flags.detach)
    return base::Fail(base::ErrorCode::kInvalidArgument, "--wait and --detach exclude each other");
  if (flags.gpus) return RunQueued(session, flags);
  if (flags.pty || flags.time)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("{} needs --gpus", flags.pty ? "--pty" : "--time"),
                      "say how many GPUs the job needs: --gpus N");
  if (flags.tag->count() == 0)
    return base::Fail(
        base::ErrorCode::kInvalidArgument, "--tag is required",
        "gpuman run --tag NAME --memory 8GiB -- COMMAND, or --gpus N to wait in the queue for GPUs");
  GPUMAN_ASSIGN(const Origin origin, OriginOfThisProcess());
  GPUMAN_ASSIGN(const MadeRequest made, MakeRunRequest(flags.options, session.trailing, origin));
  GPUMAN_TRY(CheckProgram(made.request));
  for (const auto& name : made.left_out)
    session.Note(fmt::format("the variable {} is not UTF-8; the job does not get it", Printable(name)));
  for (const auto& note : made.notes) session.Note(note);
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::JobView job, daemon.Run(made.request));
  for (const auto& note : job.notes) session.Note(note);
  if (flags.wait) return WaitForJob(session, daemon, job);
  if (session.json)
    session.PrintJson(api::ToJson(job));
  else
    session.Print(JobSentence(job) + "\n");
  const bool never_ran = api::IsEnded(job.state) && !job.started_at;
  if (never_ran && job.reason_detail) session.Note(*job.reason_detail);
  return never_ran ? kExitFailed : kExitDone;
}

void AddMainOptions(CLI::App* run, RunFlags& flags) {
  RunOptions& o = flags.options;
  flags.tag =
      run->add_option("-t,--tag", o.tag,
                      "Name of the job; no other job that has not ended has it (default with --gpus: job-ID)")
          ->type_name("NAME");
  run->add_option("-m,--memory", o.memory,
                  "Memory limit on each of its GPUs: bytes, 512MiB, 8G, or 50% of the GPU")
      ->type_name(kSizeValue);
  run->add_flag("-w,--wait", flags.wait,
                "Show the job's output and exit with its exit status; Ctrl-C is passed on to it");
  run->add_flag("-d,--detach", flags.detach, "Return as soon as the job is started (the default)");
  run->add_option(
         "-g,--gpu", o.gpus,
         "GPU that it may use, by index or UUID, or a MIG instance (0:1); repeat for more (default: all)")
      ->type_name(kGpuValue)
      ->delimiter(',')
      ->expected(1)
      ->take_all();
  run->add_option(
         "--gpus", flags.gpus,
         "Wait in the queue until N GPUs are free, run it on them, and show its output as --wait does")
      ->type_name("N");
  run->add_option("--time", flags.time, "With --gpus: stop it after this time")->type_name(kTimeValue);
  run->add_flag("--pty", flags.pty, "With --gpus: connect it to this terminal, for a shell or a debugger");
  run->add_option("-c,--command", o.command, "The command as one string, which /bin/sh would understand")
      ->type_name("STRING");
}

void AddLimits(CLI::App* run, RunOptions& o) {
  constexpr const char* kGroup = "Limits, priority and restart";
  run->add_option("--soft", o.soft,
                  "Soft memory limit: above it gpuman warns, and stops this job first when a GPU is full")
      ->type_name(kSizeValue)
      ->group(kGroup);
  run->add_option("-p,--priority", o.priority,
                  "0 to 255; when a GPU is full, jobs with a lower priority are stopped first")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(0, 255).description(""))
      ->group(kGroup);
  run->add_option("--restart", o.restart, "Whether to start it again when it ends (default: no)")
      ->type_name(kRestartValue)
      ->check(CLI::IsMember(std::vector<std::string>{"no", "on-failure", "always"}).description(""))
      ->group(kGroup);
  run->add_option("--grace", o.grace,
                  "Time between SIGTERM and SIGKILL when the job is stopped: 500ms, 30s, 2m")
      ->type_name(kTimeValue)
      ->group(kGroup);
  run->add_flag("--no-preload", o.no_preload,
                "Do not load libgpuman.so into the job; the daemon alone enforces its limit")
      ->group(kGroup);
}

void AddSharing(CLI::App* run, RunOptions& o) {
  constexpr const char* kGroup = "Sharing and settings of GPUs";
  run->add_flag(
         "--share", o.share,
         "Share its GPUs with other jobs; jobs that do not fit together take turns (gpuman share status)")
      ->group(kGroup);
  run->add_option("--weight", o.weight, "Its part of the turns on a shared GPU; 2 gets twice as much as 1")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(0.001, 1000.0).description(""))
      ->group(kGroup);
  run->add_flag("--oversubscribe", o.oversubscribe,
                "Let a process allocate more memory than its GPU has; the driver pages it, which is slow")
      ->group(kGroup);
  run->add_option("--device-profile", o.device_profile,
                  "Clocks and power limit while no other job uses its GPUs (gpuman device profile list)")
      ->type_name("NAME")
      ->group(kGroup);
  run->add_flag(
         "--mps", o.mps,
         "Run its processes as clients of the GPU's MPS server, at the same time as those of other jobs")
      ->group(kGroup);
  run->add_option("--mps-threads", o.mps_threads,
                  "As --mps, and limit each process to this part of the GPU's threads: 25%")
      ->type_name("PERCENT")
      ->group(kGroup);
}

}  // namespace

void AddRun(const Registry& registry) {
  const auto flags = std::make_shared<RunFlags>();  // shared by the parser's bindings and the action
  auto* run =
      registry.Add("run", "Start a job now, with a limit on its GPU memory",
                   "gpuman run --tag train --memory 8GiB -- python train.py --epochs 3\n"
                   "  gpuman run --tag test_cuda_app --command $PWD/build/cuda_mem_stable --memory 2GiB\n"
                   "  gpuman run --gpus 1 --pty -- bash",
                   [flags](Session& session) { return Run(session, *flags); });
  AddMainOptions(run, *flags);
  AddLimits(run, flags->options);
  AddSharing(run, flags->options);
}

}  // namespace gpuman::cli
