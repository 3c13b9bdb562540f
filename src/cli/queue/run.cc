// run: a job that starts at once, or with --gpus as soon as GPUs are free; what `submit` makes of the same
// options, started now.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "api/queue_json.h"
#include "cli/commands.h"
#include "cli/queue/choose_gpus.h"
#include "cli/queue/request.h"
#include "cli/queue/submit.h"
#include "cli/queue/terminal.h"
#include "cli/queue/when.h"
#include "cli/show.h"
#include "cli/take.h"
#include "cli/views.h"
#include "cli/wait.h"

namespace gpuman::cli {
namespace queue {
namespace {

using base::ErrorCode;
using base::Result;

struct RunSettings {
  SubmitSettings submit;
  bool detach = false;
  bool pty = false;
};

tl::unexpected<base::Error> Misuse(std::string message, std::string hint = {}) {
  return base::Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

bool NamesGpus(const CommandLine& line) {
  return std::any_of(line.options.begin(), line.options.end(),
                     [](const ParsedOption& option) { return option.name == "--gpus"; });
}

// It takes turns with other sharing jobs, however much memory they have together: there is no place for which
// it would have to wait.
bool TakesTurns(const RunSettings& s) {
  const auto& job = s.submit.job;
  return job.share && job.gpus.count > 0 && !job.memory && !job.memory_auto;
}

bool WaitsForGpus(const RunSettings& s, const CommandLine& line) { return NamesGpus(line) && !TakesTurns(s); }

bool HasCommand(const RunSettings& s, const CommandLine& line) {
  return s.submit.command || (line.trailing && !line.trailing->empty() && !line.trailing->front().empty());
}

// Checks the options of a job that starts at once.
Result<> CheckStart(const RunSettings& s) {
  const auto& job = s.submit.job;
  if (TakesTurns(s)) {
    if (s.pty || job.time_limit)
      return Misuse(fmt::format("{} needs --memory beside --share", s.pty ? "--pty" : "--time"),
                    "with --memory it waits in the queue for that much of each GPU");
    return {};
  }
  if (s.pty || job.time_limit || job.memory_auto)
    return Misuse(fmt::format("{} needs --gpus", s.pty             ? "--pty"
                                                 : job.memory_auto ? "--memory auto"
                                                                   : "--time"),
                  "say how many GPUs the job needs: --gpus N");
  if (!job.name)
    return Misuse(
        "--tag is required",
        "gpuman run --tag NAME --memory 8GiB -- COMMAND, or --gpus N to wait in the queue for GPUs");
  return {};
}

Result<> CheckTogether(const RunSettings& s, const CommandLine& line) {
  const auto& submit = s.submit;
  const bool waits_for_gpus = WaitsForGpus(s, line);
  if (submit.wait && s.detach) return Misuse("--wait and --detach exclude each other");
  if (!waits_for_gpus) GPUMAN_TRY(CheckStart(s));
  if (submit.job.name && submit.job.name->empty()) return Misuse("--tag: the tag is empty");
  if (s.pty && s.detach) return Misuse("--pty and --detach exclude each other");
  if (waits_for_gpus && submit.job.restart != spec::RestartMode::kNo)
    return Misuse("--restart does not go with --gpus",
                  "gpuman submit --retries N runs a job of the queue again when it fails");
  if (!HasCommand(s, line))
    return Misuse("there is no command to run",
                  waits_for_gpus ? "gpuman run --gpus 1 -- COMMAND ARGUMENTS…"
                                 : "gpuman run --tag NAME --memory 8GiB -- COMMAND ARGUMENTS…");
  return {};
}

// The queue's errors name the options of `submit`: --tag is --name there.
base::Error WithTag(base::Error error) {
  constexpr std::string_view kName = "--name: ";
  if (error.message.starts_with(kName)) error.message.replace(0, kName.size(), "--tag: ");
  return error;
}

Result<int> RunInQueue(CommandContext& session, const RunSettings& s, MadeSubmission made) {
  GPUMAN_TRY(Check(made, kGpuman));
  made.request.new_tags = made.request.jobs.front().name.has_value();
  if (s.pty && ::isatty(STDIN_FILENO) == 1) {
    GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
    return RunOnTerminal(session, daemon, std::move(made.request));
  }
  return s.detach ? QueueAndLeave(session, std::move(made)) : QueueAndShow(session, std::move(made));
}

api::RunRequest RequestOf(MadeSubmission made) {
  auto& job = made.request.jobs.front();
  return {static_cast<spec::RunOptions&>(job),
          *job.name,
          std::move(job.command),
          std::move(made.request.directory),
          std::move(made.request.environment),
          made.request.umask,
          std::move(job.gpus.devices)};
}

Result<int> RunNow(CommandContext& session, MadeSubmission made, bool wait) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::JobView job, api::Ask(daemon, api::routes::kRun, {}, RequestOf(std::move(made))));
  for (const auto& note : job.notes) session.Note(note);
  if (wait) return WaitForJob(session, daemon, job);
  GPUMAN_TRY(Show(session, job, [&] { return JobSentence(job) + "\n"; }));
  const bool never_ran = spec::IsEnded(job.state) && !job.started_at;
  if (never_ran && job.reason_detail) session.Note(WithLocalTimes(*job.reason_detail));
  return never_ran ? kExitFailed : kExitDone;
}

Result<int> RunInTurns(CommandContext& session, const RunSettings& s, MadeSubmission made) {
  auto& job = made.request.jobs.front();
  if (job.gpus.devices.empty()) {
    GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
    GPUMAN_ASSIGN(const auto info, api::AskWithoutTimeout(daemon, api::routes::kQueueInfo));
    GPUMAN_ASSIGN(const auto status, api::AskWithoutTimeout(daemon, api::routes::kStatus));
    GPUMAN_ASSIGN(job.gpus.devices,
                  ChooseGpusForTurns(info, status.jobs, static_cast<std::size_t>(job.gpus.count)));
  }
  if (!job.name) job.name = fmt::format("run-{}", ::getpid());
  return RunNow(session, std::move(made), !s.detach);
}

Result<int> Run(CommandContext& session, const RunSettings& s, const CommandLine& line,
                const ToolCompatibility& tools) {
  GPUMAN_TRY(CheckTogether(s, line));
  GPUMAN_ASSIGN(const SubmitContext context, ContextOfThisProcess(tools));
  GPUMAN_ASSIGN(MadeSubmission made, MakeOneJob(s.submit, line, context));
  TellNotes(session, made);
  if (TakesTurns(s)) return RunInTurns(session, s, std::move(made));
  if (!WaitsForGpus(s, line)) return RunNow(session, std::move(made), s.submit.wait);
  auto status = RunInQueue(session, s, std::move(made));
  if (!status) return base::Fail(WithTag(std::move(status.error())));
  return status;
}

// The options that `submit` and a job that starts at once have in common, with the names, headings and help
// of `run`.
class OptionsOfRun {
 public:
  explicit OptionsOfRun(RunSettings& s)
      : s_(s), submit_(SubmitOptions(s.submit, base::SystemClock().Wall())) {}

  Options Make() {
    Main();
    Limits();
    Sharing();
    Rest();
    return std::move(options_);
  }

 private:
  void Main() {
    heading_ = "";
    AddFromSubmit("--name", "-t,--tag",
                  "Name of the job; no other job that has not ended has it (default with --gpus: job-ID)");
    AddFromSubmit("--memory", "-m,--memory",
                  "Memory limit on each of its GPUs: bytes, 512MiB, 8G, or 50% of the GPU; with --gpus also "
                  "auto: what past runs of its name used");
    AddFromSubmit("--wait", "-w,--wait",
                  "Show the job's output and exit with its exit status; Ctrl-C is passed on to it");
    Add("-d,--detach", "", "Return as soon as the job is started (the default)", take::Flag(s_.detach));
    AddFromSubmit(
        "--gpu", "-g,--gpu",
        "GPU that it may use, by index or UUID, or a MIG instance (0:1); repeat for more (default: all)");
    AddFromSubmit(
        "--gpus", "--gpus",
        "Wait in the queue until N GPUs are free, run it on them, and show its output as --wait does; with "
        "--share and no --memory it starts at once and takes turns");
    AddFromSubmit("--time", "--time", "With --gpus: stop it after this time");
    Add("--pty", "", "With --gpus: connect it to this terminal, for a shell or a debugger",
        take::Flag(s_.pty));
    AddFromSubmit("--command", "-c,--command");
  }

  void Limits() {
    heading_ = "Limits, priority and restart";
    AddFromSubmit("--soft", "--soft",
                  "Soft memory limit: above it gpuman warns, and stops this job first when a GPU is full");
    AddFromSubmit(
        "--priority", "-p,--priority",
        "0 to 255 (default: 128); when a GPU is full, jobs with a lower priority are stopped first");
    Add("--restart", kRestartValue, "Whether to start it again when it ends (default: no)",
        take::Into(s_.submit.job.restart, ParseRestartMode));
    AddFromSubmit("--grace", "--grace",
                  "Time between SIGTERM and SIGKILL when the job is stopped: 500ms, 30s, 2m");
    AddFromSubmit("--no-preload", "--no-preload",
                  "Do not load libgpuman.so into the job; the daemon alone enforces its limit");
    AddFromSubmit("--trace-allocations", "--trace-allocations");
  }

  void Sharing() {
    heading_ = "Sharing and settings of GPUs";
    AddFromSubmit(
        "--share", "--share",
        "Share its GPUs with other jobs; jobs that do not fit together take turns (gpuman share status)");
    for (const char* name : {"--weight", "--interactive", "--compute", "--latency", "--idle-suspend"})
      AddFromSubmit(name, name);
    AddFromSubmit("--oversubscribe", "--oversubscribe",
                  "Let a process allocate more memory than its GPU has; the driver pages it, which is slow");
    AddFromSubmit("--device-profile", "--device-profile",
                  "Clocks and power limit while no other job uses its GPUs (gpuman device profile list)");
    AddFromSubmit(
        "--mps", "--mps",
        "Run its processes as clients of the GPU's MPS server, at the same time as those of other jobs");
    AddFromSubmit("--mps-threads", "--mps-threads");
  }

  // The other options of a job that starts at once.
  void Rest() {
    heading_ = "More";
    for (const Option& option : submit_)
      if (api::IsRunOption(option.sets) && added_.count(option.sets) == 0) AddFromSubmit(option);
  }

  void Add(const char* names, const char* value, const char* help, Take take) {
    options_.push_back({names, value, help, std::move(take), heading_});
  }

  void AddFromSubmit(const char* name, const char* names, const char* help = nullptr) {
    Option option = OptionNamed(submit_, name);
    option.names = names;
    if (help != nullptr) option.help = help;
    AddFromSubmit(std::move(option));
  }
  void AddFromSubmit(Option option) {
    option.heading = heading_;
    added_.insert(option.sets);
    options_.push_back(std::move(option));
  }

  RunSettings& s_;
  const Options submit_;
  Options options_;
  std::set<std::string> added_;  // fields of the API
  const char* heading_ = "";
};

}  // namespace
}  // namespace queue

Command RunCommand(const queue::ToolCompatibility& tools) {
  const auto s = std::make_shared<queue::RunSettings>();  // shared by the options and the action
  return {.name = "run",
          .summary = "Start a job now, with a limit on its GPU memory",
          .example =
              "gpuman run --tag train --memory 8GiB -- python train.py --epochs 3\n"
              "  gpuman run --tag test_cuda_app --command $PWD/build/cuda_mem_stable --memory 2GiB\n"
              "  gpuman run --share --tag a --gpu 0,1 -- torchrun --standalone --nproc-per-node 2 a.py\n"
              "  gpuman run --gpus 1 --pty -- bash",
          .arguments = {},
          .options = queue::OptionsOfRun(*s).Make(),
          .run = [s, &tools](CommandContext& session,
                             const CommandLine& line) { return queue::Run(session, *s, line, tools); },
          .user_command = "(-- COMMAND... | --command STRING)"};
}

}  // namespace gpuman::cli
