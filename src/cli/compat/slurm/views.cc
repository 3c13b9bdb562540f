#include "cli/compat/slurm/views.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command_line.h"
#include "cli/compat/slurm/translate.h"
#include "cli/printed_json.h"
#include "cli/queue/listing.h"
#include "cli/queue/when.h"
#include "cli/table.h"
#include "cli/text.h"

namespace gpuman::cli::slurm {
namespace {

using spec::JobState;

bool Has(const std::vector<std::string>& list, const std::string& word) {
  return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
}

std::string StateText(const SlurmJobView& job) {
  std::string text = job.state ? std::string(spec::ToString(*job.state)) : std::string(kUnknown);
  if (job.exit_code && *job.exit_code != 0) text += fmt::format(" (exit status {})", *job.exit_code);
  if (job.signal) text += fmt::format(" (signal {})", *job.signal);
  return text;
}

std::optional<base::Millis> RunTime(const SlurmJobView& job, base::WallTime now) {
  if (IsWaiting(job) || !job.started_at) return std::nullopt;
  return std::max(base::Millis(0), job.ended_at.value_or(now) - *job.started_at);
}

void TakeKept(const SubmissionRecord& kept, SlurmJobView& line) {
  line.tag = kept.name;
  line.project = kept.project;
  line.command = kept.command;
  line.directory = kept.directory;
  line.submitted_at = kept.submitted_at;
}

void TakeEnd(const JobEnd& ended, SlurmJobView& line) {
  if (ended.known) line.state = ended.state;
  line.exit_code = ended.exit_code;
  line.signal = ended.signal;
  line.ended_at = ended.at;
}

// Turns "gres:gpu:2" into "gpu:2".
std::string_view WithoutPrefix(std::string_view gres) {
  constexpr std::string_view kPrefix = "gres:";
  return gres.starts_with(kPrefix) ? gres.substr(kPrefix.size()) : gres;
}

}  // namespace

SlurmJobView LineOf(const std::optional<SeenJob>& seen, const std::optional<SubmissionRecord>& kept) {
  SlurmJobView line;
  if (kept) TakeKept(*kept, line);
  if (!seen) {
    line.id = ToString(SlurmJobId{kept->id, {}});
    line.output = kept->array ? kept->output : ExpandFile(kept->output, {kept->id, {}}, kept->id, kept->name);
    if (kept->ended) TakeEnd(*kept->ended, line);
    return line;
  }
  line.id = NameOf(*seen);
  if (!seen->name.empty()) line.tag = seen->name;
  line.user = seen->user;
  line.state = seen->state;
  line.state_word = seen->state_word;
  const bool tells = IsWaiting(line) || spec::IsEnded(seen->state);
  line.reason_word = tells ? seen->reason : "";
  line.reason = ReasonOf(line.reason_word);
  line.nodes = seen->nodes;
  line.partition = seen->partition;
  line.gres = WithoutPrefix(seen->gres);
  // Tasks that wait together have no common file in Slurm.
  const auto name = SlurmJobIdFromString(line.id);
  if (kept)
    line.output = name ? ExpandFile(kept->output, *name, seen->id, kept->name) : kept->output;
  else if (name)
    line.output = seen->output;
  line.time_limit = seen->time_limit;
  if (seen->submitted) line.submitted_at = seen->submitted;
  line.started_at = seen->started;
  TakeEnd(EndOf(*seen), line);
  line.state = seen->state;
  return line;
}

std::vector<SlurmJobView> LinesOf(const std::vector<SeenJob>& seen,
                                  const std::vector<SubmissionRecord>& kept) {
  std::vector<SlurmJobView> lines;
  for (const auto& job : kept) {
    std::vector<SeenJob> tasks;
    std::copy_if(seen.begin(), seen.end(), std::back_inserter(tasks),
                 [&](const SeenJob& one) { return one.job == job.id; });
    SortTasks(tasks);
    for (const auto& one : tasks) lines.push_back(LineOf(one, job));
    if (tasks.empty()) lines.push_back(LineOf(std::nullopt, job));
  }
  return lines;
}

bool IsChosen(const SlurmJobView& job, const api::QueueFilter& filter) {
  const auto state = job.state ? std::string(spec::ToString(*job.state)) : std::string(kUnknown);
  const bool all = Has(filter.states, "all") && !filter.states.empty();
  const bool ended = !job.state || spec::IsEnded(*job.state);
  if (filter.states.empty() ? ended : !all && !Has(filter.states, state)) return false;
  const auto whole = job.id.substr(0, job.id.find('_'));
  if (!Has(filter.jobs, job.id) && !Has(filter.jobs, whole) && !Has(filter.jobs, job.tag)) return false;
  return Has(filter.names, job.tag) && Has(filter.projects, job.project.value_or("")) &&
         (job.user.empty() || Has(filter.users, job.user));
}

JobEnd EndOf(const SeenJob& job) { return {job.state, true, job.exit_code, job.signal, job.ended}; }

int ExitStatusOf(const JobEnd& ended) {
  constexpr int kFailed = 1;
  if (!ended.known) return kFailed;
  if (ended.signal) return 128 + *ended.signal;
  if (ended.exit_code && (*ended.exit_code != 0 || ended.state == JobState::kFinished))
    return *ended.exit_code;
  return ended.state == JobState::kFinished ? 0 : kFailed;
}

JobEnd WorstOf(const std::vector<SeenJob>& jobs) {
  JobEnd worst;
  for (const auto& job : jobs) {
    const auto one = EndOf(job);
    const auto at = std::max(worst.at, one.at);
    if (!worst.known || ExitStatusOf(one) > ExitStatusOf(worst)) worst = one;
    worst.at = at;
  }
  return worst;
}

std::string Sentence(const SlurmJobView& job) {
  const bool ended = !job.state || spec::IsEnded(*job.state);
  std::string text = fmt::format("job {} '{}' {} {}", job.id, Printable(job.tag), ended ? "has ended:" : "is",
                                 StateText(job));
  if (!job.state) return text + ", Slurm no longer says how";
  if (!job.reason_word.empty()) text += ": " + Printable(job.reason_word);
  return text;
}

std::string RenderTable(const std::vector<SlurmJobView>& jobs, const TerminalStyle& style,
                        base::WallTime now) {
  Table table({{"JOBID"},
               {"NAME", Align::kLeft, 8},
               {"ST"},
               {"TIME", Align::kRight},
               {"TIMELIMIT", Align::kRight},
               {"GRES"},
               {"NODELIST(REASON)", Align::kLeft, 12},
               {"START"}});
  for (const auto& job : jobs) {
    const auto time = RunTime(job, now);
    const auto reason = job.reason.empty() ? std::string("-") : fmt::format("({})", job.reason);
    table.Add(
        {job.id, job.tag, job.state ? std::string(queue::ShortState(*job.state)) : std::string(kUnknown),
         time ? queue::FormatClock(*time) : "-", job.time_limit ? queue::FormatClock(*job.time_limit) : "-",
         job.gres.empty() ? "-" : job.gres, job.nodes.empty() || IsWaiting(job) ? reason : job.nodes,
         job.started_at ? queue::FormatWhen(*job.started_at, now) : "-"});
  }
  return table.Render(style);
}

std::string RenderJob(const SlurmJobView& job, const TerminalStyle& style) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty())
      text +=
          fmt::format("{}{}\n", Paint(style, Color::kBold, fmt::format("{:<16}", name)), Printable(value));
  };
  const auto when = [&](std::string_view name, const std::optional<base::WallTime>& time) {
    if (time) line(name, queue::FormatLocal(*time));
  };
  line("Job", job.id);
  line("Name", job.tag);
  line("User", job.user);
  line("State",
       job.state_word.empty() ? StateText(job) : fmt::format("{}, {}", StateText(job), job.state_word));
  line("Reason", job.reason_word);
  line("Command", JoinCommand(job.command));
  line("Directory", job.directory);
  line("GPUs asked", job.gres);
  line("Nodes", job.nodes);
  line("Partition", job.partition);
  line("Project", job.project.value_or(""));
  if (job.time_limit) line("Time limit", base::FormatDuration(*job.time_limit));
  when("Submitted", job.submitted_at);
  when(IsWaiting(job) ? "Expected start" : "Started", job.started_at);
  when("Ended", job.ended_at);
  line("Output", job.output);
  return text;
}

static void Fields(base::json::JsonObjectWriter& v, const SlurmJobView& job) {
  const bool waits = IsWaiting(job);
  v("id", job.id);
  v("tag", job.tag);
  v("user", NonEmpty(job.user));
  v("project", job.project);
  v("state", job.state);
  v("reason", NonEmpty(job.reason));
  v("reason_detail", NonEmpty(job.reason_word));
  v("command", job.command);
  v("directory", NonEmpty(job.directory));
  v("exit_code", job.exit_code);
  v("signal", job.signal);
  v("submitted_at", job.submitted_at);
  v("started_at", waits ? std::nullopt : job.started_at);
  v("ended_at", job.ended_at);
  v("estimated_start", waits ? job.started_at : std::nullopt);
  v("time_limit_s", SecondsOf(job.time_limit));
  v("log_path", NonEmpty(job.output));
  v.Group("slurm", [&](auto& slurm) {
    slurm("state", NonEmpty(job.state_word));
    slurm("gres", NonEmpty(job.gres));
    slurm("nodes", waits ? std::nullopt : NonEmpty(job.nodes));
    slurm("partition", NonEmpty(job.partition));
  });
}

api::Json ToJson(const SlurmJobView& job) { return base::json::Write(kPrintedFormat, job); }

}  // namespace gpuman::cli::slurm
