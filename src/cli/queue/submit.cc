#include "cli/queue/submit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "api/ask.h"
#include "api/queue_json.h"
#include "base/parse_number.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/queue/named_jobs.h"
#include "cli/queue/when.h"
#include "cli/queue/wording.h"
#include "cli/show.h"
#include "cli/wait.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;

constexpr std::size_t kMaxLines = 20;  // more jobs than this are summed up
constexpr std::size_t kLargestInput = std::size_t{64} << 20;

Result<std::string> ReadAll(int fd) {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) return text;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::FailSystem(errno, "reading standard input");
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > kLargestInput)
      return base::Fail(ErrorCode::kInvalidArgument, "standard input is larger than 64MiB");
  }
}

// What a dry run calls the jobs of a request, which have no ids.
class NamesOfDryRun {
 public:
  NamesOfDryRun(const api::SubmitRequest& request, const std::vector<std::string>& origins)
      : request_(request), origins_(origins) {}

  // "job 'train'", "array 'sweep' of 4 tasks"; without a name "the job of list.txt:2", "the job 'echo 1'",
  // or "the job".
  std::string Of(std::size_t place) const {
    if (place >= request_.jobs.size()) return "the job";
    const auto& job = request_.jobs[place];
    const auto tasks = job.array ? fmt::format(" of {} tasks", api::CountTasks(*job.array)) : std::string();
    const std::string_view what = job.array ? "array" : "job";
    if (job.name) return fmt::format("{} '{}'{}", what, *job.name, tasks);
    auto text = fmt::format("the {}{}", what, tasks);
    if (place < origins_.size() && !origins_[place].empty()) return text + " of " + origins_[place];
    if (request_.jobs.size() == 1 || job.command.empty()) return text;
    return fmt::format("{} '{}'", text, Cut(JoinCommand(job.command), kLongestCommand));
  }

  // The daemon's sentence, in which "jobs[1]" stands for the second job of the request.
  std::string In(std::string_view sentence) const {
    constexpr std::string_view kBegin = "jobs[";
    std::string text;
    for (std::size_t at = 0; (at = sentence.find(kBegin)) != std::string_view::npos;) {
      text += sentence.substr(0, at);
      sentence.remove_prefix(at + kBegin.size());
      auto rest = sentence;
      const auto place = base::TakeNumber<std::size_t>(rest);
      const bool is_place = place && rest.starts_with(']');
      text += is_place ? Of(*place) : std::string(kBegin);
      if (is_place) sentence = rest.substr(1);
    }
    return text.append(sentence);
  }

 private:
  static constexpr std::size_t kLongestCommand = 40;  // characters
  const api::SubmitRequest& request_;
  const std::vector<std::string>& origins_;
};

std::string QueuedNameOf(const api::SubmittedJob& job) {
  return job.tasks.empty() ? fmt::format("job {} '{}'", job.id, job.tag)
                           : fmt::format("array {} '{}' of {} tasks", job.id, job.tag, job.tasks.size());
}

// `dry_name`: what a dry run calls the job; empty: the job was queued.
std::string SentenceOf(const api::SubmittedJob& job, const std::string& dry_name,
                       const std::vector<api::GpuView>& gpus, base::WallTime now) {
  const bool dry_run = !dry_name.empty();
  std::string text = dry_run ? dry_name : QueuedNameOf(job);
  const bool starts = job.state == spec::JobState::kStarting || job.state == spec::JobState::kRunning;
  if (dry_run)
    text +=
        starts ? std::string(" would start at once") : fmt::format(" would be {}", spec::ToString(job.state));
  else
    text += fmt::format(" is {}", spec::ToString(job.state));
  if (!job.gpus.empty()) text += fmt::format(" on GPU {}", api::NumbersOf(job.gpus, gpus));
  if (!starts && (job.reason_detail || job.reason))
    text += ": " + WithLocalTimes(job.reason_detail ? *job.reason_detail : *job.reason);
  // A job without a reason starts as soon as the queue gets to it.
  if (!starts && job.reason && job.estimated_start && job.estimate_presumed)
    text += fmt::format(
        "; expected start: {} (a guess: jobs in front have no time limit; `--time` would make it an "
        "estimate)",
        FormatAbout(*job.estimated_start, now));
  else if (!starts && job.reason && job.estimated_start)
    text += fmt::format("; expected start: {}", FormatWhen(*job.estimated_start, now));
  return text;
}

Result<int> WaitForAll(CommandContext& session, const api::Client& daemon,
                       const api::SubmissionAnswer& answer) {
  std::vector<std::int64_t> ids;
  for (const auto& job : answer.jobs) {
    if (job.tasks.empty())
      ids.push_back(job.id);
    else
      ids.insert(ids.end(), job.tasks.begin(), job.tasks.end());
  }
  if (ids.size() == 1) {
    GPUMAN_ASSIGN(const api::JobView job, daemon.Job(std::to_string(ids.front())));
    return WaitForJob(session, daemon, job);
  }
  int worst = kExitDone;
  for (const auto id : ids) {
    GPUMAN_ASSIGN(const api::JobView ended, WaitForEnd(session, daemon, std::to_string(id)));
    GPUMAN_TRY(Show(session, ended, [&] {
      return fmt::format("job {} '{}' {}\n", ended.id, Printable(ended.tag), spec::ToString(ended.state));
    }));
    TellNotes(session, ended);
    session.Flush();
    worst = std::max(worst, ExitStatusOfJob(ended));
  }
  return worst;
}

// Sends the submission, and shows the daemon's notes; a refusal names the options that the user typed.
Result<api::SubmissionAnswer> Send(CommandContext& session, const api::Client& daemon, MadeSubmission& made,
                                   const CommandDialect& dialect) {
  SweepResolver sweeps(session);
  for (auto& job : made.request.jobs) GPUMAN_TRY(sweeps.Resolve(job.depends));
  auto answer = api::AskWithoutTimeout(daemon, api::routes::kSubmit, {}, made.request);
  if (!answer) return base::Fail(WithOrigins(std::move(answer.error()), made.origins, dialect, made.lines));
  for (const auto& note : answer->notes) session.Note(note);
  return answer;
}

Result<int> WaitOrPrint(CommandContext& session, const api::Client& daemon, const MadeSubmission& made,
                        const api::SubmissionAnswer& answer) {
  if (made.wait) return WaitForAll(session, daemon, answer);
  PrintAnswer(session, daemon, made, answer);
  return kExitDone;
}

}  // namespace

api::Json JsonOf(const api::SubmissionAnswer& answer) {
  api::Json json = api::ToJson(answer);
  if (answer.jobs.size() != 1) return json;
  api::Json job = std::move(json["jobs"][0]);
  if (!answer.notes.empty()) job["notes"] = answer.notes;
  return job;
}

std::string RenderSubmitted(const api::SubmitRequest& request, const api::SubmissionAnswer& answer,
                            const std::vector<std::string>& origins, const std::vector<api::GpuView>& gpus,
                            base::WallTime now) {
  const NamesOfDryRun names(request, origins);
  std::string text;
  const std::size_t shown = answer.jobs.size() <= kMaxLines ? answer.jobs.size() : 1;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto sentence = SentenceOf(answer.jobs[i], request.dry_run ? names.Of(i) : "", gpus, now);
    text += Printable(request.dry_run ? names.In(sentence) : sentence) + "\n";
  }
  if (shown == answer.jobs.size()) return text;
  if (request.dry_run) return text + fmt::format("and {} more\n", answer.jobs.size() - 1);
  return text +
         fmt::format("and {} more, the last of them job {}\n", answer.jobs.size() - 1, answer.jobs.back().id);
}

void PrintAnswer(CommandContext& session, const api::Client& daemon, const MadeSubmission& made,
                 const api::SubmissionAnswer& answer) {
  const auto& request = made.request;
  if (session.json) {
    session.PrintJson(JsonOf(answer));
    return;
  }
  std::vector<api::GpuView> gpus;
  if (request.dry_run)
    if (auto list = daemon.Gpus()) gpus = std::move(list->gpus);
  session.Print(RenderSubmitted(request, answer, made.origins, gpus, base::SystemClock().Wall()));
}

Result<SubmitContext> ContextOfThisProcess(const ToolCompatibility& tools) {
  SubmitContext context{tools};
  GPUMAN_ASSIGN(context.origin, OriginOfThisProcess());
  context.now = base::SystemClock().Wall();
  if (::isatty(STDIN_FILENO) == 0) context.standard_input = [] { return ReadAll(STDIN_FILENO); };
  return context;
}

void TellNotes(CommandContext& session, const MadeSubmission& made) {
  for (const auto& name : made.left_out)
    session.Note(fmt::format("the variable {} is not UTF-8; the job does not get it", Printable(name)));
  for (const auto& note : made.notes) session.Note(note);
}

Result<int> Submit(CommandContext& session, SubmitSettings settings, const CommandLine& line,
                   const CommandDialect& dialect, const ToolCompatibility& tools, Finish finish) {
  GPUMAN_ASSIGN(const SubmitContext context, ContextOfThisProcess(tools));
  GPUMAN_ASSIGN(MadeSubmission made, MakeSubmission(std::move(settings), line, dialect, context));
  TellNotes(session, made);
  if (made.to_other_queue) return tools.queue.Submit(session, made, dialect);
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto answer, Send(session, daemon, made, dialect));
  return finish(session, daemon, made, answer);
}

Result<int> QueueAndLeave(CommandContext& session, MadeSubmission made) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto answer, Send(session, daemon, made, kGpuman));
  PrintAnswer(session, daemon, made, answer);
  return kExitDone;
}

Result<int> QueueAndShow(CommandContext& session, MadeSubmission made) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const auto answer, Send(session, daemon, made, kGpuman));
  const auto& first = answer.jobs.front();
  if (first.state == spec::JobState::kQueued && first.reason)
    session.Note(SentenceOf(first, {}, {}, base::SystemClock().Wall()));
  GPUMAN_ASSIGN(const api::JobView job, daemon.Job(std::to_string(first.id)));
  return WaitForJob(session, daemon, job, InterruptPolicy::kCancelsWaiting);
}

}  // namespace gpuman::cli::queue

namespace gpuman::cli {

Command SubmitCommand(const queue::ToolCompatibility& tools) {
  const auto settings = std::make_shared<queue::SubmitSettings>();  // shared by the options and the action
  return {.name = "submit",
          .summary = "Queue a command or a script; it starts when GPUs are free",
          .example =
              "gpuman submit --gpus 1 --time 2h --name train -- python train.py\n"
              "  gpuman submit --gpus 2 train.sh\n"
              "  gpuman submit --gpus 1 --param lr=0.1,0.01 --param seed=1:3 -- python train.py --lr {lr} "
              "--seed {seed}\n"
              "  gpuman submit --array 0-99%4 --gpus 1 -- sh -c 'python eval.py $GPUMAN_ARRAY_TASK_ID'",
          .arguments = {},
          .options = queue::SubmitOptions(*settings, base::SystemClock().Wall()),
          .run =
              [settings, &tools](CommandContext& session, const CommandLine& line) {
                return queue::Submit(session, *settings, line, queue::kGpuman, tools, queue::WaitOrPrint);
              },
          .user_command = "(-- COMMAND... | SCRIPT ARGUMENTS... | --jobs FILE)",
          .ends_at_word = true};
}

}  // namespace gpuman::cli
