#include "cli/compat/slurm/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/parse_number.h"

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using spec::JobState;

template <typename Number>
std::optional<Number> ToNumber(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : base::ParseNumber<Number>(text);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Known(std::string_view text) {
  const bool nothing = text == "N/A" || text == "(null)" || text == "None" || text == "Unknown";
  return nothing ? std::string() : std::string(text);
}

std::optional<base::WallTime> TimeOf(std::string_view text) {
  auto time = base::ParseIso8601(std::string(text) + "Z");
  return time ? std::optional(*time) : std::nullopt;
}

// "1-02:00:00", "2:00", "UNLIMITED".
std::optional<base::Millis> LimitOf(std::string_view text) {
  std::int64_t days = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = ToNumber<std::int64_t>(text.substr(0, dash));
    if (!number || *number > 100'000) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::int64_t seconds = 0;
  const auto parts = Split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  for (const auto part : parts) {
    const auto number = ToNumber<std::int64_t>(part);
    if (!number || *number > 1'000'000) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return std::chrono::seconds(days * 86'400 + seconds);
}

struct StateWord {
  std::string_view slurm;
  JobState state;
};
constexpr std::array<StateWord, 24> kStates{
    {{"PENDING", JobState::kQueued},       {"REQUEUED", JobState::kQueued},
     {"REQUEUE_FED", JobState::kQueued},   {"REQUEUE_HOLD", JobState::kHeld},
     {"SPECIAL_EXIT", JobState::kHeld},    {"RESV_DEL_HOLD", JobState::kHeld},
     {"CONFIGURING", JobState::kStarting}, {"RUNNING", JobState::kRunning},
     {"RESIZING", JobState::kRunning},     {"SIGNALING", JobState::kRunning},
     {"SUSPENDED", JobState::kSuspended},  {"STOPPED", JobState::kSuspended},
     {"COMPLETING", JobState::kStopping},  {"STAGE_OUT", JobState::kStopping},
     {"COMPLETED", JobState::kFinished},   {"FAILED", JobState::kFailed},
     {"NODE_FAIL", JobState::kFailed},     {"BOOT_FAIL", JobState::kFailed},
     {"CANCELLED", JobState::kCancelled},  {"REVOKED", JobState::kCancelled},
     {"TIMEOUT", JobState::kTimeout},      {"DEADLINE", JobState::kTimeout},
     {"OUT_OF_MEMORY", JobState::kKilled}, {"PREEMPTED", JobState::kKilled}}};

// Reads a state; sacct prints "CANCELLED by 1000". False: the state is unknown.
bool TakeState(std::string_view text, SeenJob& job) {
  job.state_word = text.substr(0, text.find(' '));
  const auto* known = std::find_if(kStates.begin(), kStates.end(),
                                   [&](const StateWord& word) { return word.slurm == job.state_word; });
  if (known == kStates.end()) return false;
  job.state = known->state;
  if (job.state == JobState::kQueued && job.reason.starts_with("JobHeld")) job.state = JobState::kHeld;
  return true;
}

// Reads "3:0", exit status and signal, for a job that has ended.
void TakeExit(std::string_view text, SeenJob& job) {
  if (!spec::IsEnded(job.state)) return;
  const auto colon = text.find(':');
  const auto code = ToNumber<int>(text.substr(0, colon));
  const auto signal = colon == std::string_view::npos ? std::nullopt : ToNumber<int>(text.substr(colon + 1));
  if (!code || !signal) return;
  if (*signal != 0)
    job.signal = *signal;
  else
    job.exit_code = *code;
}

bool TakeIds(std::string_view id, std::string_view job, SeenJob& seen) {
  const auto own = ToNumber<std::uint32_t>(id);
  const auto whole = ToNumber<std::uint32_t>(job);
  if (!own || !whole || *own == 0 || *whole == 0) return false;
  seen.id = *own;
  seen.job = *whole;
  return true;
}

std::optional<SeenJob> ReadQueueLine(std::string_view line) {
  const auto fields = Split(line, '|');
  constexpr std::size_t kFields = 13;
  SeenJob job;
  if (fields.size() != kFields || !TakeIds(fields[0], fields[1], job)) return std::nullopt;
  job.task = Known(fields[2]);
  job.reason = Known(fields[4]);
  if (!TakeState(fields[3], job)) return std::nullopt;
  job.submitted = TimeOf(fields[5]);
  job.started = TimeOf(fields[6]);
  if (spec::IsEnded(job.state)) job.ended = TimeOf(fields[7]);
  job.time_limit = LimitOf(fields[8]);
  job.nodes = Known(fields[9]);
  job.gres = Known(fields[10]);
  job.partition = Known(fields[11]);
  job.user = fields[12];
  return job;
}

// The value of "KEY=" at the beginning of a line, to the end of the line, or to a blank for a key within the
// line.
std::optional<std::string_view> ValueOf(std::string_view block, std::string_view key, bool whole_line) {
  for (auto line : Split(block, '\n')) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    auto at = line.starts_with(key) ? 0 : whole_line ? line.npos : line.find(fmt::format(" {}", key));
    if (at == line.npos) continue;
    at += key.size() + (at == 0 ? 0 : 1);
    return whole_line ? line.substr(at) : line.substr(at, line.find(' ', at) - at);
  }
  return std::nullopt;
}

std::string WordOf(std::string_view block, std::string_view key) {
  return Known(ValueOf(block, key, false).value_or(""));
}
std::string LineOf(std::string_view block, std::string_view key) {
  return Known(ValueOf(block, key, true).value_or(""));
}

// A job's name may be any text: keys behind it on the first line are not searched for.
std::optional<SeenJob> ReadBlock(std::string_view block) {
  const auto first_end = std::min(block.find('\n'), block.size());
  const auto first = block.substr(0, first_end);
  const auto rest = block.substr(first_end);
  const auto name = first.find(" JobName=");
  if (!first.starts_with("JobId=") || name == std::string_view::npos) return std::nullopt;
  const auto ids = first.substr(0, name);
  SeenJob job;
  const auto id = WordOf(ids, "JobId=");
  const auto array = WordOf(ids, "ArrayJobId=");
  if (!TakeIds(id, array.empty() ? id : array, job)) return std::nullopt;
  job.task = WordOf(ids, "ArrayTaskId=");
  job.name = first.substr(name + std::string_view(" JobName=").size());
  job.reason = WordOf(rest, "Reason=");
  if (!TakeState(WordOf(rest, "JobState="), job)) return std::nullopt;
  TakeExit(WordOf(rest, "ExitCode="), job);
  const auto user = WordOf(rest, "UserId=");
  job.user = user.substr(0, user.find('('));
  job.submitted = TimeOf(WordOf(rest, "SubmitTime="));
  job.started = TimeOf(WordOf(rest, "StartTime="));
  if (spec::IsEnded(job.state)) job.ended = TimeOf(WordOf(rest, "EndTime="));
  job.time_limit = LimitOf(WordOf(rest, "TimeLimit="));
  job.nodes = LineOf(rest, "NodeList=");
  job.gres = LineOf(rest, "TresPerNode=");
  job.partition = WordOf(rest, "Partition=");
  job.output = LineOf(rest, "StdOut=");
  job.errors = LineOf(rest, "StdErr=");
  return job;
}

struct Refused {
  std::string_view words;
  ErrorCode code;
  std::string_view hint{};
};
constexpr std::array<Refused, 19> kRefusals{
    {{"unrecognized option '--gpuman-", ErrorCode::kNotSupported,
      "this machine's Slurm has no gpuman plugin: the package gpuman-slurm, and a line in plugstack.conf"},
     {"unrecognized option", ErrorCode::kInvalidArgument},
     {"invalid option --", ErrorCode::kInvalidArgument},
     {"Invalid job array specification", ErrorCode::kUnsatisfiable,
      "MaxArraySize of slurm.conf bounds the indices"},
     {"Invalid job id specified", ErrorCode::kNotFound},
     {"Access/permission denied", ErrorCode::kPermissionDenied},
     {"Invalid user id", ErrorCode::kPermissionDenied},
     {"User's group not permitted", ErrorCode::kPermissionDenied},
     {"Invalid account", ErrorCode::kPermissionDenied},
     {"Unable to contact slurm controller", ErrorCode::kUnavailable},
     {"Unable to process configuration file", ErrorCode::kUnavailable},
     {"Could not establish a configuration source", ErrorCode::kUnavailable},
     {"Socket timed out", ErrorCode::kUnavailable},
     {"Invalid partition name", ErrorCode::kUnsatisfiable},
     {"Requested ", ErrorCode::kUnsatisfiable},
     {"can not be satisfied", ErrorCode::kUnsatisfiable},
     {"requested than permitted", ErrorCode::kUnsatisfiable},
     {"Invalid generic resource", ErrorCode::kUnsatisfiable},
     {"Job violates accounting/QOS policy", ErrorCode::kUnsatisfiable}}};

}  // namespace

std::optional<SlurmJobId> SlurmJobIdFromString(std::string_view word) {
  constexpr std::string_view kPrefix = "slurm-";
  if (!word.starts_with(kPrefix)) return std::nullopt;
  word.remove_prefix(kPrefix.size());
  const auto line = word.find('_');
  const auto job = ToNumber<std::uint32_t>(word.substr(0, line));
  if (!job || *job == 0) return std::nullopt;
  if (line == std::string_view::npos) return SlurmJobId{*job, {}};
  const auto task = ToNumber<std::uint32_t>(word.substr(line + 1));
  return task ? std::optional(SlurmJobId{*job, task}) : std::nullopt;
}

std::string InSlurm(const SlurmJobId& name) {
  return name.task ? fmt::format("{}_{}", name.job, *name.task) : std::to_string(name.job);
}
std::string ToString(const SlurmJobId& name) { return "slurm-" + InSlurm(name); }

std::string NameOf(const SeenJob& job) {
  if (job.task.empty()) return fmt::format("slurm-{}", job.job);
  const bool one = job.task.find_first_not_of("0123456789") == std::string::npos;
  return one ? fmt::format("slurm-{}_{}", job.job, job.task)
             : fmt::format("slurm-{}_[{}]", job.job, job.task);
}

void SortTasks(std::vector<SeenJob>& tasks) {
  const auto place = [](const SeenJob& job) {
    const auto index = ToNumber<std::uint32_t>(job.task);
    return std::pair(!index && !job.task.empty(), index.value_or(0));
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const SeenJob& a, const SeenJob& b) { return place(a) < place(b); });
}

std::vector<SeenJob> ReadQueue(std::string_view text) {
  std::vector<SeenJob> jobs;
  for (const auto line : Split(text, '\n'))
    if (auto job = ReadQueueLine(line)) jobs.push_back(std::move(*job));
  return jobs;
}

std::vector<SeenJob> ReadShown(std::string_view text) {
  std::vector<SeenJob> jobs;
  for (std::size_t at = 0; at < text.size();) {
    const auto next = text.find("\nJobId=", at);
    const auto end = next == std::string_view::npos ? text.size() : next + 1;
    if (auto job = ReadBlock(text.substr(at, end - at))) jobs.push_back(std::move(*job));
    at = end;
  }
  return jobs;
}

std::vector<SeenJob> ReadAccounting(std::string_view text) {
  std::vector<SeenJob> jobs;
  for (const auto line : Split(text, '\n')) {
    const auto fields = Split(line, '|');
    constexpr std::size_t kFields = 8;
    if (fields.size() < kFields) continue;
    SeenJob job;
    const auto under = fields[0].find('_');
    const auto id = fields[0].substr(0, under);
    if (!TakeIds(id, id, job) || !TakeState(fields[1], job)) continue;
    if (under != std::string_view::npos) job.task = fields[0].substr(under + 1);
    TakeExit(fields[2], job);
    job.submitted = TimeOf(fields[3]);
    job.started = TimeOf(fields[4]);
    if (spec::IsEnded(job.state)) job.ended = TimeOf(fields[5]);
    job.user = fields[6];
    job.name = line.substr(static_cast<std::size_t>(fields[7].data() - line.data()));  // may contain '|'
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::optional<SbatchAnswer> ReadAccepted(std::string_view text) {
  SbatchAnswer accepted;
  for (const auto line : Split(text, '\n')) {
    const auto id = ToNumber<std::uint32_t>(line.substr(0, line.find(';')));
    if (id && *id != 0)
      accepted.id = *id;
    else if (!line.empty())
      accepted.said.emplace_back(line);
  }
  return accepted.id != 0 ? std::optional(std::move(accepted)) : std::nullopt;
}

base::Error RefusalOf(std::string_view program, std::string_view text) {
  std::string message;
  for (auto line : Split(text, '\n')) {
    if (line.empty() || line.starts_with("Try \"")) continue;
    const std::string prefix = fmt::format("{}: ", program);
    if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    if (line.starts_with("error: ")) line.remove_prefix(7);
    if (!message.empty()) message += "; ";
    message += line;
  }
  if (message.empty()) message = "it failed and did not say why";
  message.insert(0, fmt::format("{}: ", program));
  for (const auto& [words, code, hint] : kRefusals)
    if (text.find(words) != std::string_view::npos) return {code, message, std::string(hint)};
  return {ErrorCode::kInternal, message, {}};
}

std::string ReasonOf(std::string_view slurm_reason) {
  struct Words {
    std::string_view slurm, ours;
  };
  constexpr std::array<Words, 9> kReasons{{{"Resources", "resources"},
                                           {"Priority", "priority"},
                                           {"Dependency", "dependency"},
                                           {"DependencyNeverSatisfied", "dependency_never"},
                                           {"BeginTime", "begin_time"},
                                           {"JobHeldUser", "held_by_user"},
                                           {"JobHeldAdmin", "held_by_admin"},
                                           {"JobArrayTaskLimit", "array_limit"},
                                           {"Reservation", "reservation"}}};
  for (const auto& [slurm, ours] : kReasons)
    if (slurm == slurm_reason) return std::string(ours);
  if (slurm_reason.starts_with("QOS") || slurm_reason.starts_with("Assoc")) return "quota";
  return std::string(slurm_reason);
}

}  // namespace gpuman::cli::slurm
