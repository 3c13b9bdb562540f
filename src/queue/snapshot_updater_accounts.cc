// Users and projects in the queue's snapshot: their limits, their use, and when they are dropped.
#include <utility>

#include "queue/snapshot_updater.h"

namespace gpuman::queue {
namespace {

std::uint64_t KeyOf(Index user, Index project) { return std::uint64_t{project} << 32 | user; }

// Removes the rows that are not kept from a table. Maps each old row to the new one; kNone: removed.
template <typename Row>
std::vector<Index> Compact(std::vector<Row>& table, const std::vector<bool>& kept) {
  std::vector<Index> places(table.size(), kNone);
  Index next = 0;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (!kept[row]) continue;
    places[row] = next;
    if (next != row) table[next] = std::move(table[row]);
    ++next;
  }
  table.resize(next);
  table.shrink_to_fit();
  return places;
}

}  // namespace

void SnapshotUpdater::SetUsual(AccountKind kind, const Quota& quota, double shares) {
  Accounts& accounts = AccountsOf(kind);
  accounts.quota = quota;
  accounts.shares = shares;
  accounts.limited.assign(accounts.limited.size(), false);
  for (QueueAccount& account : Table(kind)) {
    account.quota = quota;
    account.shares = shares;
  }
}

void SnapshotUpdater::SetShares(AccountKind kind, std::string_view name, double shares) {
  const Index row = AccountOf(kind, name);
  AccountsOf(kind).limited[row] = true;
  Table(kind)[row].shares = shares;
}

void SnapshotUpdater::SetQuota(AccountKind kind, std::string_view name, const Quota& quota) {
  const Index row = AccountOf(kind, name);
  AccountsOf(kind).limited[row] = true;
  Table(kind)[row].quota = quota;
}

void SnapshotUpdater::SetWindow(AccountKind kind, std::string_view name, double gpu_seconds,
                                WallTime relief) {
  const Index row = AccountOf(kind, name);
  Table(kind)[row].window_gpu_seconds = gpu_seconds;
  Table(kind)[row].window_relief = relief;
}

void SnapshotUpdater::Charge(std::string_view user, std::string_view project, const UsageRate& rate,
                             WallTime from, WallTime to) {
  const Millis half_life = snapshot_.settings.half_life;
  const Index row = MemberOf(AccountOf(AccountKind::kUser, user), AccountOf(AccountKind::kProject, project));
  snapshot_.members[row].usage.Add(rate, from, to, half_life);
}

Index SnapshotUpdater::AccountOf(AccountKind kind, std::string_view name) {
  if (kind == AccountKind::kProject && name.empty()) return kNone;
  Accounts& accounts = AccountsOf(kind);
  auto& table = Table(kind);
  const auto [at, made] = accounts.rows.emplace(std::string(name), static_cast<Index>(table.size()));
  if (made) {
    table.push_back(
        QueueAccount{.name = std::string(name), .shares = accounts.shares, .quota = accounts.quota});
    accounts.queued.push_back(0);
    accounts.limited.push_back(false);
  }
  return at->second;
}

Index SnapshotUpdater::MemberOf(Index user, Index project) {
  const auto [at, made] =
      members_.emplace(KeyOf(user, project), static_cast<Index>(snapshot_.members.size()));
  if (made) snapshot_.members.push_back({user, project, {}});
  return at->second;
}

int SnapshotUpdater::Queued(AccountKind kind, std::string_view name) const {
  const Accounts& accounts = kind == AccountKind::kUser ? users_ : projects_;
  const auto at = accounts.rows.find(std::string(name));
  return at == accounts.rows.end() ? 0 : accounts.queued[at->second];
}

std::vector<Index> SnapshotUpdater::Keep(AccountKind kind, const std::vector<bool>& kept) {
  Accounts& accounts = AccountsOf(kind);
  auto places = Compact(Table(kind), kept);
  std::vector<int> queued(Table(kind).size());
  std::vector<bool> limited(Table(kind).size());
  for (std::size_t row = 0; row < places.size(); ++row) {
    if (places[row] == kNone) continue;
    queued[places[row]] = accounts.queued[row];
    limited[places[row]] = accounts.limited[row];
  }
  accounts.queued = std::move(queued);
  accounts.limited = std::move(limited);
  std::unordered_map<std::string, Index> rows;
  for (Index row = 0; row < Table(kind).size(); ++row) rows.emplace(Table(kind)[row].name, row);
  accounts.rows = std::move(rows);
  return places;
}

void SnapshotUpdater::Forget(WallTime now) {
  std::vector<bool> users = users_.limited, projects = projects_.limited;
  std::vector<bool> members(snapshot_.members.size());
  for (const WaitingJobInput& row : snapshot_.waiting) members[row.member] = true;
  for (const RunningJobInput& row : snapshot_.running) members[row.member] = true;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const ProjectMember& member = snapshot_.members[i];
    if (member.usage.as_of + kHalfLivesKept * snapshot_.settings.half_life > now) members[i] = true;
    if (!members[i]) continue;
    users[member.user] = true;
    if (member.project != kNone) projects[member.project] = true;
  }
  for (const Reservation& reservation : snapshot_.reservations)
    for (const Index user : reservation.users) users[user] = true;
  for (std::size_t i = 0; i < users.size(); ++i)
    if (snapshot_.users[i].window_gpu_seconds > 0) users[i] = true;
  for (std::size_t i = 0; i < projects.size(); ++i)
    if (snapshot_.projects[i].window_gpu_seconds > 0) projects[i] = true;

  const auto user = Keep(AccountKind::kUser, users), project = Keep(AccountKind::kProject, projects);
  const auto member = Compact(snapshot_.members, members);
  const auto renumber = [&](auto& row) {
    row.user = user[row.user];
    if (row.project != kNone) row.project = project[row.project];
  };
  members_.clear();
  for (Index row = 0; row < snapshot_.members.size(); ++row) {
    renumber(snapshot_.members[row]);
    members_.emplace(KeyOf(snapshot_.members[row].user, snapshot_.members[row].project), row);
  }
  const auto renumber_job = [&](auto& row) {
    renumber(row);
    row.member = member[row.member];
  };
  for (WaitingJobInput& row : snapshot_.waiting) renumber_job(row);
  for (RunningJobInput& row : snapshot_.running) renumber_job(row);
  for (Reservation& reservation : snapshot_.reservations)
    for (Index& each : reservation.users) each = user[each];
}

void SnapshotUpdater::CountQueued(const WaitingJobInput& row, int by) {
  users_.queued[row.user] += by;
  if (row.project != kNone) projects_.queued[row.project] += by;
}

}  // namespace gpuman::queue
