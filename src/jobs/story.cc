#include "jobs/story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "base/units.h"

namespace gpuman::jobs {
namespace {

using base::FormatBytes;
using base::FormatDuration;
using base::FormatParts;
using base::Millis;
using base::WallTime;

constexpr Millis kSoonAfterFault{600'000};
// A longer story has so many of the first lines, and so many of the last.
constexpr std::size_t kFirstLines = 5, kLastLines = 10;
// The last lines of a story stand one by one; this many of them.
constexpr std::size_t kSingleLines = 6;
constexpr std::size_t kMaxHolders = 3;
constexpr std::string_view kStatsByName = "`gpuman stats --by name` shows what runs like it have used";

constexpr std::array<std::pair<std::string_view, StoryCause>, 18> kCauses{{
    {"memory_limit", StoryCause::kMemoryLimit},
    {"device_pressure", StoryCause::kDevicePressure},
    {"host_memory", StoryCause::kHostMemory},
    {"host_memory_limit", StoryCause::kHostMemory},
    {kTimeLimitWord, StoryCause::kTimeLimit},
    {kCancelledWord, StoryCause::kCancelled},
    {kRemovedWord, StoryCause::kCancelled},
    {"dependency_never", StoryCause::kDependency},
    {"reboot", StoryCause::kMachineRestarted},
    {"machine_restarted", StoryCause::kMachineRestarted},
    {"keeper_lost", StoryCause::kKeeperLost},
    {"command_not_found", StoryCause::kNeverStarted},
    {"command_not_executable", StoryCause::kNeverStarted},
    {"directory_unusable", StoryCause::kNeverStarted},
    {"start_failed", StoryCause::kNeverStarted},
    {"exit_status", StoryCause::kExitStatus},
    {"signal", StoryCause::kSignal},
    {kMemoryRefusedWord, StoryCause::kMemoryRefused},
}};

std::optional<StoryCause> CauseOfWord(std::string_view word) {
  for (const auto& [known, cause] : kCauses)
    if (known == word) return cause;
  return std::nullopt;
}

bool IsFault(const Event& event) {
  static constexpr std::string_view kKinds[] = {"gpu_unhealthy", "gpu_lost", "gpu_unresponsive"};
  // A GPU that works on, though it is degraded, ends no program.
  if (event.kind == "gpu_fault") return event.data.contains("unhealthy");
  return std::find(std::begin(kKinds), std::end(kKinds), event.kind) != std::end(kKinds);
}

// The fault of a GPU during the last run, not long before its end.
const Event* FaultBeforeEnd(const Job& job, const StoryFacts& facts) {
  if (!job.started_at || !job.ended_at) return nullptr;
  for (auto event = facts.events.rbegin(); event != facts.events.rend(); ++event) {
    const bool soon = event->at >= *job.started_at && event->at + kSoonAfterFault >= *job.ended_at;
    if (soon && IsFault(*event)) return &*event;
  }
  return nullptr;
}

bool WasRefusedBeforeEnd(const Job& job, const StoryFacts& facts) {
  return facts.refusal && job.ended_at && facts.refusal->MayHaveEnded(*job.ended_at);
}

StoryCause CauseOf(const Job& job, const StoryFacts& facts) {
  if (IsWaiting(facts.state)) return StoryCause::kWaits;
  if (facts.state == JobState::kSuspended) return StoryCause::kSuspended;
  if (!IsEnded(facts.state)) return StoryCause::kRuns;
  if (facts.state == JobState::kFinished) return StoryCause::kFinished;
  const auto by_word = CauseOfWord(job.reason.value_or(""));
  if (facts.state == JobState::kCancelled)
    return by_word == StoryCause::kDependency ? StoryCause::kDependency : StoryCause::kCancelled;
  if (facts.state == JobState::kTimeout) return StoryCause::kTimeLimit;
  const bool by_itself = by_word == StoryCause::kExitStatus || by_word == StoryCause::kSignal ||
                         by_word == StoryCause::kMemoryRefused;
  if (!by_itself) return by_word.value_or(StoryCause::kOther);
  if (FaultBeforeEnd(job, facts)) return StoryCause::kGpuFault;
  if (WasRefusedBeforeEnd(job, facts)) return StoryCause::kMemoryRefused;
  // The refusal itself is not known any more.
  if (by_word == StoryCause::kMemoryRefused)
    return job.signal ? StoryCause::kSignal : StoryCause::kExitStatus;
  return *by_word;
}

std::string NamesOf(const std::vector<std::string>& gpus, const StoryFacts& facts) {
  std::vector<std::string> names;
  names.reserve(gpus.size());
  for (const std::string& gpu : gpus) names.push_back(facts.gpu_name(gpu));
  return fmt::format("{}", fmt::join(names, " and "));
}

std::string GpusOf(const Job& job, const StoryFacts& facts) { return NamesOf(job.gpus, facts); }

// At most kMaxHolders of them: "a, b, c, and 4 more".
std::string JoinFirst(std::vector<std::string> names) {
  if (names.size() > kMaxHolders) {
    const std::size_t more = names.size() - kMaxHolders;
    names.resize(kMaxHolders);
    names.push_back(fmt::format("and {} more", more));
  }
  return fmt::format("{}", fmt::join(names, ", "));
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

// The signal that ended the job is the one that `--warn` had sent shortly before.
bool EndedByWarning(const Job& job) {
  const auto& spec = *job.spec;
  if (!spec.time_limit || !spec.warn_signal || !spec.warn_before || !job.started_at) return false;
  if (job.signal != spec.warn_signal->number) return false;
  const auto ran = *job.ended_at - *job.started_at - job.suspended;
  return ran >= *spec.time_limit - *spec.warn_before;
}

// "GPU 0 and GPU 1 are held by job 5 'train' (ann) since 2026-11-27T10:02:00Z, and 3 more"; empty: nobody is
// in the way.
std::string InTheWay(const StoryFacts& facts) {
  struct Has {
    const StoryGpuHolder* holder;
    std::vector<std::string> gpus;
  };
  std::vector<Has> all;
  for (const StoryGpuHolder& holder : facts.in_the_way) {
    auto has =
        std::find_if(all.begin(), all.end(), [&](const Has& one) { return one.holder->who == holder.who; });
    if (has == all.end()) has = all.insert(all.end(), Has{&holder, {}});
    has->gpus.push_back(holder.gpu);
  }
  std::vector<std::string> texts;
  for (const Has& has : all) {
    const auto& since = has.holder->since;
    texts.push_back(fmt::format("{} {} held by {}{}", NamesOf(has.gpus, facts),
                                has.gpus.size() == 1 ? "is" : "are", has.holder->who,
                                since ? " since " + base::FormatIso8601(*since) : ""));
  }
  return JoinFirst(std::move(texts));
}

std::string WhyItWaits(const StoryFacts& facts) {
  std::vector<std::string> parts{facts.reason_detail, InTheWay(facts)};
  if (!facts.in_front.empty())
    parts.push_back(
        fmt::format("{} {} first", JoinFirst(facts.in_front), facts.in_front.size() == 1 ? "comes" : "come"));
  std::erase(parts, "");
  return parts.empty() ? "it is about to start" : fmt::format("{}", fmt::join(parts, "; "));
}

// Returns the sentence that the job asked for much more memory than its last run used; nullptr if there is
// none.
const std::string* LimitAboveNeed(const Job& job, const StoryFacts& facts) {
  const auto event = std::find_if(facts.events.rbegin(), facts.events.rend(), [&](const Event& one) {
    return one.kind == "limit_above_need" && one.at >= job.started_at;
  });
  return event == facts.events.rend() ? nullptr : &event->message;
}

std::string OfTurn(const SharedGpuWait& wait, const StoryFacts& facts) {
  const std::string gpus = NamesOf(wait.gpus, facts);
  if (wait.word == "too_large") return fmt::format("it does not fit on {} any more, not even alone", gpus);
  if (wait.word == "return") return fmt::format("its turn on {} begins: its memory comes back", gpus);
  const std::string since = " since " + base::FormatIso8601(wait.since);
  if (wait.word == "retry")
    return fmt::format("it waits on {}{}: memory could not be moved, and that is tried again", gpus, since);
  const std::string what = wait.word == "turn" ? "its turn" : "room";
  const std::string others = JoinFirst(wait.others);
  return fmt::format("it waits for {} on {}{}; {}", what, gpus, since,
                     others.empty()            ? "nobody has it: it is being handed over"
                     : wait.others.size() == 1 ? others + " has it"
                                               : others + " have it");
}

std::string Because(StoryCause cause, const Job& job, const StoryFacts& facts) {
  switch (cause) {
    case StoryCause::kSignal:
      if (!EndedByWarning(job)) return facts.reason_detail.empty() ? HowItEnded(job) : facts.reason_detail;
      return fmt::format(
          "{}, the warning that `--warn` sends {} before the time limit of {}: a program that does "
          "not handle the signal is ended by it",
          HowItEnded(job), FormatDuration(*job.spec->warn_before), FormatDuration(*job.spec->time_limit));
    case StoryCause::kRuns:
      if (!facts.reason_detail.empty()) return facts.reason_detail;
      if (facts.wait) return OfTurn(*facts.wait, facts);
      return job.gpus.empty() ? "it runs" : "it runs on " + GpusOf(job, facts);
    case StoryCause::kSuspended:
      return facts.reason_detail.empty() ? "it is off its GPU" : facts.reason_detail;
    case StoryCause::kFinished: {
      const std::string* const wide = LimitAboveNeed(job, facts);
      return "it finished with exit status 0" + (wide ? "; " + *wide : "");
    }
    case StoryCause::kMemoryRefused:
      return fmt::format("{}; {} {}", facts.refusal_text, HowItEnded(job),
                         After(facts.refusal->at, *job.ended_at));
    case StoryCause::kGpuFault: {
      const Event& fault = *FaultBeforeEnd(job, facts);
      return fmt::format("{}; {} {}", fault.message, HowItEnded(job), After(fault.at, *job.ended_at));
    }
    case StoryCause::kWaits:
      return WhyItWaits(facts);
    default:
      return job.reason_detail.value_or(job.reason.value_or(std::string(ToString(job.state))));
  }
}

// The jobs that had the job's GPUs until it got them.
std::string Holders(const Job& job, const StoryFacts& facts) {
  std::vector<std::string> names;
  for (auto run = facts.holders.rbegin(); run != facts.holders.rend(); ++run) {
    const auto shared =
        std::find_first_of(run->gpus.begin(), run->gpus.end(), job.gpus.begin(), job.gpus.end());
    if (shared == run->gpus.end() || run->job == job.id) continue;
    if (names.size() == kMaxHolders) {
      names.emplace_back("others as well");
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
    // A job that was started again after its end has earlier events.
    const auto since = std::find_if(facts_.events.begin(), facts_.events.end(),
                                    [this](const Event& event) { return event.at >= job_.submitted_at; });
    for (auto event = facts_.events.begin(); event != since; ++event) AddEvent(*event);
    AddSubmission();
    for (auto event = since; event != facts_.events.end(); ++event) AddEvent(*event);
    if (!IsEnded(job_.state)) AddPeak(facts_.now);
    if (lines_.size() > kFirstLines + kLastLines) MergeEarlierOnes();
    return std::move(lines_);
  }

 private:
  // `kind`: of the event; empty: it is none.
  void Add(WallTime at, std::string text, const std::string& kind = {}) {
    if (!lines_.empty() && lines_.back().text == text) {
      ++lines_.back().times;
      lines_.back().last = at;
      return;
    }
    lines_.push_back({at, std::move(text), 1, at});
    kinds_.push_back(kind);
  }

  // Merges earlier events of one kind into one line, except the last lines and the start of the last run.
  void MergeEarlierOnes() {
    struct Kind {
      std::size_t at = 0;  // where its line is
      int others = 0;      // with other texts
      WallTime last{};     // of these
    };
    std::vector<StoryLine> merged;
    std::map<std::string, Kind> known;
    const std::size_t earlier = lines_.size() - kSingleLines;
    for (std::size_t i = 0; i < earlier; ++i) {
      const auto [it, fresh] = known.try_emplace(kinds_[i], Kind{merged.size()});
      if (fresh || kinds_[i].empty() || i == last_start_) {
        merged.push_back(std::move(lines_[i]));
        continue;
      }
      StoryLine& line = merged[it->second.at];
      if (line.text == lines_[i].text) {
        line.times += lines_[i].times;
        line.last = lines_[i].last;
      } else {
        it->second.others += lines_[i].times;
        it->second.last = lines_[i].last;
      }
    }
    for (const auto& [name, kind] : known)
      if (kind.others > 0)
        merged[kind.at].text +=
            fmt::format("; {} more of this kind until {}", kind.others, base::FormatIso8601(kind.last));
    std::move(lines_.begin() + static_cast<std::ptrdiff_t>(earlier), lines_.end(),
              std::back_inserter(merged));
    lines_ = std::move(merged);
  }

  void AddSubmission() {
    const auto words = CommandOfUser(job_);
    const std::string command = words.empty() ? "" : ": " + words.front();
    const char* const how = job_.attached ? "attached" : job_.queued ? "submitted" : "run";
    Add(job_.submitted_at, fmt::format("{} by {}{}", how, job_.owner->user, command));
  }

  void AddEvent(const Event& event) {
    const bool starts = event.kind == "job_started" || event.kind == "job_restarted";
    if (starts) return AddStart(event);
    const bool ends = event.kind.starts_with("job_") && IsEndedWord(event.kind.substr(4));
    // The job does not know the peak of an earlier run any more.
    if (ends && job_.ended_at && event.at >= *job_.ended_at) AddPeak(event.at);
    Add(event.at, Sentence(event, ends), event.kind);
  }

  void AddStart(const Event& event) {
    const bool last_run = job_.started_at && event.at >= *job_.started_at;
    const bool first = event.kind == "job_started";
    const WallTime since = first ? job_.submitted_at : job_.waiting_since;
    if (job_.queued && last_run && event.at > since + Millis{1000}) {
      const std::string holders = Holders(job_, facts_);
      Add(event.at, fmt::format("had waited {}{}{}",
                                FormatDuration(std::chrono::duration_cast<Millis>(event.at - since)),
                                holders.empty() ? "" : "; until then ", holders));
    }
    const std::string where = last_run && !job_.gpus.empty() ? " on " + GpusOf(job_, facts_) : "";
    // The event says "started as process 7; a note".
    constexpr std::string_view kStarted = "started ";
    const std::string_view how = event.message;
    Add(event.at,
        fmt::format("{}{} {}", first ? "started" : "started again", where,
                    how.starts_with(kStarted) ? how.substr(kStarted.size()) : how),
        event.kind);
    last_start_ = lines_.size() - 1;
  }

  void AddPeak(WallTime at) {
    if (!facts_.peak || facts_.peak->count == 0) return;
    const auto parts = facts_.peak_parts ? FormatParts(*facts_.peak_parts) : "";
    Add(at, fmt::format("had used at most {} of a GPU{}", FormatBytes(*facts_.peak),
                        parts.empty() ? "" : fmt::format(" ({})", parts)));
  }

  static bool IsEndedWord(const std::string& word) {
    const auto state = spec::JobStateFromString(word);
    return state && IsEnded(*state);
  }

  std::string Sentence(const Event& event, bool ends) const {
    if (ends) {
      const std::string word = event.kind.substr(4);
      std::string message = event.message;
      // The reason of a job that was refused memory has the refusal as well, which has a line of its own.
      const auto refusal = facts_.refusal ? message.find("; " + facts_.refusal_text) : std::string::npos;
      if (refusal != std::string::npos) message.resize(refusal);
      return message == word ? word : fmt::format("{}: {}", word, message);
    }
    std::string kind = event.kind;
    std::replace(kind.begin(), kind.end(), '_', ' ');
    if (kind.starts_with("job ")) kind.erase(0, 4);
    return event.message.empty() ? kind : fmt::format("{}: {}", kind, event.message);
  }

  const Job& job_;
  const StoryFacts& facts_;
  std::vector<StoryLine> lines_;
  std::vector<std::string> kinds_;  // of the lines
  std::size_t last_start_ = 0;      // the line of the last run's beginning
};

// How commands name the job: other jobs of the queue may have the same tag.
std::string NameOf(const Job& job, const StoryFacts& facts) {
  if (job.queued) return std::to_string(job.id.value);
  return facts.name.empty() ? job.tag : facts.name;
}

// How the job is run again: "`gpuman restart train --memory SIZE` …"; nothing for a job that gpuman did not
// start.
std::vector<std::string> Again(const Job& job, const StoryFacts& facts, const std::string& options,
                               const std::string& what) {
  if (job.attached) return {};
  return {fmt::format("`{} {}{}{}` {}", job.queued ? "gpuman job redo" : "gpuman restart", NameOf(job, facts),
                      options.empty() ? "" : " ", options, what)};
}

std::vector<std::string> WithMore(const Job& job, const StoryFacts& facts) {
  auto advice = Again(job, facts, "--memory SIZE", "runs it again with more");
  advice.emplace_back(kStatsByName);
  return advice;
}

// More memory helps only where the job's own limit was in the way.
std::vector<std::string> WhereRefused(const Job& job, const StoryFacts& facts) {
  const RefusedAllocation& refusal = *facts.refusal;
  if (refusal.by == "limit") return WithMore(job, facts);
  const bool shared = refusal.by == "sharing";
  auto advice = Again(job, facts, "", "runs it again, when the GPU has room");
  advice.insert(advice.begin(), shared ? "`gpuman share status` shows who has the GPU's memory"
                                       : "`gpuman status` shows who has the GPU's memory");
  if (!job.queued && !shared)
    advice.emplace_back("in the queue (`gpuman submit`) a job waits until a GPU has room for it");
  return advice;
}

std::vector<std::string> WhileWaiting(const Job& job, const StoryFacts& facts) {
  const std::string& reason = facts.reason;
  if (job.state == JobState::kHeld)
    return {fmt::format("`gpuman job release {}` lets it go", NameOf(job, facts))};
  if (reason == "paused") return {"an administrator lets jobs start again: `gpuman gpu choice resume`"};
  if (reason == "quota") return {"`gpuman quota list` shows the quotas, and how much of them is used"};
  if (reason == "unmanaged") return {"`gpuman proclist` shows the processes that use the GPUs"};
  if (reason == "reservation")
    return {"`gpuman reserve list` shows who has reserved the GPUs, and when",
            "a job that ends before a reservation begins may start: give it a time limit (`--time`)"};
  if (reason == "unavailable")
    return {
        "`gpuman gpu list` shows which GPUs are drained, restricted or lost, and `gpuman health` their "
        "faults"};
  if (reason == "resources" || reason == "priority" || reason == "making_room")
    return {"`gpuman status` shows who has the GPUs, and `gpuman queue` who is before it"};
  return {};
}

std::vector<std::string> Advice(StoryCause cause, const Job& job, const StoryFacts& facts) {
  const std::string again = "runs it again";
  switch (cause) {
    case StoryCause::kMemoryLimit:
      return WithMore(job, facts);
    case StoryCause::kMemoryRefused:
      return WhereRefused(job, facts);
    case StoryCause::kDevicePressure: {
      auto advice = Again(job, facts, "", again);
      advice.emplace_back("in the queue a job has GPUs for itself, or with `--share` takes turns on them");
      return advice;
    }
    case StoryCause::kHostMemory:
      if (job.reason == "host_memory_limit") return {"give it a larger `--host-memory`"};
      return {
          "let it use less of the machine's memory (fewer workers, smaller batches), or run fewer jobs at "
          "once"};
    case StoryCause::kTimeLimit:
      return Again(job, facts, "--time DURATION", "runs it again for longer");
    case StoryCause::kExitStatus:
    case StoryCause::kSignal:
      return {fmt::format("`gpuman logs {}` has what it wrote last", NameOf(job, facts))};
    case StoryCause::kGpuFault: {
      std::vector<std::string> advice{"`gpuman health` shows the state of the GPUs"};
      for (auto& line : Again(job, facts, "", job.queued ? "runs it again, on healthy GPUs" : again))
        advice.push_back(std::move(line));
      return advice;
    }
    case StoryCause::kDependency:
      return Again(job, facts, "", "submits it again, when what it waits for was redone");
    case StoryCause::kMachineRestarted:
    case StoryCause::kKeeperLost:
      return Again(job, facts, "", again);
    case StoryCause::kNeverStarted:
      return {fmt::format("`gpuman job show {}` shows its command and its directory", NameOf(job, facts))};
    case StoryCause::kWaits:
      return WhileWaiting(job, facts);
    case StoryCause::kSuspended:
      return {fmt::format("`gpuman resume {}` brings it back when there is room", NameOf(job, facts))};
    case StoryCause::kRuns:
      if (facts.wait) return {"`gpuman share status` shows who takes turns, and how long a turn is"};
      return {};
    case StoryCause::kFinished:
      if (LimitAboveNeed(job, facts) == nullptr) return {};
      return {std::string(kStatsByName)};
    case StoryCause::kCancelled:
    case StoryCause::kOther:
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
  story.advice = Advice(story.cause, job, facts);
  if (story.lines.size() > kFirstLines + kLastLines) {
    story.left_out = static_cast<int>(story.lines.size() - kFirstLines - kLastLines);
    story.left_out_after = kFirstLines;
    story.lines.erase(story.lines.begin() + kFirstLines, story.lines.end() - kLastLines);
  }
  return story;
}

}  // namespace gpuman::jobs
