#include "jobs/story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/units.h"

namespace gpuman::jobs {
namespace {

using base::FormatBytes;
using base::FormatDuration;
using base::Millis;
using base::WallTime;

// A program ends so soon after what made it fail, mostly at once: it may write a report or save its state.
constexpr Millis kSoonAfterRefusal{60'000};
constexpr Millis kSoonAfterFault{600'000};
// A story is at most one screen: so many of the first lines, and so many of the last.
constexpr std::size_t kFirstLines = 5, kLastLines = 10;
constexpr std::size_t kMostHolders = 3;

constexpr std::array<std::pair<std::string_view, Cause>, 17> kCauses{{
    {"memory_limit", Cause::kMemoryLimit},
    {"device_pressure", Cause::kDevicePressure},
    {"host_memory", Cause::kHostMemory},
    {"host_memory_limit", Cause::kHostMemory},
    {kTimeLimitWord, Cause::kTimeLimit},
    {kCancelledWord, Cause::kCancelled},
    {kRemovedWord, Cause::kCancelled},
    {"dependency_never", Cause::kDependency},
    {"reboot", Cause::kMachineRestarted},
    {"machine_restarted", Cause::kMachineRestarted},
    {"keeper_lost", Cause::kKeeperLost},
    {"command_not_found", Cause::kNeverStarted},
    {"command_not_executable", Cause::kNeverStarted},
    {"directory_unusable", Cause::kNeverStarted},
    {"start_failed", Cause::kNeverStarted},
    {"exit_status", Cause::kExitStatus},
    {"signal", Cause::kSignal},
}};

std::optional<Cause> CauseOfWord(std::string_view word) {
  for (const auto& [known, cause] : kCauses)
    if (known == word) return cause;
  return std::nullopt;
}

// The fault of a GPU during the last run, not long before its end.
const Event* FaultBeforeEnd(const Job& job, const StoryFacts& facts) {
  for (auto event = facts.events.rbegin(); event != facts.events.rend(); ++event) {
    const bool is_fault = event->kind == "gpu_unhealthy" || event->kind == "gpu_fault";
    if (!is_fault || !job.started_at || !job.ended_at) continue;
    if (event->at >= *job.started_at && event->at + kSoonAfterFault >= *job.ended_at) return &*event;
  }
  return nullptr;
}

// The refusal is of this run, so it was before the end, whatever the clocks of the two times say.
bool WasRefusedBeforeEnd(const Job& job, const StoryFacts& facts) {
  return facts.refusal && job.ended_at && facts.refusal->at + kSoonAfterRefusal >= *job.ended_at;
}

Cause CauseOf(const Job& job, const StoryFacts& facts) {
  if (IsWaiting(facts.state)) return Cause::kWaits;
  if (facts.state == JobState::kSuspended) return Cause::kSuspended;
  if (!IsEnded(facts.state)) return Cause::kRuns;
  if (facts.state == JobState::kFinished) return Cause::kFinished;
  const auto by_word = CauseOfWord(job.reason.value_or(""));
  if (facts.state == JobState::kCancelled)
    return by_word == Cause::kDependency ? Cause::kDependency : Cause::kCancelled;
  if (facts.state == JobState::kTimeout) return Cause::kTimeLimit;
  if (by_word != Cause::kExitStatus && by_word != Cause::kSignal) return by_word.value_or(Cause::kOther);
  if (FaultBeforeEnd(job, facts)) return Cause::kGpuFault;
  return WasRefusedBeforeEnd(job, facts) ? Cause::kMemoryRefused : *by_word;
}

std::string GpusOf(const Job& job, const StoryFacts& facts) {
  std::vector<std::string> names;
  for (const std::string& gpu : job.gpus) names.push_back(facts.gpu_name(gpu));
  return fmt::format("{}", fmt::join(names, " and "));
}

std::string HowItEnded(const Job& job) {
  if (job.exit_code && *job.exit_code != 0)
    return fmt::format("it ended with exit status {}", *job.exit_code);
  if (job.signal) {
    const char* const name = ::sigabbrev_np(*job.signal);
    return name ? fmt::format("it was ended by SIG{}", name)
                : fmt::format("it was ended by signal {}", *job.signal);
  }
  return "it ended";
}

std::string After(WallTime before, WallTime then) {
  const Millis time = std::chrono::duration_cast<Millis>(then - before);
  return time < Millis{1000} ? "at once" : FormatDuration(time) + " later";
}

std::string Because(Cause cause, const Job& job, const StoryFacts& facts) {
  switch (cause) {
    case Cause::kRuns:
      if (!facts.reason_detail.empty()) return facts.reason_detail;
      return job.gpus.empty() ? "it runs" : "it runs on " + GpusOf(job, facts);
    case Cause::kFinished:
      return "it finished with exit status 0";
    case Cause::kMemoryRefused:
      return fmt::format("{}; {} {}", facts.refusal_text, HowItEnded(job),
                         After(facts.refusal->at, *job.ended_at));
    case Cause::kGpuFault: {
      const Event& fault = *FaultBeforeEnd(job, facts);
      return fmt::format("{}; {} {}", fault.message, HowItEnded(job), After(fault.at, *job.ended_at));
    }
    case Cause::kWaits:
      return facts.reason_detail.empty() ? "it is about to start" : facts.reason_detail;
    default:
      return job.reason_detail.value_or(job.reason.value_or(std::string(ToString(job.state))));
  }
}

// Who had the GPUs for which the job waited.
std::string Holders(const Job& job, const StoryFacts& facts) {
  std::vector<std::string> names;
  for (auto run = facts.holders.rbegin(); run != facts.holders.rend(); ++run) {
    const auto shared =
        std::find_first_of(run->gpus.begin(), run->gpus.end(), job.gpus.begin(), job.gpus.end());
    if (shared == run->gpus.end() || run->job == job.id) continue;
    if (names.size() == kMostHolders) {
      names.emplace_back("others before");
      break;
    }
    names.push_back(fmt::format("{} had {} (job {}{}{})", run->user, facts.gpu_name(*shared), run->job.value,
                                run->name.empty() ? "" : ", ", run->name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

class Writer {
 public:
  Writer(const Job& job, const StoryFacts& facts) : job_(job), facts_(facts) {}

  std::vector<StoryLine> Lines() {
    const std::string command = job_.command.empty() ? "" : ": " + job_.command.front();
    const char* const how = job_.attached ? "attached" : job_.queued ? "submitted" : "run";
    Add(job_.submitted_at, fmt::format("{} by {}{}", how, job_.owner->user, command));
    for (const Event& event : facts_.events) AddEvent(event);
    if (!IsEnded(job_.state)) AddPeak(lines_.empty() ? job_.submitted_at : lines_.back().last);
    return std::move(lines_);
  }

 private:
  void Add(WallTime at, std::string text) {
    if (!lines_.empty() && lines_.back().text == text) {
      ++lines_.back().times;
      lines_.back().last = at;
      return;
    }
    lines_.push_back({at, std::move(text), 1, at});
  }

  void AddEvent(const Event& event) {
    const bool starts = event.kind == "job_started" || event.kind == "job_restarted";
    if (starts) return AddStart(event);
    const bool ends = event.kind.starts_with("job_") && IsEndedWord(event.kind.substr(4));
    // What the peak of an earlier run was, the job does not know any more.
    if (ends && job_.ended_at && event.at >= *job_.ended_at) AddPeak(event.at);
    Add(event.at, Sentence(event, ends));
  }

  void AddStart(const Event& event) {
    const bool last_run = job_.started_at && event.at >= *job_.started_at;
    const bool first = event.kind == "job_started";
    const WallTime since = first ? job_.submitted_at : job_.waiting_since;
    if (job_.queued && last_run && event.at > since + Millis{1000}) {
      const std::string holders = Holders(job_, facts_);
      Add(event.at, fmt::format("had waited {} for its turn{}{}",
                                FormatDuration(std::chrono::duration_cast<Millis>(event.at - since)),
                                holders.empty() ? "" : ": ", holders));
    }
    const std::string where = last_run && !job_.gpus.empty() ? " on " + GpusOf(job_, facts_) : "";
    Add(event.at, fmt::format("{}{}, {}", first ? "started" : "started again", where, event.message));
  }

  void AddPeak(WallTime at) {
    if (!job_.peak || job_.peak->count == 0) return;
    Add(at, fmt::format("had used at most {} of a GPU", FormatBytes(*job_.peak)));
  }

  static bool IsEndedWord(const std::string& word) {
    const auto state = spec::JobStateFromString(word);
    return state && IsEnded(*state);
  }

  static std::string Sentence(const Event& event, bool ends) {
    if (ends) {
      const std::string word = event.kind.substr(4);
      return event.message == word ? word : fmt::format("{}: {}", word, event.message);
    }
    std::string kind = event.kind;
    std::replace(kind.begin(), kind.end(), '_', ' ');
    if (kind.starts_with("job ")) kind.erase(0, 4);
    return event.message.empty() ? kind : fmt::format("{}: {}", kind, event.message);
  }

  const Job& job_;
  const StoryFacts& facts_;
  std::vector<StoryLine> lines_;
};

std::vector<std::string> Advice(Cause cause, const Job& job) {
  const std::string again = job.queued ? "gpuman job redo" : "gpuman restart";
  switch (cause) {
    case Cause::kMemoryLimit:
      return {fmt::format("`{} {} --memory SIZE` runs it again with more", again, job.tag),
              fmt::format("`gpuman stats --by name` shows what runs like it have used")};
    case Cause::kMemoryRefused:
      return {fmt::format("`{} {} --memory SIZE` runs it again with more", again, job.tag)};
    case Cause::kDevicePressure:
      return {fmt::format("a limit (`--memory`) keeps its GPU's memory for it; `{} {}` runs it again", again,
                          job.tag),
              "with `--share` it would have waited for its turn"};
    case Cause::kHostMemory:
      return {fmt::format(
          "let it use less of the machine's memory (fewer workers, smaller batches), then `{} {}`", again,
          job.tag)};
    case Cause::kTimeLimit:
      return {fmt::format("`{} {} --time DURATION` runs it again for longer", again, job.tag)};
    case Cause::kExitStatus:
    case Cause::kSignal:
      return {fmt::format("`gpuman logs {}` has what it wrote last", job.tag)};
    case Cause::kGpuFault:
      return {"`gpuman health` shows the state of the GPUs",
              fmt::format("`{} {}` runs it again; the queue takes healthy GPUs alone", again, job.tag)};
    case Cause::kDependency:
      return {
          fmt::format("`gpuman job redo {}` submits it again, when what it waits for was redone", job.tag)};
    case Cause::kMachineRestarted:
    case Cause::kKeeperLost:
      return {fmt::format("`{} {}` runs it again; `--retries` has the queue do so", again, job.tag)};
    case Cause::kNeverStarted:
      return {fmt::format("check its command and directory: `gpuman job show {}`", job.tag)};
    case Cause::kWaits:
      return {"`gpuman queue` shows who is before it"};
    case Cause::kSuspended:
      return {fmt::format("`gpuman resume {}` brings it back when there is room", job.tag)};
    case Cause::kRuns:
    case Cause::kFinished:
    case Cause::kCancelled:
    case Cause::kOther:
      return {};
  }
  return {};
}

}  // namespace

JobStory StoryOf(const Job& job, const StoryFacts& facts) {
  JobStory story;
  story.cause = CauseOf(job, facts);
  story.because = Because(story.cause, job, facts);
  story.lines = Writer(job, facts).Lines();
  story.advice = Advice(story.cause, job);
  if (story.lines.size() > kFirstLines + kLastLines) {
    story.left_out = static_cast<int>(story.lines.size() - kFirstLines - kLastLines);
    story.left_out_after = kFirstLines;
    story.lines.erase(story.lines.begin() + kFirstLines, story.lines.end() - kLastLines);
  }
  return story;
}

}  // namespace gpuman::jobs
