#include "cli/queue/named_jobs.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "api/queue_client.h"
#include "cli/queue/commands.h"
#include "cli/text.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;
using base::Result;

bool IsSweepName(std::string_view word) { return word.ends_with('*'); }

struct Sweep {
  std::vector<std::int64_t> all, open;
};

// The sweeps whose names begin so, ordered by their first ids.
std::vector<Sweep> SweepsNamed(std::string_view start, const std::vector<api::QueueRow>& rows) {
  std::map<std::pair<std::string, base::WallTime>, Sweep> by_submission;
  for (const auto& row : rows) {
    if (!row.tag.starts_with(start) || row.array_id) continue;
    auto& sweep = by_submission[{row.user, row.submitted_at}];
    sweep.all.push_back(row.id);
    if (!spec::IsEnded(row.state)) sweep.open.push_back(row.id);
  }
  std::vector<Sweep> sweeps;
  for (auto& [submission, sweep] : by_submission) {
    if (sweep.all.size() < 2) continue;
    std::sort(sweep.all.begin(), sweep.all.end());
    std::sort(sweep.open.begin(), sweep.open.end());
    sweeps.push_back(std::move(sweep));
  }
  std::sort(sweeps.begin(), sweeps.end(), [](const auto& a, const auto& b) { return a.all < b.all; });
  return sweeps;
}

// Looks among the caller's own jobs first, as with other names.
Result<std::vector<std::string>> FindSweep(CommandContext& session, std::string_view name, SweepScope which) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  api::QueueFilter filter;
  filter.states = {"all"};
  filter.users = {CallersName()};
  GPUMAN_ASSIGN(const auto own, api::ListQueueRows(daemon, filter));
  auto found = JobsOfSweep(name, own, which);
  if (found || found.error().code != ErrorCode::kNotFound) return found;
  filter.users.clear();
  GPUMAN_ASSIGN(const auto all, api::ListQueueRows(daemon, filter));
  return JobsOfSweep(name, all, which);
}

}  // namespace

std::string NameOfSweep(const std::vector<std::string_view>& tags) {
  if (tags.empty()) return {};
  std::string_view common = tags.front();
  bool same = true;
  for (const auto tag : tags) {
    same = same && tag == tags.front();
    const auto end = std::mismatch(common.begin(), common.end(), tag.begin(), tag.end()).first;
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  if (common.empty() || same) return std::string(common);
  return fmt::format("{}*", common);
}

Result<std::vector<std::string>> JobsOfSweep(std::string_view name, const std::vector<api::QueueRow>& rows,
                                             SweepScope which) {
  const auto start = name.substr(0, name.size() - 1);
  if (start.empty())
    return base::Fail(ErrorCode::kInvalidArgument, "'*' names no jobs", "name them by their ids: 5-9,12");
  const auto sweeps = SweepsNamed(start, rows);
  if (sweeps.empty())
    return base::Fail(ErrorCode::kNotFound, fmt::format("no jobs were submitted together as '{}'", name),
                      "`gpuman status` shows the names of sweeps; one job is named by its tag or its id");
  std::vector<const Sweep*> open;
  for (const auto& sweep : sweeps)
    if (!sweep.open.empty()) open.push_back(&sweep);
  if (open.size() > 1) {
    std::vector<std::string> ids;
    ids.reserve(open.size());
    for (const auto* const sweep : open) ids.push_back(JoinIds(sweep->open));
    return base::Fail(
        ErrorCode::kConflict,
        fmt::format("{} submissions have jobs named '{}': {}", open.size(), name, fmt::join(ids, "; ")),
        "say which by their ids");
  }
  const Sweep& meant = open.empty() ? sweeps.back() : *open.front();
  std::vector<std::string> jobs;
  for (const auto id : open.empty() || which == SweepScope::kAll ? meant.all : meant.open)
    jobs.push_back(std::to_string(id));
  return jobs;
}

Result<std::vector<std::string>> JobsNamed(CommandContext& session, const std::vector<std::string>& words) {
  GPUMAN_ASSIGN(const auto refs, JobsOf(words));
  std::vector<std::string> jobs;
  for (const auto& ref : refs) {
    std::vector<std::string> some{ref};
    if (IsSweepName(ref)) {
      GPUMAN_ASSIGN(some, FindSweep(session, ref, SweepScope::kOpen));
    }
    jobs.insert(jobs.end(), some.begin(), some.end());
  }
  return jobs;
}

Result<> SweepResolver::Resolve(spec::NamedDependencies& depends) {
  std::vector<spec::NamedDependency> list;
  for (auto& one : depends.list) {
    if (!IsSweepName(one.job)) {
      list.push_back(std::move(one));
      continue;
    }
    auto known = known_.find(one.job);
    if (known == known_.end()) {
      GPUMAN_ASSIGN(auto jobs, FindSweep(session_, one.job, SweepScope::kAll));
      known = known_.emplace(one.job, std::move(jobs)).first;
    }
    for (const auto& job : known->second) list.push_back({one.kind, job});
  }
  depends.list = std::move(list);
  return {};
}

}  // namespace gpuman::cli::queue
