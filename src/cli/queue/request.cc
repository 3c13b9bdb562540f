#include "cli/queue/request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "api/queue_json.h"
#include "base/file.h"
#include "base/utf8.h"
#include "cli/command_line.h"
#include "cli/queue/find_program.h"
#include "cli/queue/script.h"
#include "cli/queue/sweep.h"
#include "cli/queue/wording.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;

constexpr std::size_t kLargestFile = std::size_t{64} << 20;

Result<std::string> ReadText(const std::string& path, std::string_view what) {
  auto text = base::ReadFile(path, kLargestFile);
  if (!text) return base::Fail(std::move(text.error()).In(what));
  if (!base::IsUtf8(*text))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{} {} is not UTF-8", what, path));
  return text;
}

Result<std::string> ReadStandardInput(const SubmitContext& context, std::string_view why,
                                      const CommandDialect& dialect) {
  if (!context.standard_input)
    return base::Fail(ErrorCode::kInvalidArgument, std::string(why), dialect.how_to_submit);
  GPUMAN_ASSIGN(auto text, context.standard_input());
  if (!base::IsUtf8(text)) return base::Fail(ErrorCode::kInvalidArgument, "standard input is not UTF-8");
  return text;
}

// The text of the file that `word` names, if it is a script: its first line begins with "#!", or its name
// ends with ".sh".
std::optional<std::string> ScriptAt(const std::string& word, const std::string& directory) {
  const auto path = std::filesystem::path(directory) / word;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  constexpr std::size_t kLargestScript = std::size_t{8} << 20;
  if (static_cast<std::size_t>(info.st_size) > kLargestScript) return std::nullopt;
  const auto text = base::ReadFile(path, kLargestScript);
  if (!text || !base::IsUtf8(*text) || text->find('\0') != std::string::npos) return std::nullopt;
  if (text->starts_with("#!") || path.extension() == ".sh") return *text;
  return std::nullopt;
}

// A script; `name` is for errors. The submission carries the text of a shell script; other scripts run in
// place.
struct Script {
  std::string name;
  std::string text;
  bool in_place = false;
};

Result<std::optional<Script>> FindScript(const CommandLine& typed, const CommandDialect& dialect,
                                         const SubmitContext& context, const SubmitSettings& settings) {
  if (settings.command || typed.trailing) return std::optional<Script>();
  if (typed.words.empty() || typed.words.front() == "-") {
    GPUMAN_ASSIGN(auto text, ReadStandardInput(context, "there is no command to run", dialect));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
      return base::Fail(ErrorCode::kInvalidArgument,
                        "there is no command to run, and standard input is empty", dialect.how_to_submit);
    return std::optional(Script{std::string(kStandardInput), std::move(text), false});
  }
  const auto& word = typed.words.front();
  auto text = ScriptAt(word, context.origin.directory);
  if (!text) return std::optional<Script>();
  const bool in_place = !IsShellScript(*text);
  return std::optional(Script{word, std::move(*text), in_place});
}

Result<> TakeCommand(SubmitSettings& settings, const CommandLine& typed, const CommandDialect& dialect,
                     const std::optional<Script>& script = std::nullopt) {
  auto& job = settings.job;
  if (script && !script->in_place) {
    job.script = script->text;
    if (!typed.words.empty()) job.arguments.assign(typed.words.begin() + 1, typed.words.end());
    return {};
  }
  if (settings.command) {
    if (typed.trailing || !typed.words.empty())
      return base::Fail(ErrorCode::kInvalidArgument, "the command is given twice: with --command and without",
                        "give one of them");
    auto words = SplitCommand(*settings.command);
    if (!words) return base::Fail(std::move(words.error()).In("--command"));
    job.command = std::move(*words);
    return {};
  }
  job.command = typed.words;
  if (typed.trailing) {
    if (!job.command.empty()) job.command.emplace_back("--");
    job.command.insert(job.command.end(), typed.trailing->begin(), typed.trailing->end());
  }
  // A script with another interpreter runs in place; without a slash the keeper would look for it in PATH.
  if (script && job.command.front().find('/') == std::string::npos) job.command.front().insert(0, "./");
  if (job.command.empty() || job.command.front().empty())
    return base::Fail(ErrorCode::kInvalidArgument, "there is no command to run", dialect.how_to_submit);
  return {};
}

// The variables that --export chooses from the shell's variables.
Result<Variables> EnvironmentOf(const std::vector<std::string>& parts, const Variables& whole) {
  constexpr std::array<const char*, 8> kAlways{"HOME",  "LANG", "LOGNAME", "PATH",
                                               "SHELL", "TERM", "TZ",      "USER"};
  Variables variables;
  const auto keep = [&](const std::string& name) {
    if (const auto it = whole.find(name); it != whole.end()) variables.insert(*it);
  };
  if (std::find(parts.begin(), parts.end(), "all") != parts.end() ||
      std::find(parts.begin(), parts.end(), "ALL") != parts.end())
    variables = whole;
  else
    for (const char* name : kAlways) keep(name);
  for (const auto& part : parts) {
    if (part == "all" || part == "ALL" || part == "none" || part == "NONE") continue;
    const auto equals = part.find('=');
    if (equals == 0)
      return base::Fail(ErrorCode::kInvalidArgument, fmt::format("--export: '{}' has no name", part));
    if (equals == std::string::npos)
      keep(part);
    else
      variables[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return variables;
}

Result<> RequireUtf8(const api::Submission& job) {
  for (const auto* words : {&job.command, &job.arguments})
    for (std::size_t i = 0; i < words->size(); ++i)
      if (!base::IsUtf8(words->at(i)))
        return base::Fail(ErrorCode::kInvalidArgument,
                          fmt::format("argument {} of the command is not UTF-8", i),
                          "put it into a script and run the script");
  if (!base::IsUtf8(job.name.value_or("")))
    return base::Fail(ErrorCode::kInvalidArgument, "the tag is not UTF-8");
  bool utf8 = true;
  spec::ForEachText(job, [&](const std::string& text) { utf8 = utf8 && base::IsUtf8(text); });
  if (!utf8) return base::Fail(ErrorCode::kInvalidArgument, "the value of an option is not UTF-8");
  return {};
}

// All jobs of a submission have one destination.
Result<> TakeDestination(MadeSubmission& made, const SubmitSettings& settings) {
  made.to_other_queue = !settings.StaysHere();
  made.slurm_options = settings.slurm_options;
  if (!made.to_other_queue && !made.slurm_options.empty())
    return base::Fail(ErrorCode::kInvalidArgument, "--slurm-option: the job does not go to Slurm",
                      "write --to slurm with it");
  return {};
}

// A command that cannot be executed now will hardly be executable later; this error comes sooner and is
// clearer than the job's failure.
Result<> CheckPrograms(const MadeSubmission& made) {
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t i = 0; i < made.request.jobs.size(); ++i) {
    const auto& job = made.request.jobs[i];
    if (job.script || job.conda_env || job.command.empty()) continue;
    const auto& directory = job.directory.empty() ? made.request.directory : job.directory;
    if (!seen.emplace(job.command.front(), directory).second) continue;
    auto checked = CheckProgram(job.command.front(), directory,
                                job.environment ? *job.environment : made.request.environment);
    if (checked) continue;
    const bool has_line = i < made.origins.size() && !made.origins[i].empty();
    return base::Fail(has_line ? std::move(checked.error()).In(made.origins[i]) : checked.error());
  }
  return {};
}

// Notes files and directories that do not exist. The user may create them before the job starts; without them
// the job fails.
void NoteWhatIsNotThere(MadeSubmission& made) {
  std::set<std::string> told;
  const auto look = [&](std::string_view option, std::string_view what, const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::exists(path, error) || error || !told.insert(path.string()).second) return;
    made.notes.push_back(
        fmt::format("{}: there is no {} {} now; the job fails if it is not there when it starts", option,
                    what, path.string()));
  };
  for (const auto& job : made.request.jobs) {
    const auto& directory = job.directory.empty() ? made.request.directory : job.directory;
    if (!job.directory.empty()) look("--directory", "directory", directory);
    if (job.stdin_file && job.stdin_file->find('%') == std::string::npos)
      look("--input", "file", std::filesystem::path(directory) / *job.stdin_file);
  }
}

// The table of --param-file; empty without one.
Result<std::vector<Combination>> TableOf(const SubmitSettings& settings) {
  if (!settings.parameter_file) return std::vector<Combination>();
  GPUMAN_ASSIGN(const auto text, ReadText(*settings.parameter_file, "--param-file"));
  auto table = ReadCsv(text);
  if (!table) return base::Fail(std::move(table.error()).In(*settings.parameter_file));
  return table;
}

bool SaysHowManyGpus(const SubmitSettings& settings) {
  const auto& gpus = settings.job.gpus;
  return gpus.count > 0 || !gpus.devices.empty() || settings.lines.contains("--gpus");
}

// Reads what the script says to other tools, if it has no lines for gpuman. Where it goes to another queue,
// that queue's own programs read it.
Result<ToolCompatibility::CompleteScript> ReadOtherLines(const Script& script, const Directives& directives,
                                                         const SubmitSettings& typed,
                                                         SubmitSettings& settings,
                                                         const SubmitContext& context) {
  if (!directives.list.empty() || !directives.too_late.empty() || !typed.StaysHere()) return nullptr;
  return context.tools.read_script(script.text, script.name, settings, context.now);
}

// Makes the request from the options of a command line, of a script and of a file of jobs.
class Maker {
 public:
  Maker(const SubmitContext& context, const CommandDialect& dialect) : context_(context), dialect_(dialect) {
    made_.request.directory = context.origin.directory;
    made_.request.umask = context.origin.umask;
    variables_ = VariablesOf(context.origin, made_.left_out);
  }

  Result<> TakeOneJob(SubmitSettings settings, const CommandLine& line) {
    GPUMAN_TRY(TakeCommand(settings, line, dialect_));
    return Add(std::move(settings));
  }

  // `settings` have the values of the typed options.
  Result<> TakeFile(SubmitSettings settings, const CommandLine& typed) {
    if (settings.command || typed.trailing || !typed.words.empty())
      return base::Fail(ErrorCode::kInvalidArgument,
                        "--jobs: the commands are in the file, and the command line has one as well",
                        "remove the command from the command line");
    const bool piped = *settings.jobs_file == "-";
    const std::string name = piped ? "standard input" : *settings.jobs_file;
    GPUMAN_ASSIGN(const auto text,
                  piped ? ReadStandardInput(context_, "--jobs -: standard input is a terminal", dialect_)
                        : ReadText(*settings.jobs_file, "--jobs"));
    GPUMAN_TRY(TakeCommon(settings));
    settings.BeginSource();
    GPUMAN_ASSIGN(auto jobs, ReadJobs(text, name, settings, dialect_, context_.now));
    if (!std::any_of(jobs.begin(), jobs.end(), SaysHowManyGpus) && &dialect_ == &kGpuman &&
        settings.StaysHere())
      made_.notes.push_back(fmt::format(
          "{}: no job in it asks for a GPU, so none gets one; --gpus 1 gives each of them one", name));
    for (auto& job : jobs) {
      const bool own = job.to != settings.to || job.slurm_options != settings.slurm_options;
      if (own && !job.origin.empty())
        return base::Fail(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: --to and --slurm-option are possible on the command line only", job.origin));
      GPUMAN_TRY(AddJobs(std::move(job), settings.export_parts));
    }
    return {};
  }

  // A command, or a script with options of its own, which the typed ones override.
  Result<> TakeCommandOrScript(SubmitSettings settings, const CommandLine& typed) {
    GPUMAN_ASSIGN(const auto script, FindScript(typed, dialect_, context_, settings));
    if (!script) {
      if (settings.StaysHere()) NoteNoGpu(settings);
      return TakeOneJob(std::move(settings), typed);
    }
    GPUMAN_ASSIGN(const auto directives, DirectivesOf(*script));
    SubmitSettings both;
    GPUMAN_TRY(ApplyDirectives(directives, script->name, both, context_.now));
    GPUMAN_ASSIGN(const auto complete, ReadOtherLines(*script, directives, settings, both, context_));
    both.BeginSource();
    GPUMAN_TRY(TakeOptions(dialect_.submit_options(both, context_.now), typed.options));
    GPUMAN_TRY(TakeCommand(both, typed, dialect_, script));
    if (complete)
      AddNotes(complete(both.job));
    else if (settings.StaysHere() && directives.list.empty() && directives.too_late.empty())
      NoteNoGpu(both, script->name);
    else if (settings.StaysHere())
      NoteOtherLines(*script, directives);
    if (!typed.words.empty() && typed.words.front() != "-") made_.script_name = script->name;
    return Add(std::move(both));
  }

  // Makes the last changes to the jobs, adds notes about them, and returns the submission.
  Result<MadeSubmission> Finish() {
    dialect_.prepare(made_.request);
    AddNotes(context_.tools.clean_environment(made_.request));
    return std::move(made_);
  }

 private:
  void AddNotes(std::vector<std::string> notes) {
    std::move(notes.begin(), notes.end(), std::back_inserter(made_.notes));
  }

  // A user of gpuman who wrote nothing of GPUs may not know that a job has none by default.
  void NoteNoGpu(const SubmitSettings& settings, const std::string& script = {}) {
    if (&dialect_ == &kGpuman && !SaysHowManyGpus(settings)) made_.notes.push_back(NoteOfNoGpu(script));
  }

  // A script has lines for gpuman, and so those for another tool are not read.
  void NoteOtherLines(const Script& script, const Directives& directives) {
    SubmitSettings unused;
    const auto other = context_.tools.read_script(script.text, script.name, unused, context_.now);
    if (other && !*other) return;
    const auto* const dialect = directives.list.empty() ? &kGpuman : directives.list.front().dialect;
    made_.notes.push_back(fmt::format("{}: its {} lines are not read, as it has # {} lines", script.name,
                                      context_.tools.script_mark, dialect->mark));
  }

  // Sets what all jobs of the request share.
  Result<> TakeCommon(const SubmitSettings& settings) {
    if (!base::IsUtf8(context_.origin.directory))
      return base::Fail(ErrorCode::kInvalidArgument, "the current directory's name is not UTF-8");
    if (settings.wait && settings.dry_run)
      return base::Fail(ErrorCode::kInvalidArgument, "--wait and --dry-run exclude each other");
    made_.wait = settings.wait;
    made_.request.dry_run = settings.dry_run;
    GPUMAN_ASSIGN(made_.request.environment, EnvironmentOf(settings.export_parts, variables_));
    return TakeDestination(made_, settings);
  }

  Result<> Add(SubmitSettings settings) {
    GPUMAN_TRY(TakeCommon(settings));
    made_.lines = settings.lines;
    const auto parts = settings.export_parts;
    return AddJobs(std::move(settings), parts);
  }

  // The lines of options of a script, and notes on those that are not read.
  Result<Directives> DirectivesOf(const Script& script) {
    auto directives = ReadDirectives(script.text, context_.tools.dialects);
    if (!directives) return base::Fail(std::move(directives.error()).In(script.name));
    for (const int line : directives->too_late)
      made_.notes.push_back(fmt::format(
          "{}:{}: this line is below the first command and is not read; move it up", script.name, line));
    return directives;
  }

  // Adds the jobs of one set of options: the jobs of a sweep, or one job. `common_export`: the variables that
  // all jobs get.
  Result<> AddJobs(SubmitSettings settings, const std::vector<std::string>& common_export) {
    auto& job = settings.job;
    if (!job.directory.empty() && job.directory.front() != '/')
      job.directory =
          (std::filesystem::path(context_.origin.directory) / job.directory).lexically_normal().string();
    if (settings.export_parts != common_export) {
      GPUMAN_ASSIGN(job.environment, EnvironmentOf(settings.export_parts, variables_));
    }
    if (!settings.visible_devices.empty()) {
      if (!job.environment) job.environment = made_.request.environment;
      (*job.environment)[kVisibleDevices] = settings.visible_devices;
    }
    GPUMAN_TRY(RequireUtf8(job));
    if (job.max_concurrent && !job.group)
      job.group = fmt::format("{}-{:x}", job.name.value_or("submit"),
                              static_cast<std::uint64_t>(context_.now.time_since_epoch().count()));
    GPUMAN_ASSIGN(const auto table, TableOf(settings));
    if (!settings.parameters.empty() || !table.empty()) return AddSweep(settings, table);
    if (settings.name_template)
      return base::Fail(ErrorCode::kInvalidArgument,
                        "--name-template: there is no --param and no --param-file");
    made_.request.jobs.push_back(std::move(job));
    made_.origins.push_back(std::move(settings.origin));
    return {};
  }

  Result<> AddSweep(const SubmitSettings& settings, const std::vector<Combination>& table) {
    GPUMAN_ASSIGN(const auto combinations, Combine(settings.parameters, table));
    GPUMAN_ASSIGN(auto jobs, MakeSweep(settings.job, combinations, settings.name_template));
    made_.origins.resize(made_.origins.size() + jobs.size(), settings.origin);
    std::move(jobs.begin(), jobs.end(), std::back_inserter(made_.request.jobs));
    return {};
  }

  const SubmitContext& context_;
  const CommandDialect& dialect_;
  Variables variables_;  // of the shell
  MadeSubmission made_;
};

}  // namespace

Result<> Check(const MadeSubmission& made, const CommandDialect& dialect) {
  for (const auto& job : made.request.jobs)
    if (auto checked = api::Check(job); !checked)
      return base::Fail(WithOrigins(std::move(checked.error()), {}, dialect, made.lines));
  return {};
}

Result<MadeSubmission> MakeOneJob(SubmitSettings settings, const CommandLine& line,
                                  const SubmitContext& context) {
  Maker maker(context, kGpuman);
  GPUMAN_TRY(maker.TakeOneJob(std::move(settings), line));
  GPUMAN_ASSIGN(auto made, maker.Finish());
  GPUMAN_TRY(CheckPrograms(made));
  return made;
}

Result<MadeSubmission> MakeSubmission(SubmitSettings settings, const CommandLine& line,
                                      const CommandDialect& dialect, const SubmitContext& context) {
  Maker maker(context, dialect);
  GPUMAN_TRY(settings.jobs_file ? maker.TakeFile(std::move(settings), line)
                                : maker.TakeCommandOrScript(std::move(settings), line));
  GPUMAN_ASSIGN(auto made, maker.Finish());
  GPUMAN_TRY(Check(made, dialect));
  if (!made.to_other_queue) {  // other nodes have their own programs
    GPUMAN_TRY(CheckPrograms(made));
    NoteWhatIsNotThere(made);
  }
  dialect.complete(made.request);
  return made;
}

}  // namespace gpuman::cli::queue
