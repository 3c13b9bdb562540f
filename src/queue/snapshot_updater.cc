#include "queue/snapshot_updater.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/text.h"

namespace gpuman::queue {
namespace {

// Boost's hash_combine, with its constant.
void Mix(std::size_t& seed, std::size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2);
}

std::size_t HashOf(const Need& need, const GpuRequest& gpus) {
  std::size_t seed = 0;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(need.gpus), need.memory.count, need.free_memory.count,
        need.host_memory.count, static_cast<std::uint64_t>(need.cpus),
        static_cast<std::uint64_t>(need.time_limit.count()),
        static_cast<std::uint64_t>(need.share) * 2 + static_cast<std::uint64_t>(need.preemptible)})
    Mix(seed, part);
  Mix(seed, std::hash<std::string>{}(gpus.model.value_or("")));
  for (const auto& device : gpus.devices) Mix(seed, std::hash<std::string>{}(device));
  return seed;
}

// A shared job needs a GPU, or an instance, that shares its memory with no other instance.
bool MayHave(const Gpu& gpu, const Need& need) {
  return !gpu.instance || (need.gpus <= 1 && !(need.share && gpu.shares_memory));
}

// Returns the row of a name, and makes the row if there is none. Counts one more job that uses the row.
Index AcquireName(auto& names, std::vector<ConcurrencyLimit>& table, const std::string& key,
                  const ConcurrencyLimit& throttle) {
  auto [at, made] = names.index.emplace(key, 0);
  if (made && names.free.empty()) {
    at->second = static_cast<Index>(table.size());
    table.emplace_back();
    names.jobs.push_back(0);
    names.keys.emplace_back();
  } else if (made) {
    at->second = names.free.back();
    names.free.pop_back();
  }
  if (made) names.keys[at->second] = key;
  table[at->second] = throttle;
  ++names.jobs[at->second];
  return at->second;
}

void ReleaseName(auto& names, Index row) {
  if (row == kNone || --names.jobs[row] > 0) return;
  names.index.erase(names.keys[row]);
  names.free.push_back(row);
}

template <typename Row>
void SetCommon(Row& row, const auto& common) {
  row.need = common.need;
  row.user = common.user;
  row.project = common.project;
  row.member = common.member;
  row.array = common.array;
  row.group = common.group;
}

}  // namespace

std::string NumberOf(const Gpu& gpu) {
  return gpu.instance ? fmt::format("{}:{}", gpu.index, *gpu.instance) : std::to_string(gpu.index);
}

bool IsOfModel(const Gpu& gpu, std::string_view model) {
  const auto same = [](char a, char b) { return base::LowerCase(a) == base::LowerCase(b); };
  if (model.empty()) return true;
  const auto found = std::find_end(gpu.model.begin(), gpu.model.end(), model.begin(), model.end(), same);
  if (found == gpu.model.end() || !gpu.instance) return found != gpu.model.end();
  constexpr std::string_view kMark = "MIG ";
  const auto own = static_cast<std::ptrdiff_t>(std::min(gpu.model.size(), kMark.size() + gpu.profile.size()));
  return found + static_cast<std::ptrdiff_t>(model.size()) > gpu.model.end() - own;
}

void SnapshotUpdater::SetGpus(std::vector<Gpu> gpus, std::vector<Link> links) {
  if (gpus.size() > kMaxGpus) {
    gpus.resize(kMaxGpus);
    links.clear();
  }
  const std::vector<Gpu> before = std::exchange(snapshot_.gpus, std::move(gpus));
  snapshot_.links = std::move(links);
  const auto translate = [&](GpuSet& set) {
    std::vector<std::string> uuids;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (set.test(i)) uuids.push_back(before[i].uuid);
    set = SetOf(uuids);
  };
  for (RunningJobInput& row : snapshot_.running) {
    translate(row.gpus);
    translate(row.leaving);
    std::map<std::string, base::Bytes> left;
    for (const ResidualOnGpu& each : row.left) left[before[each.gpu].uuid] += each.bytes;
    row.left = LeftOf(left);
  }
  for (Reservation& reservation : snapshot_.reservations) translate(reservation.gpus);
  for (std::size_t i = 0; i < origins_.size(); ++i) Resolve(snapshot_.needs[i], origins_[i].gpus);
}

void SnapshotUpdater::SetForeign(std::string_view uuid, base::Bytes foreign, bool unmanaged,
                                 std::string holder) {
  for (Gpu& gpu : snapshot_.gpus) {
    if (gpu.uuid != uuid) continue;
    gpu.foreign = foreign;
    gpu.unmanaged = unmanaged;
    gpu.holder = std::move(holder);
    return;
  }
}

void SnapshotUpdater::SetReservations(const std::vector<ReservationSpec>& reservations) {
  snapshot_.reservations.clear();
  for (const ReservationSpec& each : reservations) {
    Reservation row{each.id, each.name, SetOf(each.gpus), each.start, each.end, {}};
    for (const auto& user : each.users) row.users.push_back(AccountOf(AccountKind::kUser, user));
    snapshot_.reservations.push_back(std::move(row));
  }
}

void SnapshotUpdater::PutWaiting(const WaitingJob& job, const JobSpec& spec) {
  const Common common = Acquire(job.user, spec, job.array);
  Erase(job.id);
  WaitingJobInput row{.id = job.id,
                      .since = job.since,
                      .begin = std::max(job.not_before, spec.begin.value_or(WallTime::min())),
                      .priority = static_cast<std::int16_t>(spec.priority),
                      .dependency = job.dependency,
                      .held = job.held,
                      .retries = job.not_before > spec.begin.value_or(WallTime::min()),
                      .auto_cancel = spec.auto_cancel};
  SetCommon(row, common);
  rows_[job.id.value] = {false, static_cast<Index>(snapshot_.waiting.size())};
  CountQueued(row, 1);
  snapshot_.waiting.push_back(row);
}

void SnapshotUpdater::PutRunning(const RunningJob& job, const JobSpec& spec) {
  const Common common = Acquire(job.user, spec, job.array);
  Erase(job.id);
  RunningJobInput row{.id = job.id,
                      .priority = static_cast<std::int16_t>(spec.priority),
                      .phase = job.phase,
                      .suspendable = job.suspendable,
                      .movable = job.movable,
                      .idle = job.idle,
                      .wants_back = job.wants_back,
                      .gpus = SetOf(job.gpus),
                      .leaving = SetOf(job.leaving),
                      .left = LeftOf(job.left),
                      .ran = job.ran_before,
                      .since = job.since};
  SetCommon(row, common);
  rows_[job.id.value] = {true, static_cast<Index>(snapshot_.running.size())};
  snapshot_.running.push_back(row);
  clocks_.push_back({job.ran_before, job.on_since});
}

void SnapshotUpdater::Erase(JobId id) {
  const auto at = rows_.find(id.value);
  if (at == rows_.end()) return;
  const RowRef place = at->second;
  rows_.erase(at);
  if (place.runs)
    EraseRunning(place.row);
  else
    EraseWaiting(place.row);
}

void SnapshotUpdater::EraseWaiting(Index row) {
  const WaitingJobInput old = snapshot_.waiting[row];
  snapshot_.waiting[row] = snapshot_.waiting.back();
  snapshot_.waiting.pop_back();
  if (row < snapshot_.waiting.size()) rows_[snapshot_.waiting[row].id.value].row = row;
  CountQueued(old, -1);
  Release({old.need, old.user, old.project, old.member, old.array, old.group});
}

void SnapshotUpdater::EraseRunning(Index row) {
  const RunningJobInput old = snapshot_.running[row];
  snapshot_.running[row] = snapshot_.running.back();
  snapshot_.running.pop_back();
  clocks_[row] = clocks_.back();
  clocks_.pop_back();
  if (row < snapshot_.running.size()) rows_[snapshot_.running[row].id.value].row = row;
  Release({old.need, old.user, old.project, old.member, old.array, old.group});
}

void SnapshotUpdater::SetDependency(JobId id, DependencyState state) {
  const auto at = rows_.find(id.value);
  if (at != rows_.end() && !at->second.runs) snapshot_.waiting[at->second.row].dependency = state;
}

const Snapshot& SnapshotUpdater::View(base::MonoTime now) {
  for (std::size_t i = 0; i < clocks_.size(); ++i) {
    const auto& [before, since] = clocks_[i];
    const Millis on =
        since ? std::max(Millis(0), std::chrono::duration_cast<Millis>(now - *since)) : Millis(0);
    snapshot_.running[i].ran = before + on;
    snapshot_.running[i].undisturbed = on;
  }
  return snapshot_;
}

std::optional<Index> SnapshotUpdater::RowOfWaiting(JobId id) const {
  const auto at = rows_.find(id.value);
  if (at == rows_.end() || at->second.runs) return std::nullopt;
  return at->second.row;
}

std::optional<Index> SnapshotUpdater::RowOfRunning(JobId id) const {
  const auto at = rows_.find(id.value);
  if (at == rows_.end() || !at->second.runs) return std::nullopt;
  return at->second.row;
}

Need SnapshotUpdater::NeedOf(const JobSpec& spec) const {
  Need need{.gpus = spec.gpus.count,
            .exact = !spec.gpus.devices.empty(),
            .share = spec.share,
            .preemptible = spec.preemptible,
            .memory = spec.memory_on_each.value_or(base::Bytes{}),
            .free_memory = spec.gpus.free_memory.value_or(base::SizeSpec{}).bytes,
            .host_memory = spec.host_memory.value_or(base::Bytes{}),
            .cpus = spec.cpus.value_or(0),
            .time_limit = spec.time_limit.value_or(Millis(0))};
  Resolve(need, spec.gpus);
  return need;
}

base::Bytes SnapshotUpdater::MostMemoryFor(const JobSpec& spec) const {
  const Need need = NeedOf(spec);
  std::vector<base::Bytes> sizes;
  for (std::size_t i = 0; i < snapshot_.gpus.size(); ++i)
    if (need.possible.test(i)) sizes.push_back(snapshot_.gpus[i].memory);
  const auto count = static_cast<std::size_t>(need.gpus);
  if (count == 0 || sizes.size() < count) return {};
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  return sizes[count - 1];
}

void SnapshotUpdater::Resolve(Need& need, const GpuRequest& gpus) const {
  need.possible.reset();
  for (std::size_t i = 0; i < snapshot_.gpus.size(); ++i) {
    const Gpu& gpu = snapshot_.gpus[i];
    const bool named = gpus.devices.empty() ||
                       std::find(gpus.devices.begin(), gpus.devices.end(), gpu.uuid) != gpus.devices.end();
    if (named && MayHave(gpu, need) && IsOfModel(gpu, gpus.model.value_or("")) &&
        gpu.memory >= std::max(need.memory, need.free_memory))
      need.possible.set(i);
  }
}

Index SnapshotUpdater::AcquireNeed(const JobSpec& spec) {
  const Need need = NeedOf(spec);
  const std::size_t hash = HashOf(need, spec.gpus);
  const auto [first, last] = needs_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (snapshot_.needs[at->second] != need || origins_[at->second].gpus != spec.gpus) continue;
    ++origins_[at->second].jobs;
    return at->second;
  }
  Index row = static_cast<Index>(snapshot_.needs.size());
  if (free_needs_.empty()) {
    snapshot_.needs.emplace_back();
    origins_.emplace_back();
  } else {
    row = free_needs_.back();
    free_needs_.pop_back();
  }
  snapshot_.needs[row] = need;
  origins_[row] = {spec.gpus, hash, 1};
  needs_by_hash_.emplace(hash, row);
  return row;
}

SnapshotUpdater::Common SnapshotUpdater::Acquire(std::string_view user, const JobSpec& spec,
                                                 const std::optional<ArrayTask>& array) {
  Common common;
  common.need = AcquireNeed(spec);
  common.user = AccountOf(AccountKind::kUser, user);
  common.project = AccountOf(AccountKind::kProject, spec.project.value_or(""));
  common.member = MemberOf(common.user, common.project);
  if (array) {
    const std::string name = std::to_string(array->array.value);
    common.array = AcquireName(arrays_, snapshot_.arrays, name, {name, array->limit});
  }
  if (spec.group && spec.max_concurrent)
    common.group = AcquireName(groups_, snapshot_.groups, std::string(user) + '\n' + *spec.group,
                               {*spec.group, *spec.max_concurrent});
  return common;
}

void SnapshotUpdater::Release(const Common& common) {
  ReleaseName(arrays_, common.array);
  ReleaseName(groups_, common.group);
  Origin& origin = origins_[common.need];
  if (--origin.jobs > 0) return;
  const auto [first, last] = needs_by_hash_.equal_range(origin.hash);
  needs_by_hash_.erase(
      std::find_if(first, last, [&](const auto& each) { return each.second == common.need; }));
  origin.gpus = {};
  free_needs_.push_back(common.need);
}

GpuSet SnapshotUpdater::SetOf(const std::vector<std::string>& uuids) const {
  GpuSet set;
  for (std::size_t i = 0; i < snapshot_.gpus.size(); ++i)
    if (std::find(uuids.begin(), uuids.end(), snapshot_.gpus[i].uuid) != uuids.end()) set.set(i);
  return set;
}

std::vector<ResidualOnGpu> SnapshotUpdater::LeftOf(const std::map<std::string, base::Bytes>& by_uuid) const {
  std::vector<ResidualOnGpu> left;
  for (std::size_t i = 0; i < snapshot_.gpus.size(); ++i)
    if (const auto at = by_uuid.find(snapshot_.gpus[i].uuid); at != by_uuid.end() && at->second.count > 0)
      left.push_back({i, at->second});
  return left;
}

}  // namespace gpuman::queue
