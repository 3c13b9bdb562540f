// Queue::Submit: `gpuman submit --to slurm`, `gbatch --to slurm` hand jobs to sbatch and record them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/parse_number.h"
#include "base/process_spawner.h"
#include "cli/command_line.h"
#include "cli/compat/slurm/follow.h"
#include "cli/compat/slurm/slurm_queue.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/request.h"
#include "cli/queue/wording.h"

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using base::Result;

Variables CallersVariables() {
  Variables variables;
  for (const auto& text : base::OwnEnvironment()) {
    const auto sign = text.find('=');
    if (sign != 0 && sign != std::string::npos)
      variables.emplace(text.substr(0, sign), text.substr(sign + 1));
  }
  return variables;
}

const Variables& VariablesOf(const queue::MadeSubmission& made, const api::Submission& job) {
  return job.environment ? *job.environment : made.request.environment;
}

// "@", "@~2".
std::optional<std::size_t> StepsBack(const std::string& word) {
  if (word == "@") return 0;
  if (!word.starts_with("@~") || word.size() > 6) return std::nullopt;
  return base::ParseNumber<std::size_t>(std::string_view(word).substr(2));
}

Result<SlurmJobId> Named(const std::string& word, const std::vector<SubmissionRecord>& kept) {
  if (const auto name = SlurmJobIdFromString(word)) return *name;
  if (const auto steps = StepsBack(word)) {
    if (*steps < kept.size()) return SlurmJobId{kept[kept.size() - 1 - *steps].id, {}};
    return base::Fail(ErrorCode::kNotFound,
                      fmt::format("{}: so many jobs were not submitted to Slurm", word));
  }
  const auto it =
      std::find_if(kept.rbegin(), kept.rend(), [&](const SubmissionRecord& job) { return job.name == word; });
  if (it != kept.rend()) return SlurmJobId{it->id, {}};
  return base::Fail(
      ErrorCode::kNotFound, fmt::format("no job of that name was submitted to Slurm: '{}'", word),
      "Slurm's jobs wait for Slurm's jobs: slurm-ID, or a name that went there with --to slurm");
}

// Slurm treats an unknown job as one that has ended successfully, and would start the dependent job at once.
Result<SlurmJobId> DependencyOf(const std::string& word, const SlurmContext& engine,
                                const std::vector<SubmissionRecord>& kept) {
  GPUMAN_ASSIGN(const auto name, Named(word, kept));
  const auto seen = engine.programs.FindNow(name);
  if (seen) return name;
  if (seen.error().code != ErrorCode::kNotFound) return base::Fail(seen.error());
  return base::Fail(ErrorCode::kNotFound, fmt::format("Slurm does not know {} (any more)", ToString(name)),
                    "a job cannot wait for it; leave it out if it has finished successfully");
}

struct Prepared {
  SbatchRequest job;
  Variables variables;
  bool has_callers_variables = false;
};

Result<std::vector<Prepared>> Prepare(CommandContext& session, const queue::MadeSubmission& made,
                                      const SlurmContext& engine, const queue::CommandDialect& dialect) {
  TranslationContext context;
  GPUMAN_ASSIGN(context.site, SiteOf(session.environment()));
  context.directory = made.request.directory;
  context.now = base::SystemClock().Wall();
  context.fallback_name = made.script_name;
  context.slurm_options = made.slurm_options;
  const auto kept = engine.record.Jobs();
  context.job_of = [&](const std::string& word) { return DependencyOf(word, engine, kept); };
  const auto callers = CallersVariables();
  std::vector<Prepared> list;
  for (std::size_t i = 0; i < made.request.jobs.size(); ++i) {
    const auto& job = made.request.jobs[i];
    auto translated = Translate(job, context);
    if (!translated) {
      auto error = std::move(translated.error());
      if (!made.origins[i].empty()) error = std::move(error).In(made.origins[i]);
      return base::Fail(queue::WithOptionNames(std::move(error), dialect));
    }
    const auto& variables = VariablesOf(made, job);
    const bool all = variables.size() + made.left_out.size() == callers.size() &&
                     std::all_of(variables.begin(), variables.end(), [&](const auto& variable) {
                       const auto it = callers.find(variable.first);
                       return it != callers.end() && it->second == variable.second;
                     });
    list.push_back({std::move(*translated), WithThoseOfSlurm(variables, callers), all});
  }
  return list;
}

// The command line that does the same, as a shell would read it.
std::string CommandLineOf(const Prepared& prepared) {
  std::vector<std::string> words;
  if (!prepared.has_callers_variables) {
    words = {"env", "-i"};
    for (const auto& [name, value] : prepared.variables) words.push_back(fmt::format("{}={}", name, value));
  }
  words.insert(words.end(), {"sbatch", "--parsable"});
  words.insert(words.end(), prepared.job.options.begin(), prepared.job.options.end());
  std::string end = "GPUMAN";
  while (("\n" + prepared.job.script).find("\n" + end + "\n") != std::string::npos) end += "_";
  const bool whole_lines = prepared.job.script.ends_with('\n');
  return fmt::format("{} <<'{}'\n{}{}{}\n", JoinCommand(words), end, prepared.job.script,
                     whole_lines ? "" : "\n", end);
}

int PrintDryRun(CommandContext& session, const std::vector<Prepared>& list) {
  api::Json jobs = api::Json::array();
  for (const auto& prepared : list) {
    if (!session.json) {
      session.Print(CommandLineOf(prepared));
      continue;
    }
    std::vector<std::string> words{"sbatch", "--parsable"};
    words.insert(words.end(), prepared.job.options.begin(), prepared.job.options.end());
    jobs.push_back({{"command", std::move(words)}, {"script", prepared.job.script}});
  }
  if (session.json) session.PrintJson(jobs.size() == 1 ? jobs[0] : api::Json{{"jobs", std::move(jobs)}});
  return kExitDone;
}

SubmissionRecord RecordOf(const api::Submission& job, const Prepared& prepared,
                          const queue::MadeSubmission& made, std::uint32_t id) {
  SubmissionRecord kept;
  kept.id = id;
  kept.name = prepared.job.name;
  kept.project = job.project;
  kept.submitted_at = base::SystemClock().Wall();
  kept.array = job.array.has_value();
  kept.command = job.command;
  if (job.script && !made.script_name.empty()) kept.command = {made.script_name};
  if (job.script) kept.command.insert(kept.command.end(), job.arguments.begin(), job.arguments.end());
  kept.directory = job.directory.empty() ? made.request.directory : job.directory;
  kept.output = prepared.job.output;
  kept.errors = prepared.job.errors;
  return kept;
}

struct Taken {
  SubmissionRecord kept;
  std::int64_t tasks = 0;
  bool held = false;
};

Result<std::vector<Taken>> HandOver(CommandContext& session, const queue::MadeSubmission& made,
                                    const SlurmContext& engine, const std::vector<Prepared>& list) {
  std::vector<Taken> taken;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& job = made.request.jobs[i];
    auto accepted = engine.programs.Submit(list[i].job, list[i].variables);
    if (!accepted) {
      auto error = std::move(accepted.error());
      if (!taken.empty())
        error.hint = fmt::format("{} of {} jobs are in the queue, the last of them slurm-{}", taken.size(),
                                 list.size(), taken.back().kept.id);
      return base::Fail(std::move(error));
    }
    for (const auto& line : accepted->said) session.Note(Printable(line));
    taken.push_back(
        {RecordOf(job, list[i], made, accepted->id), job.array ? api::CountTasks(*job.array) : 0, job.hold});
    if (const auto written = engine.record.Add(taken.back().kept); !written)
      session.Note(fmt::format("slurm-{} is queued, but gpuman could not record it: {}", accepted->id,
                               written.error().message));
  }
  return taken;
}

std::string SentenceOf(const Taken& taken) {
  const auto name = Printable(taken.kept.name);
  const char* state = taken.held ? "held" : "queued";
  if (taken.kept.array)
    return fmt::format("array slurm-{} '{}' of {} tasks is {} by Slurm\n", taken.kept.id, name, taken.tasks,
                       state);
  return fmt::format("job slurm-{} '{}' is {} by Slurm\n", taken.kept.id, name, state);
}

void PrintTaken(CommandContext& session, const std::vector<Taken>& list,
                const queue::CommandDialect& dialect) {
  api::Json jobs = api::Json::array();
  for (const auto& taken : list) {
    const auto& kept = taken.kept;
    if (session.json)
      jobs.push_back(
          {{"id", fmt::format("slurm-{}", kept.id)},
           {"tag", kept.name},
           {"state", taken.held ? "held" : "queued"},
           {"log_path", kept.array ? api::Json(nullptr)
                                   : api::Json(ExpandFile(kept.output, {kept.id, {}}, kept.id, kept.name))}});
    else if (dialect.submitted != nullptr)
      session.Print(dialect.submitted(fmt::format("slurm-{}", kept.id), kept.name));
    else
      session.Print(SentenceOf(taken));
  }
  if (session.json) session.PrintJson(jobs.size() == 1 ? jobs[0] : api::Json{{"jobs", std::move(jobs)}});
}

}  // namespace

Result<int> SlurmQueue::Submit(CommandContext& session, const queue::MadeSubmission& made,
                               const queue::CommandDialect& dialect) const {
  const SlurmContext engine(session);
  GPUMAN_ASSIGN(const auto list, Prepare(session, made, engine, dialect));
  if (made.request.dry_run) return PrintDryRun(session, list);
  GPUMAN_ASSIGN(const auto taken, HandOver(session, made, engine, list));
  if (!made.wait) {
    PrintTaken(session, taken, dialect);
    return kExitDone;
  }
  if (taken.size() == 1 && !taken.front().kept.array)
    return Attach(session, engine, SlurmJobId{taken.front().kept.id, {}});
  int worst = kExitDone;
  for (const auto& one : taken) {
    GPUMAN_ASSIGN(const int status, Wait(session, engine, SlurmJobId{one.kept.id, {}}));
    worst = std::max(worst, status);
  }
  return worst;
}

}  // namespace gpuman::cli::slurm
