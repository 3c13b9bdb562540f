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
#include "cli/queue/sbatch.h"
#include "cli/queue/script.h"
#include "cli/queue/sweep.h"
#include "cli/queue/wording.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using Variables = std::map<std::string, std::string>;

constexpr std::size_t kLargestFile = std::size_t{64} << 20;

Result<std::string> ReadText(const std::string& path, std::string_view what) {
  auto text = base::ReadFile(path, kLargestFile);
  if (!text) return base::Fail(std::move(text.error()).In(what));
  if (!base::IsUtf8(*text))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{} {} is not UTF-8", what, path));
  return text;
}

std::string HowToSubmit(Flavour flavour) {
  return flavour == Flavour::kGflow ? "gbatch --gpus 1 COMMAND ARGUMENTS…, or gbatch SCRIPT"
                                    : "gpuman submit --gpus 1 -- COMMAND ARGUMENTS…, or gpuman submit SCRIPT";
}

Result<std::string> ReadStandardInput(const SubmitContext& context, std::string_view why, Flavour flavour) {
  if (!context.standard_input)
    return base::Fail(ErrorCode::kInvalidArgument, std::string(why), HowToSubmit(flavour));
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

Result<std::optional<Script>> FindScript(const ParsedCommandLine& typed, const SubmitContext& context,
                                         const SubmitSettings& typed_settings) {
  if (typed_settings.command || typed.trailing) return std::optional<Script>();
  if (typed.words.empty() || typed.words.front() == "-") {
    GPUMAN_ASSIGN(auto text, ReadStandardInput(context, "there is no command to run", typed.flavour));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
      return base::Fail(ErrorCode::kInvalidArgument,
                        "there is no command to run, and standard input is empty",
                        HowToSubmit(typed.flavour));
    return std::optional(Script{std::string(kStandardInput), std::move(text), false});
  }
  const auto& word = typed.words.front();
  auto text = ScriptAt(word, context.origin.directory);
  if (!text) return std::optional<Script>();
  const bool in_place = !IsShellScript(*text);
  return std::optional(Script{word, std::move(*text), in_place});
}

Result<> TakeCommand(SubmitSettings& settings, const ParsedCommandLine& typed,
                     const std::optional<Script>& script) {
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
    return base::Fail(ErrorCode::kInvalidArgument, "there is no command to run", HowToSubmit(typed.flavour));
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
    for (const auto& word : *words)
      if (!base::IsUtf8(word))
        return base::Fail(ErrorCode::kInvalidArgument, "an argument of the command is not UTF-8",
                          "put it into a script and run the script");
  bool utf8 = base::IsUtf8(job.name.value_or("")) && base::IsUtf8(job.group.value_or(""));
  spec::ForEachText(job, [&](const std::string& text) { utf8 = utf8 && base::IsUtf8(text); });
  if (!utf8) return base::Fail(ErrorCode::kInvalidArgument, "the value of an option is not UTF-8");
  return {};
}

// All jobs of a submission have one destination.
Result<> TakeDestination(MadeSubmission& made, const SubmitSettings& settings) {
  made.to_slurm = settings.to == "slurm";
  made.slurm_options = settings.slurm_options;
  if (!made.to_slurm && !made.slurm_options.empty())
    return base::Fail(ErrorCode::kInvalidArgument, "--slurm-option: the job does not go to Slurm",
                      "write --to slurm with it");
  return {};
}

// A command that cannot be executed now will hardly be executable later; this error comes sooner and is
// clearer than the job's failure.
Result<> CheckPrograms(const MadeSubmission& made) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& job : made.request.jobs) {
    if (job.script || job.conda_env || job.command.empty()) continue;
    const auto& directory = job.directory.empty() ? made.request.directory : job.directory;
    if (!seen.emplace(job.command.front(), directory).second) continue;
    api::RunRequest probe;
    probe.command = {job.command.front()};
    probe.directory = directory;
    probe.environment = job.environment ? *job.environment : made.request.environment;
    GPUMAN_TRY(CheckProgram(probe));
  }
  return {};
}

// Notes files and directories that do not exist. They may come before the job starts; without them it fails.
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

// Sets how the daemon names the job's GPUs in CUDA_VISIBLE_DEVICES; jobs/launch_plan.h reads it. Programs of
// gflow's users expect indices there.
void NameDevices(const std::string& asked, Flavour flavour, Variables& environment) {
  constexpr const char* kName = "GPUMAN_VISIBLE_DEVICES";
  if (!asked.empty())
    environment[kName] = asked;
  else if (flavour == Flavour::kGflow)
    environment.emplace(kName, "index");
}

// Adds the jobs of one set of options: the jobs of a sweep, or one job.
Result<> AddJobs(MadeSubmission& made, SubmitSettings settings, const SubmitContext& context, Flavour flavour,
                 const Variables& whole, const std::vector<std::string>& common_export) {
  auto& job = settings.job;
  if (!job.directory.empty() && job.directory.front() != '/')
    job.directory =
        (std::filesystem::path(context.origin.directory) / job.directory).lexically_normal().string();
  if (settings.export_parts != common_export) {
    GPUMAN_ASSIGN(job.environment, EnvironmentOf(settings.export_parts, whole));
  }
  if (!settings.visible_devices.empty() && !job.environment) job.environment = made.request.environment;
  if (job.environment) NameDevices(settings.visible_devices, flavour, *job.environment);
  GPUMAN_TRY(RequireUtf8(job));
  std::vector<Combination> table;
  if (settings.parameter_file) {
    GPUMAN_ASSIGN(const auto text, ReadText(*settings.parameter_file, "--param-file"));
    auto read = ReadCsv(text);
    if (!read) return base::Fail(std::move(read.error()).In(*settings.parameter_file));
    table = std::move(*read);
  }
  const bool sweep = !settings.parameters.empty() || !table.empty();
  if (job.max_concurrent && !job.group)
    job.group = fmt::format("{}-{:x}", job.name.value_or("submit"),
                            static_cast<std::uint64_t>(context.now.time_since_epoch().count()));
  if (!sweep) {
    if (settings.name_template)
      return base::Fail(ErrorCode::kInvalidArgument,
                        "--name-template: there is no --param and no --param-file");
    made.request.jobs.push_back(std::move(job));
    made.origins.push_back(std::move(settings.origin));
    return {};
  }
  GPUMAN_ASSIGN(const auto combinations, Combine(settings.parameters, table));
  GPUMAN_ASSIGN(auto jobs, MakeSweep(job, combinations, settings.name_template));
  made.origins.resize(made.origins.size() + jobs.size(), settings.origin);
  std::move(jobs.begin(), jobs.end(), std::back_inserter(made.request.jobs));
  return {};
}

// gflow accepts limits of GPU memory for a job without GPUs.
void ForgiveAsGflow(api::Submission& job) {
  if (job.gpus.count > 0 || !job.gpus.devices.empty()) return;
  job.memory.reset();
  job.share = false;
}

// Inserts the line before the first command of a script.
void InsertLine(std::string& script, const std::string& line) {
  const auto at = FirstCommand(script);
  const bool needs_end = at == script.size() && !script.ends_with('\n');
  script.insert(at, (needs_end ? "\n" : "") + line + "\n");
}

// Gives gflow's tasks their index under gflow's name, also where the name stands in quotes in the command's
// words.
void NameTaskAsGflow(api::Submission& job) {
  if (!job.array) return;
  constexpr std::string_view kName = "$GFLOW_ARRAY_TASK_ID";
  const std::string line = "export GFLOW_ARRAY_TASK_ID=\"$GPUMAN_ARRAY_TASK_ID\"";
  if (job.script) return InsertLine(*job.script, line);
  std::string text = line + "; exec";
  for (const auto& word : job.command) {
    text += ' ';
    std::size_t at = 0;
    for (std::size_t found = 0; (found = word.find(kName, at)) != std::string::npos;
         at = found + kName.size())
      text += JoinCommand({word.substr(at, found - at)}) + fmt::format("\"{}\"", kName);
    text += JoinCommand({word.substr(at)});
  }
  job.command = {"/bin/sh", "-c", text};
}

// Reads #SBATCH lines, if the script has no lines for gpuman. Where the script goes to Slurm, sbatch reads
// them.
Result<SbatchReading> ReadAsSbatch(const Script& script, const Directives& directives,
                                   const SubmitSettings& typed, SubmitSettings& settings,
                                   const SubmitContext& context) {
  if (!directives.list.empty() || !directives.too_late.empty() || typed.to == "slurm") return SbatchReading{};
  return ApplySbatch(script.text, script.name, settings, context.now);
}

// Adds what a script for Slurm still expects, and the notes for the user of any script. `plain`: the script
// has no line with options of gpuman or gflow.
void FinishScript(const SbatchReading& reading, const Script& script, bool plain, SubmitSettings& settings,
                  MadeSubmission& made) {
  auto& job = settings.job;
  const bool gpus = job.gpus.count > 0 || !job.gpus.devices.empty();
  for (auto& note : NotesOf(reading, script.name, script.text, gpus)) made.notes.push_back(std::move(note));
  // A user who wrote no option at all may not know that a job has no GPU by default.
  if (!reading.found && plain && !gpus && !settings.lines.contains("--gpus"))
    made.notes.push_back(NoteOfNoGpu(script.name));
  if (reading.found && job.array && job.script)
    InsertLine(*job.script, "export SLURM_ARRAY_TASK_ID=\"$GPUMAN_ARRAY_TASK_ID\"");
}

Variables TakeEnvironment(MadeSubmission& made, const Origin& origin) {
  Variables whole;
  for (const auto& entry : origin.environment) {
    const auto equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) continue;
    if (base::IsUtf8(entry))
      whole.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    else
      made.left_out.push_back(entry.substr(0, equals));
  }
  return whole;
}

}  // namespace

Result<MadeSubmission> MakeSubmission(const ParsedCommandLine& typed, const SubmitContext& context) {
  MadeSubmission made;
  made.request.directory = context.origin.directory;
  made.request.umask = context.origin.umask;
  if (!base::IsUtf8(context.origin.directory))
    return base::Fail(ErrorCode::kInvalidArgument, "the current directory's name is not UTF-8");
  const Variables whole = TakeEnvironment(made, context.origin);

  // The first pass finds what is to run; the second pass applies the typed options after the script's.
  SubmitSettings settings;
  GPUMAN_TRY(
      ParseOptions(SubmitOptions(settings, typed.flavour, context.now), typed.options, Where::kAnywhere));
  made.wait = settings.wait;
  made.request.dry_run = settings.dry_run;
  if (settings.wait && settings.dry_run)
    return base::Fail(ErrorCode::kInvalidArgument, "--wait and --dry-run exclude each other");
  GPUMAN_ASSIGN(made.request.environment, EnvironmentOf(settings.export_parts, whole));

  if (settings.jobs_file) {
    if (settings.command || typed.trailing || !typed.words.empty())
      return base::Fail(ErrorCode::kInvalidArgument,
                        "--jobs: the commands are in the file, and the command line has one as well",
                        "remove the command from the command line");
    const bool piped = *settings.jobs_file == "-";
    const std::string name = piped ? "standard input" : *settings.jobs_file;
    GPUMAN_ASSIGN(const auto text,
                  piped ? ReadStandardInput(context, "--jobs -: standard input is a terminal", typed.flavour)
                        : ReadText(*settings.jobs_file, "--jobs"));
    GPUMAN_ASSIGN(auto jobs, ReadJobs(text, name, typed, context.now));
    for (auto& job : jobs) {
      const bool own = job.to != settings.to || job.slurm_options != settings.slurm_options;
      if (own && !job.origin.empty())
        return base::Fail(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: --to and --slurm-option are possible on the command line only", job.origin));
      GPUMAN_TRY(AddJobs(made, std::move(job), context, typed.flavour, whole, settings.export_parts));
    }
    GPUMAN_TRY(TakeDestination(made, settings));
  } else {
    GPUMAN_ASSIGN(const auto script, FindScript(typed, context, settings));
    SbatchReading sbatch;
    bool plain = typed.flavour == Flavour::kGpuman && settings.to != "slurm";
    if (script) {
      auto directives = ReadDirectives(script->text);
      if (!directives) return base::Fail(std::move(directives.error()).In(script->name));
      for (const int line : directives->too_late)
        made.notes.push_back(fmt::format(
            "{}:{}: this line is below the first command and is not read; move it up", script->name, line));
      plain = plain && directives->list.empty() && directives->too_late.empty();
      SubmitSettings both;
      GPUMAN_TRY(ApplyDirectives(*directives, script->name, both, context.now));
      GPUMAN_ASSIGN(sbatch, ReadAsSbatch(*script, *directives, settings, both, context));
      both.BeginSource();
      GPUMAN_TRY(
          ParseOptions(SubmitOptions(both, typed.flavour, context.now), typed.options, Where::kAnywhere));
      if (both.export_parts != settings.export_parts) {
        GPUMAN_ASSIGN(made.request.environment, EnvironmentOf(both.export_parts, whole));
      }
      made.request.dry_run = both.dry_run;
      settings = std::move(both);
    }
    GPUMAN_TRY(TakeCommand(settings, typed, script));
    if (script) FinishScript(sbatch, *script, plain, settings, made);
    GPUMAN_TRY(TakeDestination(made, settings));
    if (script && !typed.words.empty() && typed.words.front() != "-") made.script_name = script->name;
    const auto parts = settings.export_parts;
    made.lines = settings.lines;
    GPUMAN_TRY(AddJobs(made, std::move(settings), context, typed.flavour, whole, parts));
  }
  NameDevices("", typed.flavour, made.request.environment);
  for (auto& job : made.request.jobs) {
    if (typed.flavour == Flavour::kGflow) ForgiveAsGflow(job);
    if (auto checked = api::Check(job); !checked)
      return base::Fail(WithOrigins(std::move(checked.error()), {}, typed.flavour, made.lines));
  }
  if (!made.to_slurm) {  // the nodes of Slurm have their own programs
    GPUMAN_TRY(CheckPrograms(made));
    NoteWhatIsNotThere(made);
  }
  if (typed.flavour == Flavour::kGflow)
    for (auto& job : made.request.jobs) NameTaskAsGflow(job);
  return made;
}

}  // namespace gpuman::cli::queue
