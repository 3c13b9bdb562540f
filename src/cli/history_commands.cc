// history: figures of GPUs and jobs over time.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/gpu_option.h"
#include "cli/history_views.h"
#include "cli/plot.h"
#include "cli/queue/named_jobs.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

struct HistorySettings {
  std::vector<std::string> gpus;
  std::optional<base::WallTime> since, until;
  std::optional<int> points;
  std::string output = "table";
  bool ascii = false;
};

// What a word or an option names: the parameter of the route, and its value. A word is "job" at first.
struct Subject {
  std::string parameter, name;
};

bool IsUuid(const std::string& word) { return word.starts_with("GPU-") || word.starts_with("MIG-"); }

// Words name jobs, as in every command, or GPUs; what stands behind --gpu is a GPU. Without any, all GPUs.
base::Result<std::vector<Subject>> SubjectsOf(const api::Client& daemon, const HistorySettings& settings,
                                              const std::vector<std::string>& words) {
  std::vector<Subject> subjects;
  for (const auto& gpu : settings.gpus) subjects.push_back({"gpu", gpu});
  for (const auto& word : words) subjects.push_back({"job", word});
  if (!subjects.empty()) return subjects;
  GPUMAN_ASSIGN(const api::GpuList list, daemon.Gpus());
  if (list.gpus.empty())
    return base::Fail(base::ErrorCode::kNotFound, "there are no GPUs", "name a job: gpuman history TAG");
  for (const auto& gpu : list.gpus) subjects.push_back({"gpu", gpu.uuid});
  return subjects;
}

// The times of the answer.
struct TimeRange {
  std::optional<base::WallTime> since, until;
};

base::Result<api::HistoryView> Ask(const api::Client& daemon, const Subject& subject, const TimeRange& times,
                                   std::int64_t points) {
  api::Query query = api::Query().Add(subject.parameter, std::string_view(subject.name));
  query.Add("since", times.since).Add("until", times.until);
  query.AddNumber("points", std::optional(points));
  return api::Ask(daemon, api::routes::kHistory, {{}, query});
}

bool HasRecord(const api::HistoryView& history) {
  return std::any_of(history.recorded.begin(), history.recorded.end(), [](double part) { return part > 0; });
}

// Whether the answer is about a job: the daemon knows it, or has a record of one that it has forgotten.
bool IsOfJob(const api::Client& daemon, const Subject& subject,
             const base::Result<api::HistoryView>& history) {
  if (!history)
    return history.error().code != base::ErrorCode::kNotFound &&
           history.error().code != base::ErrorCode::kInvalidArgument;
  if (history->tag || HasRecord(*history)) return true;
  const auto all = Ask(daemon, subject, {}, api::kMinHistoryPoints);
  return !all || HasRecord(*all);
}

// A job goes before a GPU that has the same number, or whose UUID begins with the job's tag.
base::Result<api::HistoryView> AskHistory(const api::Client& daemon, const Subject& subject,
                                          const HistorySettings& settings, std::int64_t points) {
  const TimeRange times{settings.since, settings.until};
  auto history = Ask(daemon, subject, times, points);
  if (subject.parameter == "gpu" || IsOfJob(daemon, subject, history)) return history;
  auto of_gpu = Ask(daemon, {"gpu", subject.name}, times, points);
  if (of_gpu || history) return of_gpu ? std::move(of_gpu) : std::move(history);
  // Such a word was meant as a GPU, or its beginning of a UUID fits several.
  if (IsUuid(subject.name) || of_gpu.error().code == base::ErrorCode::kInvalidArgument) return of_gpu;
  if (history.error().code != base::ErrorCode::kNotFound) return history;
  return base::Fail(WithNearestTag(daemon, subject.name, std::move(history.error())));
}

void PrintAll(CommandContext& session, const HistorySettings& settings, const HistoryPlotOptions& form,
              const std::vector<api::HistoryView>& histories) {
  if (session.json || settings.output == "json") {
    api::Json list = api::Json::array();
    for (const auto& history : histories) list.push_back(api::ToJson(history));
    return session.PrintJson({{"histories", std::move(list)}});
  }
  if (settings.output == "csv") {
    session.Print(HistoryCsvHead());
    for (const auto& history : histories) session.Print(RenderHistoryCsv(history));
    return;
  }
  for (std::size_t i = 0; i < histories.size(); ++i)
    session.Print((i > 0 ? "\n" : "") + RenderHistory(histories[i], session.style(), form));
}

base::Result<int> History(CommandContext& session, const CommandLine& line, const HistorySettings& settings) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  std::vector<std::string> words;  // the jobs of a sweep are several
  for (const auto& word : line.words) {
    std::vector<std::string> some{word};
    if (word.ends_with('*')) {
      GPUMAN_ASSIGN(some, queue::JobsNamed(session, some));
    }
    words.insert(words.end(), some.begin(), some.end());
  }
  GPUMAN_ASSIGN(const auto subjects, SubjectsOf(daemon, settings, words));
  const HistoryPlotOptions form{!settings.ascii && ShowsUnicode(session.environment()), 4};
  const bool picture = !session.json && settings.output == "table";
  const std::int64_t usual = picture ? HistoryPoints(session.style(), form) : api::kHistoryPoints;
  std::vector<api::HistoryView> histories;
  for (const Subject& subject : subjects) {
    GPUMAN_ASSIGN(auto history, AskHistory(daemon, subject, settings, settings.points.value_or(usual)));
    histories.push_back(std::move(history));
  }
  PrintAll(session, settings, form, histories);
  return kExitDone;
}

}  // namespace

Command HistoryCommand() {
  const auto s = std::make_shared<HistorySettings>();  // shared by the options and the action
  const auto past = [](const std::string& text) { return ParseSince(text, base::SystemClock().Wall()); };
  return {"history",
          "Plot memory, utilization, power and temperature over time",
          "gpuman history train --since 2h",
          {{kJobValue, 0, kAnyNumber, "Jobs by tag or id, or GPUs by number or UUID (default: all GPUs)"}},
          {GpuOption(s->gpus, "all, unless a job is named"),
           {"--since", kTimeValue,
            "From this time on: 2h (ago), 3d, yesterday, 2026-02-01T08:00 (default: of a job its last "
            "start, of a GPU an hour ago)",
            take::Into(s->since, past)},
           {"--until", kTimeValue, "Up to this time (default: now, or the end of the job)",
            take::Into(s->until, past)},
           {"--points", "N",
            "Buckets of time, at most (default: as many as the picture has room for; of csv and json 300)",
            take::Integer(s->points, api::kMinHistoryPoints, api::kMaxHistoryPoints)},
           {"--ascii", "", "Draw without Unicode, as where the locale has none", take::Flag(s->ascii)},
           {"-o,--output", "table|json|csv", "Format of the output", take::Text(s->output)}},
          [s](CommandContext& session, const CommandLine& line) { return History(session, line, *s); }};
}

}  // namespace gpuman::cli
