#include "queue/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/parse_number.h"

namespace gpuman::queue {
namespace {

using base::ErrorCode;
using base::Fail;

std::optional<std::int64_t> Number(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : base::ParseNumber<std::int64_t>(text);
}

std::string Describe(const Reference& reference) {
  switch (reference.kind) {
    case Reference::Kind::kId:
      return fmt::format("job {}", reference.id.value);
    case Reference::Kind::kTask:
      return fmt::format("task {} of array {}", reference.task, reference.id.value);
    case Reference::Kind::kRecent:
      return reference.back == 0 ? std::string("earlier job of yours (@)")
                                 : fmt::format("earlier job of yours (@~{})", reference.back);
    case Reference::Kind::kTag:
      return fmt::format("job with the tag '{}'", reference.tag);
  }
  return {};
}

base::Result<Reference> ParseRecent(std::string_view text) {
  Reference reference{.kind = Reference::Kind::kRecent};
  if (text == "@") return reference;
  const auto back = text.size() > 2 && text[1] == '~' ? Number(text.substr(2)) : std::nullopt;
  if (!back || *back > INT32_MAX)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' names no job; your last one is @, the one before @~1", text));
  reference.back = static_cast<int>(*back);
  return reference;
}

// The state of one dependency, from the progress of its job.
DependencyState Judge(DependencyKind kind, AwaitedJobState progress) {
  using State = DependencyState;
  if (progress == AwaitedJobState::kWaits) return State::kWaits;
  const bool ended = progress != AwaitedJobState::kBegan;
  switch (kind) {
    case DependencyKind::kAfter:
      return State::kMet;
    case DependencyKind::kAfterAny:
      return ended ? State::kMet : State::kWaits;
    case DependencyKind::kAfterOk:
      if (!ended) return State::kWaits;
      return progress == AwaitedJobState::kOk ? State::kMet : State::kImpossible;
    case DependencyKind::kAfterNotOk:
      if (!ended) return State::kWaits;
      return progress == AwaitedJobState::kNotOk || progress == AwaitedJobState::kCancelled
                 ? State::kMet
                 : State::kImpossible;
  }
  return State::kWaits;
}

}  // namespace

base::Result<Reference> ParseReference(std::string_view text) {
  if (text.empty()) return Fail(ErrorCode::kInvalidArgument, "a job's name is missing");
  if (text.front() == '@') return ParseRecent(text);
  if (const auto id = Number(text)) {
    if (*id < 1) return Fail(ErrorCode::kInvalidArgument, "jobs are numbered from 1");
    return Reference{.kind = Reference::Kind::kId, .id = {*id}};
  }
  if (const auto at = text.find('_'); at != std::string_view::npos && at > 0 && at + 1 < text.size()) {
    const auto id = Number(text.substr(0, at)), task = Number(text.substr(at + 1));
    if (id && task && *id >= 1) return Reference{.kind = Reference::Kind::kTask, .id = {*id}, .task = *task};
  }
  return Reference{.kind = Reference::Kind::kTag, .tag = std::string(text)};
}

base::Result<Dependencies> Resolve(const spec::NamedDependencies& named, const ReferenceLookup& lookup) {
  Dependencies resolved{.mode = named.mode};
  std::set<std::pair<DependencyKind, JobId>> seen;
  // A lookup may cost a walk over all tasks of an array.
  std::set<std::pair<DependencyKind, std::string>> looked_up;
  for (const auto& [kind, name] : named.list) {
    GPUMAN_ASSIGN(const auto reference, ParseReference(name));
    if (named.list.size() > 1 && !looked_up.emplace(kind, Describe(reference)).second) continue;
    const auto jobs = lookup(reference);
    if (jobs.empty())
      return Fail(ErrorCode::kNotFound, fmt::format("there is no {} to wait for", Describe(reference)),
                  "gpuman queue shows those that wait and run");
    for (const JobId job : jobs)
      if (seen.emplace(kind, job).second) resolved.list.push_back({kind, job});
  }
  return resolved;
}

DependencyState Judge(const Dependencies& dependencies, const ProgressLookup& progress) {
  if (dependencies.list.empty()) return DependencyState::kMet;
  const bool any = dependencies.mode == DependencyMode::kAny;
  bool waits = false;
  for (const auto& [kind, job] : dependencies.list) {
    const DependencyState state = Judge(kind, progress(job));
    if (any && state == DependencyState::kMet) return state;
    if (!any && state == DependencyState::kImpossible) return state;
    waits |= state == DependencyState::kWaits;
  }
  if (waits) return DependencyState::kWaits;
  return any ? DependencyState::kImpossible : DependencyState::kMet;
}

std::vector<JobId> FindCircle(JobId job, const Dependencies& dependencies,
                              const std::function<const Dependencies*(JobId)>& of) {
  std::map<JobId, JobId> reached;  // from which job
  std::vector<JobId> open;
  const auto visit = [&](JobId from, const Dependencies& next) {
    for (const Dependency& each : next.list)
      if (reached.emplace(each.job, from).second) open.push_back(each.job);
  };
  visit(job, dependencies);
  while (!open.empty()) {
    const JobId at = open.back();
    open.pop_back();
    if (at == job) break;
    if (const Dependencies* next = of(at)) visit(at, *next);
  }
  if (!reached.contains(job)) return {};
  std::vector<JobId> circle{job};
  for (JobId at = reached.at(job); at != job; at = reached.at(at)) circle.push_back(at);
  circle.push_back(job);
  std::reverse(circle.begin(), circle.end());
  return circle;
}

DependencyState Dependents::Entry::State() const {
  const std::size_t met = each.size() - waiting - impossible;
  const bool any = dependencies.mode == DependencyMode::kAny;
  if (any ? met > 0 : waiting + impossible == 0) return DependencyState::kMet;
  if (any ? waiting == 0 : impossible > 0) return DependencyState::kImpossible;
  return DependencyState::kWaits;
}

Dependents::EntryPtr Dependents::EntryFor(const Dependencies& dependencies, const ProgressLookup& progress) {
  if (auto last = last_.lock(); last && !last->jobs.empty() && last->dependencies == dependencies)
    return last;
  auto entry = std::make_shared<Entry>(Entry{.dependencies = dependencies});
  last_ = entry;
  for (const auto& [kind, job] : dependencies.list) {
    const auto state = Judge(kind, progress(job));
    entry->waiting += state == DependencyState::kWaits;
    entry->impossible += state == DependencyState::kImpossible;
    waited_for_[job.value].emplace_back(entry, entry->each.size());
    entry->each.push_back(state);
  }
  return entry;
}

DependencyState Dependents::Set(JobId job, const Dependencies& dependencies, const ProgressLookup& progress) {
  if (const auto old = waits_.find(job.value); old != waits_.end()) {
    if (old->second->dependencies == dependencies) return old->second->State();
    Erase(job);
  }
  if (dependencies.list.empty()) return DependencyState::kMet;
  const auto entry = EntryFor(dependencies, progress);
  entry->jobs.insert(job);
  waits_.emplace(job.value, entry);
  return entry->State();
}

void Dependents::Erase(JobId job) {
  const auto it = waits_.find(job.value);
  if (it == waits_.end()) return;
  const EntryPtr entry = std::move(it->second);
  waits_.erase(it);
  entry->jobs.erase(job);
  if (!entry->jobs.empty()) return;
  for (const auto& [kind, other] : entry->dependencies.list) {
    const auto waited = waited_for_.find(other.value);
    if (waited == waited_for_.end()) continue;  // named twice
    std::erase_if(waited->second, [&](const auto& each) { return each.first == entry; });
    if (waited->second.empty()) waited_for_.erase(waited);
  }
}

void Dependents::Tell(JobId job, AwaitedJobState progress,
                      const std::function<void(JobId, DependencyState)>& told) {
  const auto it = waited_for_.find(job.value);
  if (it == waited_for_.end()) return;
  for (const auto& [entry, place] : it->second) {
    const auto before = entry->State();
    auto& state = entry->each[place];
    const auto now = Judge(entry->dependencies.list[place].kind, progress);
    entry->waiting += now == DependencyState::kWaits;
    entry->waiting -= state == DependencyState::kWaits;
    entry->impossible += now == DependencyState::kImpossible;
    entry->impossible -= state == DependencyState::kImpossible;
    state = now;
    if (const auto after = entry->State(); after != before)
      for (const JobId dependent : entry->jobs) told(dependent, after);
  }
}

std::vector<JobId> Dependents::Of(JobId job) const {
  const auto it = waited_for_.find(job.value);
  if (it == waited_for_.end()) return {};
  std::set<JobId> jobs;
  for (const auto& [entry, place] : it->second) jobs.insert(entry->jobs.begin(), entry->jobs.end());
  return {jobs.begin(), jobs.end()};
}

const Dependencies* Dependents::DependenciesOf(JobId job) const {
  const auto it = waits_.find(job.value);
  return it == waits_.end() ? nullptr : &it->second->dependencies;
}

std::vector<CancelImpact> Dependents::AffectedBy(std::vector<JobId> cancelled, const ProgressLookup& progress,
                                                 const std::function<bool(JobId)>& auto_cancel,
                                                 std::size_t most) const {
  std::set<JobId> gone(cancelled.begin(), cancelled.end());
  const auto then = [&](JobId job) {
    const AwaitedJobState now = progress(job);
    if (!gone.contains(job)) return now;
    return now == AwaitedJobState::kBegan ? AwaitedJobState::kNotOk : AwaitedJobState::kCancelled;
  };
  std::vector<CancelImpact> affected;
  std::map<JobId, std::size_t> rows;
  for (auto nearest = std::move(cancelled); !nearest.empty() && affected.size() < most;) {
    std::set<const Entry*> seen;
    std::vector<JobId> next;
    for (const JobId on : nearest) {
      const auto it = waited_for_.find(on.value);
      if (it == waited_for_.end() || affected.size() >= most) continue;
      for (const auto& [entry, place] : it->second) {
        if (!seen.insert(entry.get()).second) continue;
        const bool impossible = Judge(entry->dependencies, then) == DependencyState::kImpossible;
        for (const JobId job : entry->jobs) {
          if (gone.contains(job)) continue;
          const auto [row, fresh] = rows.try_emplace(job, affected.size());
          if (fresh) affected.push_back({job, on});
          const bool goes = impossible && auto_cancel(job);
          affected[row->second].goes = goes;
          if (goes) next.push_back(job);
        }
      }
    }
    gone.insert(next.begin(), next.end());
    nearest = std::move(next);
  }
  if (affected.size() > most) affected.resize(most);
  return affected;
}

}  // namespace gpuman::queue
