// cancel, gcancel: cancel many jobs at once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/ask.h"
#include "api/queue_client.h"
#include "cli/compat/slurm/actions.h"
#include "cli/queue/commands.h"
#include "cli/queue/listing.h"
#include "cli/take.h"

namespace gpuman::cli::queue {
namespace {

using base::Result;

// Cancels jobs in Slurm; in JSON mode the results are appended to `list`. Returns the highest exit status.
int CancelInSlurm(Session& session, const std::vector<slurm::JobName>& names, bool dry_run, api::Json& list) {
  if (names.empty()) return kExitDone;
  int status = kExitDone;
  for (const auto& [name, job, error] : slurm::Cancel(slurm::Engine(session), names, dry_run)) {
    const auto id = slurm::ToString(name);
    api::Json one = {{"job", id}, {"id", id}};
    if (error) {
      session.PrintError(*error);
      status = std::max(status, ExitStatusOf(error->code));
      one["state"] = nullptr;
      one["error"] = error->message;
      one["error_code"] = std::string(base::ToString(error->code));
    } else if (dry_run) {
      one["state"] = std::string(spec::ToString(*job->state));
      one["would_cancel"] = true;
      if (!session.json) session.Print(fmt::format("{}\t{}\tok\n", id, GflowState(*job->state)));
    } else {
      one["state"] = "cancelled";
      if (!session.json) session.Print(fmt::format("Job {} cancelled.\n", id));
    }
    list.push_back(std::move(one));
  }
  return status;
}

// A job that waits for a job that would be cancelled.
struct Dependent {
  const api::JobView* job;
  std::string on;     // the id of the job that it waits for
  bool would_cancel;  // the daemon cancels it too, as it could never start
};

// Whether a job could never start after the jobs `gone` were cancelled, and is cancelled for that.
bool GoesToo(const api::QueueFields& job, const std::set<std::string>& gone) {
  const auto& [mode, list] = job.depends;
  const auto never = [&](const api::Dependency& each) {
    return each.kind == spec::DependencyKind::kAfterOk && gone.contains(each.job);
  };
  if (!job.auto_cancel) return false;
  return mode == spec::DependencyMode::kAny ? std::all_of(list.begin(), list.end(), never)
                                            : std::any_of(list.begin(), list.end(), never);
}

// The jobs that wait for the jobs `gone`, then those that wait for them, and so on along the jobs that are
// cancelled too.
std::vector<Dependent> DependentsOf(const std::vector<api::JobView>& queue, std::set<std::string> gone) {
  std::vector<Dependent> dependents;
  for (auto nearest = gone; !nearest.empty();) {
    std::set<std::string> next;
    for (const auto& job : queue) {
      const auto id = std::to_string(job.id);
      if (!job.queue || gone.contains(id)) continue;
      const bool goes = GoesToo(*job.queue, gone);
      for (const auto& dependency : job.queue->depends.list) {
        if (!nearest.contains(dependency.job)) continue;
        dependents.push_back({&job, dependency.job, goes});
        if (goes) next.insert(id);
      }
    }
    gone.insert(next.begin(), next.end());
    nearest = std::move(next);
  }
  return dependents;
}

// Prints why a job is not cancelled. Returns the exit status.
int PrintRefusal(Session& session, const api::Client& daemon, const api::CancelledJob& job, bool is_alone) {
  const auto code = base::ErrorCodeFromString(job.error_code.value_or(""));
  base::Error error{code, fmt::format("{}: {}", job.job, job.error.value_or("it cannot be cancelled")),
                    job.error_hint.value_or("")};
  if (is_alone) error = WithNearestTag(daemon, job.job, std::move(error));
  session.PrintError(error);
  return ExitStatusOf(code);
}

// The part of a preview about jobs, in gflow's lines and as JSON.
struct Preview {
  std::string text;
  api::Json jobs = api::Json::array(), dependents = api::Json::array();
  int status = kExitDone;
};

// Asks the daemon which of the names it would refuse to cancel; returns the others.
Result<std::vector<std::string>> AskWhichMay(Session& session, const api::Client& daemon,
                                             const std::vector<std::string>& refs, Preview& preview) {
  GPUMAN_ASSIGN(const auto answer, api::AskPatiently(daemon, api::routes::kCancelJobs, {}, {refs, true}));
  std::set<std::string> seen;
  std::vector<std::string> may;
  for (const auto& job : answer.jobs) {
    if (!job.error) {
      if (seen.insert(job.job).second) may.push_back(job.job);
      continue;
    }
    preview.status = std::max(preview.status, PrintRefusal(session, daemon, job, refs.size() == 1));
    preview.jobs.push_back({{"job", job.job},
                            {"id", job.id},
                            {"state", nullptr},
                            {"would_cancel", false},
                            {"error", *job.error},
                            {"error_code", job.error_code.value_or("")}});
  }
  return may;
}

Result<> PreviewJobs(const api::Client& daemon, const std::vector<std::string>& refs, Preview& preview) {
  api::QueueFilter filter;
  filter.jobs = refs;
  filter.states = {"all"};
  GPUMAN_ASSIGN(const auto jobs, api::ListQueue(daemon, filter));
  GPUMAN_ASSIGN(const auto queue, api::ListQueue(daemon, {}));
  std::set<std::string> ids;
  for (const auto& job : jobs.jobs) {
    ids.insert(std::to_string(job.id));
    const bool ok = !spec::IsEnded(job.state);
    preview.text += fmt::format("{}\t{}\t{}\n", job.id, GflowState(job.state), ok ? "ok" : "invalid");
    preview.jobs.push_back(
        {{"id", job.id}, {"state", std::string(spec::ToString(job.state))}, {"would_cancel", ok}});
  }
  for (const auto& [job, on, would_cancel] : DependentsOf(queue.jobs, ids)) {
    preview.text += fmt::format("{}\t{}\tblocked\t{}\n", job->id, GflowState(job->state), on);
    preview.dependents.push_back({{"id", job->id},
                                  {"state", std::string(spec::ToString(job->state))},
                                  {"depends_on", on},
                                  {"would_cancel", would_cancel}});
  }
  return {};
}

// Prints what a cancellation would do: which jobs it would cancel, and which jobs depend on them.
Result<int> PreviewCancel(Session& session, const api::Client& daemon, const std::vector<std::string>& refs,
                          const api::Json& in_slurm) {
  Preview preview;
  GPUMAN_ASSIGN(const auto may, AskWhichMay(session, daemon, refs, preview));
  if (!may.empty()) GPUMAN_TRY(PreviewJobs(daemon, may, preview));
  preview.jobs.insert(preview.jobs.end(), in_slurm.begin(), in_slurm.end());
  if (session.json)
    session.PrintJson({{"jobs", std::move(preview.jobs)}, {"dependents", std::move(preview.dependents)}});
  else
    session.Print(preview.text);
  return preview.status;
}

Result<int> Cancel(Session& session, bool dry_run, const std::vector<std::string>& words) {
  GPUMAN_ASSIGN(auto refs, JobsOf(words));
  api::Json in_slurm = api::Json::array();
  int status = CancelInSlurm(session, slurm::TakeJobs(refs), dry_run, in_slurm);
  if (refs.empty()) {
    if (session.json) session.PrintJson({{"jobs", std::move(in_slurm)}});
    return status;
  }
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  if (dry_run) {
    GPUMAN_ASSIGN(const int here, PreviewCancel(session, daemon, refs, in_slurm));
    return std::max(status, here);
  }
  GPUMAN_ASSIGN(const auto answer, api::AskPatiently(daemon, api::routes::kCancelJobs, {}, {refs}));
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
  if (session.json) {
    api::Json json = api::ToJson(answer);
    json["jobs"].insert(json["jobs"].end(), in_slurm.begin(), in_slurm.end());
    session.PrintJson(json);
  }
  return status;
}

}  // namespace

Command CancelCommand(Flavour flavour) {
  const auto dry_run = std::make_shared<bool>(false);  // shared by the option and the action
  const bool gflow = flavour == Flavour::kGflow;
  Command command{
      gflow ? "gcancel" : "cancel",
      "Cancel jobs: waiting ones leave the queue, running ones are stopped",
      gflow ? "gcancel 1,3,5-7" : "gpuman cancel 7 train 10-19 20_3",
      {UsualArgument(kJobValue, kAnyNumber)},
      {{"--dry-run", "", "Only show which jobs, and which jobs wait for them", take::Flag(*dry_run)}},
      [dry_run](Session& session, const auto& line) { return Cancel(session, *dry_run, line.words); }};
  if (gflow) {
    command.options.push_back({"--cancel,--kill", "", "", take::Nothing()});
    command.options.push_back({"--config", "FILE", "", take::Nothing()});
  }
  return command;
}

}  // namespace gpuman::cli::queue
