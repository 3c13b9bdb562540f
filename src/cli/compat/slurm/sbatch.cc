#include "cli/compat/slurm/sbatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/text.h"
#include "cli/queue/script.h"
#include "cli/values.h"

namespace gpuman::cli::slurm {
namespace {

using base::Result;
using queue::SubmitSettings;

// Takes over the value of an option; false: gpuman has no counterpart.
using TakeValue = std::function<Result<bool>(const std::string& value)>;

struct SbatchOption {
  std::string_view name;  // "--job-name"
  char letter = 0;        // the "J" of "-J"; 0: there is none
  bool has_value = true;
  TakeValue take;
  std::string_view ours{};  // gpuman's name, where it differs and a daemon may refuse the value
};

template <typename Target, typename Parse>
TakeValue ValueInto(Target& target, Parse parse) {
  return [&target, parse](const std::string& text) -> Result<bool> {
    GPUMAN_ASSIGN(target, parse(text));
    return true;
  };
}
template <typename Target>
TakeValue TextInto(Target& target) {
  return [&target](const std::string& text) -> Result<bool> {
    target = text;
    return true;
  };
}

// For options whose value 1 is what every job of one machine has anyway.
Result<bool> TakeOne(const std::string& text) { return text == "1"; }

TakeValue Gpus(api::Submission& job) {
  return [&job](const std::string& text) -> Result<bool> {
    GPUMAN_ASSIGN(const GpuCount gpus, ParseGpuCount(text));
    job.gpus.count = gpus.count;
    job.gpus.model = gpus.model;
    return true;
  };
}

// --gres may ask for other resources than GPUs; such a value is not taken over.
TakeValue Gres(api::Submission& job) {
  return [&job](const std::string& text) -> Result<bool> {
    GPUMAN_ASSIGN(const auto parts, SplitList(text));
    const bool only_gpus = std::all_of(parts.begin(), parts.end(), [](const auto& part) {
      return part == "gpu" || part.starts_with("gpu:");
    });
    if (!only_gpus || parts.size() != 1) return false;
    return Gpus(job)(parts.front());
  };
}

TakeValue TimeLimit(api::Submission& job) {
  return [&job](const std::string& text) -> Result<bool> {
    if (text == "0" || text == "UNLIMITED" || text == "INFINITE") return true;  // no limit: the default
    GPUMAN_ASSIGN(job.time_limit, ParseMinutes(text));
    return true;
  };
}

TakeValue HostMemory(api::Submission& job) {
  return [&job](const std::string& text) -> Result<bool> {
    if (text == "0") return false;  // all memory of the node
    GPUMAN_ASSIGN(job.host_memory, ParseMebibytes(text));
    return true;
  };
}

TakeValue Depends(api::Submission& job) {
  return [&job](const std::string& text) -> Result<bool> {
    if (text.starts_with("singleton") || text.starts_with("aftercorr") || text.starts_with("expand"))
      return false;
    GPUMAN_ASSIGN(job.depends, ParseDependencies(text));
    return true;
  };
}

// "B:USR1@60": the part before ':' has no meaning here, since a job has one process group.
TakeValue Signal(api::Submission& job) {
  return [&job](std::string text) -> Result<bool> {
    text.erase(0, text.find(':') + 1);
    if (text.find('@') == std::string::npos) text += "@60";
    GPUMAN_ASSIGN(const WarningSignal warning, ParseWarning(text));
    job.warn_signal = warning.signal;
    job.warn_before = warning.before;
    return true;
  };
}

TakeValue Export(SubmitSettings& s) {
  return [&s](const std::string& text) -> Result<bool> {
    GPUMAN_ASSIGN(s.export_parts, SplitList(text));
    return true;
  };
}

struct Mail {
  std::string user;
  std::vector<spec::NotifyOn> on;
};

TakeValue MailTypes(Mail& mail) {
  return [&mail](const std::string& text) -> Result<bool> {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords{
        {{"BEGIN", "started"},
         {"END", "finished,failed,timeout,cancelled,killed"},
         {"FAIL", "failed,timeout,killed"},
         {"REQUEUE", "requeued"},
         {"TIME_LIMIT", "timeout"},
         {"ALL", "all"}}};
    GPUMAN_ASSIGN(const auto types, SplitList(text));
    for (const auto& type : types) {
      const auto* const it =
          std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) { return w.first == type; });
      if (it == kWords.end()) return type == "NONE";
      GPUMAN_ASSIGN(const auto events, ParseNotifyOn(it->second));
      for (const auto event : events)
        if (std::find(mail.on.begin(), mail.on.end(), event) == mail.on.end()) mail.on.push_back(event);
    }
    return true;
  };
}

std::vector<SbatchOption> OptionsOf(SubmitSettings& s, Mail& mail, base::WallTime now) {
  auto& job = s.job;
  const auto count = [](const std::string& text) { return ParseInteger(text, 1, 1'000'000); };
  return {
      {"--gres", 0, true, Gres(job), "--gpus"},
      {"--gpus", 'G', true, Gpus(job)},
      {"--gpus-per-node", 0, true, Gpus(job), "--gpus"},
      {"--gpus-per-task", 0, true, Gpus(job), "--gpus"},
      {"--time", 't', true, TimeLimit(job)},
      {"--mem", 0, true, HostMemory(job), "--host-memory"},
      {"--cpus-per-task", 'c', true, ValueInto(job.cpus, count), "--cpus"},
      {"--job-name", 'J', true,
       ValueInto(job.name,
                 [](const std::string& text) { return Result<std::string>(queue::TagFrom(text)); })},
      {"--array", 'a', true, ValueInto(job.array, [](const std::string& text) { return ParseArray(text); })},
      {"--dependency", 'd', true, Depends(job), "--depends"},
      {"--begin", 'b', true,
       ValueInto(job.begin, [now](const std::string& text) { return ParseTime(text, now); })},
      {"--output", 'o', true, TextInto(job.stdout_file)},
      {"--error", 'e', true, TextInto(job.stderr_file)},
      {"--input", 'i', true, TextInto(job.stdin_file)},
      {"--chdir", 'D', true, TextInto(job.directory)},
      {"--account", 'A', true, TextInto(job.project), "--project"},
      {"--signal", 0, true, Signal(job)},
      {"--export", 0, true, Export(s)},
      {"--mail-user", 0, true, TextInto(mail.user)},
      {"--mail-type", 0, true, MailTypes(mail)},
      {"--hold", 'H', false,
       [&job](const std::string&) -> Result<bool> {
         job.hold = true;
         return true;
       }},
      {"--nodes", 'N', true, TakeOne},
      {"--ntasks", 'n', true, TakeOne},
      {"--ntasks-per-node", 0, true, TakeOne},
      {"--ntasks-per-gpu", 0, true, TakeOne},
  };
}

const SbatchOption* Find(const std::vector<SbatchOption>& table, std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const SbatchOption& known) {
    return name.starts_with("--") ? known.name == name : known.letter != 0 && known.letter == name[1];
  });
  return it == table.end() ? nullptr : &*it;
}

// An option as it stands in a line, with its value: "--time=5", "-t 5", "-t5". cli/parser.h does not read
// these lines, since it refuses options that it does not know: a script of Slurm has many, which are noted.
struct ScriptOption {
  std::string name;
  std::string value;
  std::string text;
};

// Reads the option at words[at] and moves `at` behind it. For an unknown option, the next word is its value
// unless it begins with '-'.
ScriptOption NextOption(const std::vector<std::string>& words, std::size_t& at,
                        const std::vector<SbatchOption>& table) {
  const std::string& word = words[at++];
  const bool is_long = word.starts_with("--");
  const auto end = is_long ? word.find('=') : std::min<std::size_t>(2, word.size());
  ScriptOption given{word.substr(0, end), "", word};
  if (is_long && end != std::string::npos) {
    given.value = word.substr(end + 1);
    return given;
  }
  if (!is_long && word.size() > 2) {
    given.value = word.substr(2);
    return given;
  }
  const SbatchOption* const known = Find(table, given.name);
  const bool takes = known != nullptr ? known->has_value : at < words.size() && !words[at].starts_with('-');
  if (takes && at < words.size()) {
    given.value = words[at++];
    given.text += (is_long ? "=" : " ") + given.value;
  }
  return given;
}

std::string_view FirstLineOf(std::string_view& text) {
  auto line = base::TakeUntil(text, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool IsMarked(std::string_view line) {
  return line.starts_with(kScriptMark) &&
         (line.size() == kScriptMark.size() || line[kScriptMark.size()] == ' ' ||
          line[kScriptMark.size()] == '\t');
}

// The number of the first line that runs srun; 0: no line does.
int LineOfSrun(std::string_view text) {
  int number = 0;
  while (!text.empty()) {
    auto line = FirstLineOf(text);
    ++number;
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line == "srun" || line.starts_with("srun ")) return number;
  }
  return 0;
}

// `gpus`: the job asks for GPUs.
std::vector<std::string> NotesOf(const SbatchReading& reading, std::string_view name, std::string_view text,
                                 bool gpus) {
  std::vector<std::string> notes;
  if (!reading.taken.empty())
    notes.push_back(fmt::format("{}: read from its #SBATCH lines: {}", name, fmt::join(reading.taken, " ")));
  if (!reading.not_read.empty())
    notes.push_back(fmt::format("{}: not read, since gpuman has nothing like it: {}", name,
                                fmt::join(reading.not_read, " ")));
  if (!gpus) notes.push_back(queue::NoteOfNoGpu(name));
  if (const int line = LineOfSrun(text); line > 0)
    notes.push_back(
        fmt::format("{}:{}: srun belongs to Slurm; here the command runs without it", name, line));
  return notes;
}

}  // namespace

Result<SbatchReading> ApplySbatch(std::string_view text, std::string_view name, SubmitSettings& settings,
                                  base::WallTime now) {
  SbatchReading reading;
  Mail mail;
  const auto table = OptionsOf(settings, mail, now);
  std::string_view head = text.substr(0, queue::FirstCommand(text));
  for (int number = 1; !head.empty(); ++number) {
    const auto line = FirstLineOf(head);
    if (!IsMarked(line)) continue;
    reading.found = true;
    const auto where = fmt::format("{}:{}", name, number);
    auto words = queue::SplitLine(line.substr(kScriptMark.size()));
    if (!words) return base::Fail(std::move(words.error()).In(where));
    for (std::size_t at = 0; at < words->texts.size();) {
      const ScriptOption given = NextOption(words->texts, at, table);
      const SbatchOption* const known = Find(table, given.name);
      if (known == nullptr) {
        reading.not_read.push_back(given.text);
        continue;
      }
      auto taken = known->take(given.value);
      if (!taken) return base::Fail(std::move(taken.error()).In(fmt::format("{}: {}", where, given.name)));
      (*taken ? reading.taken : reading.not_read).push_back(given.text);
      if (*taken) settings.lines[std::string(known->ours.empty() ? known->name : known->ours)] = where;
    }
  }
  if (!mail.user.empty() && !mail.on.empty()) {
    settings.job.notify.mails = {mail.user};
    settings.job.notify.on = mail.on;
  }
  return reading;
}

Result<queue::ToolCompatibility::CompleteScript> ReadSbatch(std::string_view text, std::string_view name,
                                                            SubmitSettings& settings, base::WallTime now) {
  GPUMAN_ASSIGN(auto reading, ApplySbatch(text, name, settings, now));
  if (!reading.found) return nullptr;
  return [reading = std::move(reading), text, name](api::Submission& job) {
    if (job.array && job.script)
      queue::InsertLine(*job.script, "export SLURM_ARRAY_TASK_ID=\"$GPUMAN_ARRAY_TASK_ID\"");
    return NotesOf(reading, name, text, job.gpus.count > 0 || !job.gpus.devices.empty());
  };
}

}  // namespace gpuman::cli::slurm
