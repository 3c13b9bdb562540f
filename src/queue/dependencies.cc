#include "queue/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_set>
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
  std::unordered_map<std::int64_t, JobId> reached;  // from which job
  std::unordered_set<const Dependencies*> seen;
  std::vector<JobId> open;
  const auto visit = [&](JobId from, const Dependencies& next) {
    if (!seen.insert(&next).second) return;
    for (const Dependency& each : next.list)
      if (reached.emplace(each.job.value, from).second) open.push_back(each.job);
  };
  visit(job, dependencies);
  while (!open.empty()) {
    const JobId at = open.back();
    open.pop_back();
    if (at == job) break;
    if (const Dependencies* next = of(at)) visit(at, *next);
  }
  if (!reached.contains(job.value)) return {};
  std::vector<JobId> circle{job};
  for (JobId at = reached.at(job.value); at != job; at = reached.at(at.value)) circle.push_back(at);
  circle.push_back(job);
  std::reverse(circle.begin(), circle.end());
  return circle;
}

// --- Dependents ---

void Dependents::Counts::Add(DependencyState state) {
  waiting += state == DependencyState::kWaits;
  impossible += state == DependencyState::kImpossible;
}

void Dependents::Counts::Remove(DependencyState state) {
  waiting -= state == DependencyState::kWaits && waiting > 0;
  impossible -= state == DependencyState::kImpossible && impossible > 0;
}

DependencyState Dependents::Counts::State(const Dependencies& dependencies) const {
  const std::size_t unmet = waiting + impossible;
  const bool any = dependencies.mode == DependencyMode::kAny;
  if (any ? dependencies.list.size() > unmet : unmet == 0) return DependencyState::kMet;
  if (any ? waiting == 0 : impossible > 0) return DependencyState::kImpossible;
  return DependencyState::kWaits;
}

bool Dependents::InOrder::operator()(const Key& a, const Key& b) const {
  const auto& [mode, list] = *a.dependencies;
  const auto& [other_mode, other] = *b.dependencies;
  const auto head = std::tuple(a.user, mode, list.size());
  const auto other_head = std::tuple(b.user, other_mode, other.size());
  if (head != other_head) return head < other_head;
  const auto apart = std::mismatch(list.begin(), list.end(), other.begin());
  if (apart.first == list.end()) return false;
  const auto& [kind, job] = *apart.first;
  const auto& [other_kind, other_job] = *apart.second;
  return std::tuple(kind, job.value) < std::tuple(other_kind, other_job.value);
}

Dependents::EntryPtr Dependents::Find(uid_t user, const Dependencies& dependencies) const {
  if (last_ && last_->user == user && last_->dependencies == dependencies) return last_;
  const auto it = entries_.find({user, &dependencies});
  return it == entries_.end() ? nullptr : it->second;
}

Dependents::EntryPtr Dependents::Make(uid_t user, const Dependencies& dependencies,
                                      const ProgressLookup& progress) {
  auto entry = std::make_shared<Entry>(Entry{.user = user, .dependencies = dependencies});
  entry->each.reserve(dependencies.list.size());
  for (const auto& [kind, job] : dependencies.list) {
    const auto state = Judge(kind, progress(job));
    entry->counts.Add(state);
    auto& edges = waited_for_[job.value];
    edges.push_back({entry, entry->each.size()});
    entry->each.push_back({state, edges.size() - 1});
  }
  looks_ += dependencies.list.size();
  counts_[user] += dependencies.list.size();
  entries_.emplace(Key{user, &entry->dependencies}, entry);
  return entry;
}

// Each awaited job's last edge takes the place of the one that goes.
void Dependents::Drop(const EntryPtr& entry) {
  const auto& list = entry->dependencies.list;
  for (std::size_t place = 0; place < list.size(); ++place) {
    const auto waited = waited_for_.find(list[place].job.value);
    auto& edges = waited->second;
    const std::size_t at = entry->each[place].at;
    if (at + 1 < edges.size()) {
      edges[at] = std::move(edges.back());
      edges[at].entry->each[edges[at].place].at = at;
    }
    edges.pop_back();
    if (edges.empty()) waited_for_.erase(waited);
    ++looks_;
  }
  if (const auto count = counts_.find(entry->user); (count->second -= list.size()) == 0) counts_.erase(count);
  if (last_ == entry) last_ = nullptr;
  entries_.erase({entry->user, &entry->dependencies});
}

DependencyState Dependents::Set(JobId job, uid_t user, const Dependencies& dependencies,
                                const ProgressLookup& progress) {
  if (const auto old = waits_.find(job.value); old != waits_.end()) {
    if (old->second->user == user && old->second->dependencies == dependencies) return old->second->State();
    Erase(job);
  }
  if (dependencies.list.empty()) return DependencyState::kMet;
  auto entry = Find(user, dependencies);
  if (!entry) entry = Make(user, dependencies, progress);
  last_ = entry;
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
  if (entry->jobs.empty()) Drop(entry);
}

void Dependents::Tell(JobId job, AwaitedJobState progress,
                      const std::function<void(JobId, DependencyState)>& told) {
  const auto it = waited_for_.find(job.value);
  if (it == waited_for_.end()) return;
  looks_ += it->second.size();
  for (const auto& [entry, place] : it->second) {
    const auto before = entry->State();
    auto& state = entry->each[place].state;
    const auto now = Judge(entry->dependencies.list[place].kind, progress);
    entry->counts.Add(now);
    entry->counts.Remove(state);
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

std::size_t Dependents::CountOf(uid_t user) const {
  const auto it = counts_.find(user);
  return it == counts_.end() ? 0 : it->second;
}

std::size_t Dependents::MoreWith(JobId job, uid_t user, const Dependencies& dependencies) const {
  if (dependencies.list.empty() || Find(user, dependencies)) return 0;
  const auto old = waits_.find(job.value);
  const bool goes = old != waits_.end() && old->second->user == user && old->second->jobs.size() == 1;
  const std::size_t fewer = goes ? old->second->dependencies.list.size() : 0;
  return dependencies.list.size() - std::min(dependencies.list.size(), fewer);
}

// --- AffectedSearch ---

AffectedSearch::AffectedSearch(const Dependents& dependents, const std::vector<JobId>& cancelled,
                               ProgressLookup progress, std::function<bool(JobId)> auto_cancel,
                               std::size_t most)
    : dependents_(dependents),
      progress_(std::move(progress)),
      auto_cancel_(std::move(auto_cancel)),
      most_(most) {
  for (const JobId job : cancelled)
    if (gone_.insert(job).second) nearest_.push_back(job);
}

bool AffectedSearch::Continue(std::size_t steps) {
  for (; steps > 0; --steps)
    if (!Step()) return false;
  return true;
}

// Of a level first all dependencies on its jobs count; then the jobs that have them are listed.
bool AffectedSearch::Step() {
  if (affected_.size() >= most_) return false;
  if (edge_ < edges_.size()) {
    Count(edges_[edge_++], nearest_[at_ - 1]);
    return true;
  }
  if (at_ < nearest_.size()) {
    const auto it = dependents_.waited_for_.find(nearest_[at_++].value);
    edges_ = it == dependents_.waited_for_.end() ? std::vector<Dependents::Edge>() : it->second;
    edge_ = 0;
    return true;
  }
  if (ListOne()) return true;
  nearest_ = std::exchange(next_, {});
  at_ = 0;
  level_.clear();
  listing_ = 0;
  return !nearest_.empty();
}

// Afterwards the counts of the list are those that it has when `on` is cancelled.
void AffectedSearch::Count(const Dependents::Edge& edge, JobId on) {
  const auto& [entry, place] = edge;
  const auto [found, is_new] = touched_.try_emplace(entry.get(), Touched{entry, on, entry->counts});
  Touched& touched = found->second;
  const auto then =
      progress_(on) == AwaitedJobState::kBegan ? AwaitedJobState::kNotOk : AwaitedJobState::kCancelled;
  touched.counts.Add(Judge(entry->dependencies.list[place].kind, then));
  touched.counts.Remove(entry->each[place].state);
  if (!std::exchange(touched.in_level, true)) level_.push_back(&touched);
}

// One job, or the end of a list. False: the level is complete.
bool AffectedSearch::ListOne() {
  if (listing_ == level_.size()) return false;
  Touched& touched = *level_[listing_];
  const bool impossible = touched.counts.State(touched.entry->dependencies) == DependencyState::kImpossible;
  const auto& jobs = touched.entry->jobs;
  const auto job = last_listed_ ? jobs.upper_bound(*last_listed_) : jobs.begin();
  const bool is_known = touched.listed && touched.impossible == impossible && !last_listed_;
  if (is_known || job == jobs.end()) {
    touched.listed = true;
    touched.impossible = impossible;
    touched.in_level = false;
    last_listed_.reset();
    ++listing_;
    return true;
  }
  last_listed_ = *job;
  if (gone_.contains(*job)) return true;
  const auto [row, fresh] = rows_.try_emplace(*job, affected_.size());
  if (fresh) affected_.push_back({*job, touched.on});
  const bool goes = impossible && auto_cancel_(*job);
  affected_[row->second].goes = goes;
  if (!goes) return true;
  gone_.insert(*job);
  next_.push_back(*job);
  return true;
}

}  // namespace gpuman::queue
