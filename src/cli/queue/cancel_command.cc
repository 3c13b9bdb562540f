// cancel: cancel many jobs at once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/ask.h"
#include "api/queue_client.h"
#include "cli/printed_json.h"
#include "cli/queue/commands.h"
#include "cli/queue/listing.h"
#include "cli/queue/named_jobs.h"
#include "cli/queue/tool_compatibility.h"
#include "cli/take.h"

namespace gpuman::cli::queue {
namespace {

using base::Result;

// Cancels the jobs of another queue, and takes them out of `refs`; in JSON mode the results are appended to
// `list`. Returns the highest exit status.
int CancelElsewhere(CommandContext& session, const ExternalQueue& other, std::vector<std::string>& refs,
                    bool dry_run, api::Json& list) {
  int status = kExitDone;
  std::vector<std::string> here;
  for (auto& ref : refs) {
    const auto job = other.Find(session, ref);
    if (!job) {
      here.push_back(std::move(ref));
      continue;
    }
    const auto before = job->Cancel(dry_run);
    const auto id = job->Name();
    base::json::JsonObjectWriter one(kPrintedFormat);
    one("job", id);
    one("id", id);
    one("state", !before ? std::nullopt : std::optional(dry_run ? *before : spec::JobState::kCancelled));
    if (!before) {
      session.PrintError(before.error());
      status = std::max(status, ExitStatusOf(before.error().code));
      one("error", before.error().message);
      one("error_code", std::string(base::ToString(before.error().code)));
    } else if (dry_run) {
      one("would_cancel", true);
      if (!session.json) session.Print(fmt::format("{}\t{}\tok\n", id, LongState(*before)));
    } else if (!session.json) {
      session.Print(fmt::format("Job {} cancelled.\n", id));
    }
    list.push_back(std::move(one).Take());
  }
  refs = std::move(here);
  return status;
}

// Prints why a job is not cancelled. Returns the exit status.
int PrintRefusal(CommandContext& session, const api::Client& daemon, const api::CancelResult& job,
                 bool is_alone) {
  const auto code = base::ErrorCodeFromString(job.error_code.value_or(""));
  base::Error error{code, fmt::format("{}: {}", job.job, job.error.value_or("it cannot be cancelled")),
                    job.error_hint.value_or("")};
  if (is_alone) error = WithNearestTag(daemon, job.job, std::move(error));
  session.PrintError(error);
  return ExitStatusOf(code);
}

// Prints what a cancellation would do: which jobs it would cancel, in gflow's lines, and which jobs depend on
// them.
Result<int> PreviewCancel(CommandContext& session, const api::Client& daemon,
                          const std::vector<std::string>& refs, const api::Json& elsewhere) {
  GPUMAN_ASSIGN(const auto answer,
                api::AskWithoutTimeout(daemon, api::routes::kCancelJobs, {}, {refs, true}));
  std::string text;
  api::Json jobs = api::Json::array(), dependents = api::Json::array();
  std::set<std::int64_t> seen;
  int status = kExitDone;
  for (const auto& job : answer.jobs) {
    if (job.state && !seen.insert(job.id).second) continue;
    const bool ok = job.state && !spec::IsEnded(*job.state);
    base::json::JsonObjectWriter one(kPrintedFormat);
    if (!job.state) one("job", job.job);
    one("id", job.id);
    one("state", job.state);
    one("would_cancel", ok);
    if (job.state) {
      text += fmt::format("{}\t{}\t{}\n", job.id, LongState(*job.state), ok ? "ok" : "invalid");
    } else {
      status = std::max(status, PrintRefusal(session, daemon, job, refs.size() == 1));
      one("error", job.error.value_or(""));
      one("error_code", job.error_code.value_or(""));
    }
    jobs.push_back(std::move(one).Take());
  }
  for (const auto& job : answer.dependents) {
    text += fmt::format("{}\t{}\tblocked\t{}\n", job.id, LongState(job.state), job.depends_on);
    base::json::JsonObjectWriter one(kPrintedFormat);
    one("id", job.id);
    one("state", job.state);
    one("depends_on", std::to_string(job.depends_on));
    one("would_cancel", job.cancelled);
    dependents.push_back(std::move(one).Take());
  }
  jobs.insert(jobs.end(), elsewhere.begin(), elsewhere.end());
  if (session.json)
    session.PrintJson({{"jobs", std::move(jobs)}, {"dependents", std::move(dependents)}});
  else
    session.Print(text);
  return status;
}

// The jobs that are cancelled as they waited for the cancelled ones, one on each line, or how many there are.
std::string CancelledToo(const std::vector<api::AffectedDependent>& dependents) {
  constexpr std::ptrdiff_t kMaxLines = 20;
  const auto count =
      std::count_if(dependents.begin(), dependents.end(), [](const auto& job) { return job.cancelled; });
  if (count > kMaxLines)
    return fmt::format("{}{} jobs that waited for them are cancelled too.\n",
                       dependents.size() == api::kMaxCancelledDependents ? "At least " : "", count);
  std::string text;
  for (const auto& job : dependents)
    if (job.cancelled)
      text += fmt::format("Job {} ({}) waited for job {} and is cancelled too.\n", job.id, Printable(job.tag),
                          job.depends_on);
  return text;
}

Result<int> Cancel(CommandContext& session, const ExternalQueue& other, bool dry_run,
                   const std::vector<std::string>& words) {
  GPUMAN_ASSIGN(auto refs, JobsNamed(session, words));
  api::Json elsewhere = api::Json::array();
  int status = CancelElsewhere(session, other, refs, dry_run, elsewhere);
  if (refs.empty()) {
    if (session.json) session.PrintJson({{"jobs", std::move(elsewhere)}});
    return status;
  }
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  if (dry_run) {
    GPUMAN_ASSIGN(const int here, PreviewCancel(session, daemon, refs, elsewhere));
    return std::max(status, here);
  }
  GPUMAN_ASSIGN(const auto answer, api::AskWithoutTimeout(daemon, api::routes::kCancelJobs, {}, {refs}));
  std::map<std::string, std::set<std::int64_t>> tasks;  // the tasks of an array, which have one name
  for (const auto& job : answer.jobs)
    if (job.state) tasks[job.job].insert(job.id);
  for (const auto& job : answer.jobs) {
    if (job.state) {
      const auto ids = std::exchange(tasks[job.job], {});
      if (ids.empty() || session.json) continue;
      const bool by_id = job.job == std::to_string(job.id);
      session.Print(fmt::format("Job {}{} cancelled{}.\n", job.id,
                                by_id ? std::string() : fmt::format(" ({})", Printable(job.job)),
                                ids.size() > 1 ? fmt::format(": {} tasks", ids.size()) : std::string()));
      continue;
    }
    status = std::max(status, PrintRefusal(session, daemon, job, refs.size() == 1));
  }
  if (!session.json) session.Print(CancelledToo(answer.dependents));
  if (session.json) {
    api::Json json = api::ToJson(answer);
    json["jobs"].insert(json["jobs"].end(), elsewhere.begin(), elsewhere.end());
    session.PrintJson(json);
  }
  return status;
}

}  // namespace

Command CancelCommand(const ToolCompatibility& tools) {
  const auto dry_run = std::make_shared<bool>(false);  // shared by the option and the action
  return {"cancel",
          "Cancel jobs: waiting ones leave the queue, running ones are stopped",
          "gpuman cancel 7 train 10-19 20_3",
          {UsualArgument(kJobValue, kAnyNumber)},
          {{"--dry-run", "", "Only show which jobs, and which jobs wait for them", take::Flag(*dry_run)}},
          [dry_run, &tools](CommandContext& session, const auto& line) {
            return Cancel(session, tools.queue, *dry_run, line.words);
          }};
}

}  // namespace gpuman::cli::queue
