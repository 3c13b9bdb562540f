// queue: the list of jobs.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "api/queue_client.h"
#include "api/queue_json.h"
#include "cli/queue/commands.h"
#include "cli/queue/listing.h"
#include "cli/queue/named_jobs.h"
#include "cli/queue/tool_compatibility.h"
#include "cli/take.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;
using base::SystemClock;

struct ListSettings {
  JobListOptions form;
  api::QueueFilter filter;
  bool all = false, completed = false, watch = false;
  SortBy sort = SortBy::kQueue;
  std::string output = "table";
  std::optional<base::WallTime> since;
  std::optional<int> limit;  // negative: the last ones
  base::Millis interval{2000};
};

Result<> TakeStates(const std::string& text, api::QueueFilter& filter) {
  GPUMAN_ASSIGN(const auto words, SplitList(text));
  for (const auto& word : words) {
    const auto states = StatesOf(word);
    if (!states)
      return base::Fail(
          ErrorCode::kInvalidArgument, fmt::format("'{}' is not a state", word),
          "queued, held, running, suspended, finished, failed, cancelled, timeout, killed, or all");
    filter.states.insert(filter.states.end(), states->begin(), states->end());
  }
  return {};
}

// The filter that the daemon applies; this program applies the other settings.
api::QueueFilter FilterOf(const ListSettings& s) {
  api::QueueFilter filter = s.filter;
  if (std::find(filter.users.begin(), filter.users.end(), "all") != filter.users.end()) filter.users.clear();
  for (auto& user : filter.users)
    if (user == "me") user = CallersName();
  if (s.completed && filter.states.empty())
    filter.states = {"finished", "failed", "cancelled", "timeout", "killed"};
  if ((s.all || !filter.jobs.empty()) && filter.states.empty()) filter.states = {"all"};
  // The daemon chooses the first N jobs in the queue's order.
  if (s.limit && *s.limit > 0 && s.sort == SortBy::kQueue && !s.since && !s.form.table.tree)
    filter.limit = *s.limit;
  return filter;
}

Result<std::vector<JobListEntry>> Fetch(const api::Client& daemon, const ListSettings& s) {
  std::vector<JobListEntry> jobs;
  if (s.form.table.tree) {
    GPUMAN_ASSIGN(const auto list, api::ListQueue(daemon, FilterOf(s)));
    const auto gpus = daemon.Gpus().value_or(api::GpuList{}).gpus;
    for (const auto& job : list.jobs) jobs.push_back(ListedOf(job, gpus));
  } else {
    GPUMAN_ASSIGN(auto rows, api::ListQueueRows(daemon, FilterOf(s)));
    jobs.reserve(rows.size());
    for (auto& row : rows) jobs.push_back({std::move(row), {}});
  }
  if (s.since) std::erase_if(jobs, [&](const JobListEntry& job) { return job.row.submitted_at < *s.since; });
  Sort(jobs, s.sort, SystemClock().Wall());
  const auto most = s.limit ? static_cast<std::size_t>(std::abs(*s.limit)) : 0;
  if (most > 0 && most < jobs.size()) {
    const auto cut = static_cast<std::ptrdiff_t>(*s.limit > 0 ? most : jobs.size() - most);
    if (*s.limit > 0)
      jobs.erase(jobs.begin() + cut, jobs.end());
    else
      jobs.erase(jobs.begin(), jobs.begin() + cut);
  }
  return jobs;
}

// Prints the jobs of the other queue where no daemon runs, as on a login node.
Result<> PrintOtherAlone(CommandContext& session, const ExternalQueue& other, const ListSettings& s) {
  const auto jobs = other.List(session, FilterOf(s)).value_or(ExternalQueueListing{api::Json::array(), {}});
  if (session.json || s.output == "json")
    session.PrintJson({{"jobs", api::Json::array()}, {other.Name(), jobs.json}});
  else
    session.Print(jobs.table.empty() ? "No jobs.\n" : jobs.table);
  return {};
}

Result<> PrintOnce(CommandContext& session, const api::Client& daemon, const ExternalQueue& other,
                   const ListSettings& s) {
  const auto now = SystemClock().Wall();
  const bool json = session.json || s.output == "json";
  if (json && s.form.json == nullptr) {
    GPUMAN_ASSIGN(auto text, api::ListQueueJson(daemon, FilterOf(s)));
    while (text.ends_with('\n')) text.pop_back();
    if (auto elsewhere = other.List(session, FilterOf(s))) {
      GPUMAN_ASSIGN(api::Json whole, api::ParseJson(text));
      whole[other.Name()] = std::move(elsewhere->json);
      text = PrintableJson(api::Dump(whole));
    }
    session.Print(text + "\n");
    return {};
  }
  GPUMAN_ASSIGN(const auto jobs, Fetch(daemon, s));
  if (json)
    session.PrintJson(s.form.json(jobs, now));
  else if (s.output == "csv")
    session.Print(RenderCsv(jobs, now));
  else if (s.output == "yaml")
    session.Print(RenderYaml(jobs, now));
  else if (jobs.empty() && !s.form.if_empty.empty())
    session.Print(std::string(s.form.if_empty));
  else
    session.Print(RenderTable(jobs, s.form.table, session.style(), now));
  if (json || s.output != "table") return {};
  if (const auto elsewhere = other.List(session, FilterOf(s)); elsewhere && !elsewhere->table.empty())
    session.Print("\n" + elsewhere->table);
  return {};
}

// nullopt where jobs go to another queue and no daemon runs here: gpuman would start a daemon only to learn
// that it has no jobs.
Result<std::optional<api::Client>> DaemonFor(CommandContext& session, const ExternalQueue& other) {
  if (other.ServesAlone(session)) {
    auto running = session.RunningDaemon();
    if (running) return std::optional(std::move(*running));
    if (running.error().code == ErrorCode::kUnavailable) return std::optional<api::Client>();
  }
  GPUMAN_ASSIGN(auto daemon, session.Daemon());
  return std::optional(std::move(daemon));
}

Result<int> List(CommandContext& session, const ExternalQueue& other, ListSettings& s) {
  GPUMAN_ASSIGN(s.filter.jobs, JobsNamed(session, s.filter.jobs));
  GPUMAN_ASSIGN(const auto daemon, DaemonFor(session, other));
  for (;;) {
    if (s.watch && session.style().terminal) session.PrintOutput("\033[H\033[2J");
    GPUMAN_TRY(daemon ? PrintOnce(session, *daemon, other, s) : PrintOtherAlone(session, other, s));
    session.Flush();
    if (!s.watch || session.output_error() != 0) return kExitDone;
    std::this_thread::sleep_for(s.interval);
  }
}

Take TakeJobs(std::vector<std::string>& list) {
  return [&list](const std::string& text) -> Result<> {
    GPUMAN_ASSIGN(const auto jobs, ParseJobs(text));
    list.insert(list.end(), jobs.begin(), jobs.end());
    return {};
  };
}

Take TakeSort(SortBy& sort) {
  return [&sort](const std::string& text) -> Result<> {
    const auto by = SortByFromString(text);
    if (!by)
      return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not an order", text),
                        "id, state, time, name, gpus, priority or queue");
    sort = *by;
    return {};
  };
}

Options ListOptions(ListSettings& s, base::WallTime now) {
  return {
      {"-s,--states,--state", "STATES",
       "Only these states: queued,held,running,suspended,finished,failed,… or PD,R,CD,…",
       [&s](const std::string& text) { return TakeStates(text, s.filter); }},
      {"-u,--user,--users", "USERS",
       s.form.of_caller ? "Only these users (default: you), or all" : "Only these users; me is yourself",
       [&s, first = true](const std::string& text) mutable -> Result<> {
         if (std::exchange(first, false)) s.filter.users.clear();
         return take::List(s.filter.users)(text);
       }},
      {"-j,--jobs,--job", "JOBS", "Only these jobs: 7,train,10-19", TakeJobs(s.filter.jobs)},
      {"-N,--names", "NAMES", "Only jobs with these names", take::List(s.filter.names)},
      {"-P,--project,--projects", "NAMES", "Only jobs of these projects", take::List(s.filter.projects)},
      {"-a,--all", "", "Also ended jobs", take::Flag(s.all)},
      {"-c,--completed", "", "Only ended jobs", take::Flag(s.completed)},
      {"--since", "TIME", "Only jobs submitted since 1h, 2d, today, yesterday, 2026-02-01",
       take::Into(s.since, [now](const std::string& text) { return ParseSince(text, now); })},
      {"-n,--limit", "N", "Only the first N jobs; -N: the last N",
       take::Integer(s.limit, -1'000'000, 1'000'000)},
      {"-r,--sort", "ORDER", "Sort by id, state, time, name, gpus or priority", TakeSort(s.sort)},
      {"-f,--format", "COLUMNS", "Columns: JOBID,NAME,ST,TIME,TIMELIMIT,MEMORY,NODES,NODELIST(REASON),USER,…",
       take::Into(s.form.table.columns, ParseColumns)},
      {"-t,--tree", "", "Show each job below the job it waits for", take::Flag(s.form.table.tree)},
      {"-g,--group", "", "One table for each state", take::Flag(s.form.table.group)},
      {"-o,--output", "table|json|csv|yaml", "Format of the output", take::Text(s.output)},
      {"-w,--watch", "", "Refresh the list until Ctrl-C", take::Flag(s.watch)},
      {"--interval", "TIME", "Time between two refreshes of --watch (default: 2s)",
       take::Into(s.interval, [](const std::string& text) -> Result<base::Millis> {
         GPUMAN_ASSIGN(const auto interval, base::ParseDuration(text));
         return std::max(interval, base::Millis(100));
       })}};
}

}  // namespace

std::string CallersName() {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(::geteuid());
}

Result<std::vector<std::string>> JobsOf(const std::vector<std::string>& words) {
  std::vector<std::string> jobs;
  for (const auto& word : words) {
    GPUMAN_ASSIGN(const auto some, ParseJobs(word));
    jobs.insert(jobs.end(), some.begin(), some.end());
  }
  return jobs;
}

Command ListCommand(JobListOptions form, const ToolCompatibility& tools) {
  const auto s = std::make_shared<ListSettings>();  // shared by the options and the action
  if (form.of_caller) s->filter.users = {"me"};
  s->form = std::move(form);
  return {"queue",
          "List running and waiting jobs, with the reason and the expected start",
          "gpuman queue -u me --tree",
          {},
          ListOptions(*s, SystemClock().Wall()),
          [s, &tools](CommandContext& session, const auto&) { return List(session, tools.queue, *s); }};
}

}  // namespace gpuman::cli::queue
