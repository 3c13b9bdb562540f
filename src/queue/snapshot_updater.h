// Keeps a snapshot of the queue up to date, one job at a time, so that a pass never has to gather the data.
//
// The daemon reports the present state of each job; the updater turns names (users, projects, groups, arrays)
// and equal needs into indices. The updater queries no other part and decides nothing. One change costs
// constant time, except a change of the GPUs, because all needs depend on them. Thread-compatible; strings
// are copied.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// A job that waits.
struct WaitingJob {
  JobId id{};
  std::string_view user{};
  WallTime since{};                       // submitted, or requeued
  WallTime not_before = WallTime::min();  // the end of a retry's delay
  DependencyState dependency = DependencyState::kMet;
  bool held = false;
  std::optional<ArrayTask> array{};
};

// A job that has started, whether the queue started it or not (`gpuman run`).
struct RunningJob {
  JobId id{};
  std::string_view user{};
  RunningPhase phase = RunningPhase::kRunning;
  bool suspendable = false;
  bool movable = false;
  bool idle = false;
  bool wants_back = false;
  std::vector<std::string> gpus{};            // UUIDs of all GPUs that it uses, now or soon
  std::vector<std::string> leaving{};         // those of `gpus` that it leaves (kMoving)
  std::map<std::string, base::Bytes> left{};  // as Running has it, by UUID
  Millis ran_before{0};                       // of this run: run time up to `on_since` or the suspension
  std::optional<base::MonoTime> on_since{};   // on its GPUs since then; nullopt: suspended
  WallTime since{};                           // when the job was suspended, if it is
  std::optional<ArrayTask> array{};
};

// A reservation with its users by name.
struct ReservationSpec {
  std::int64_t id = 0;
  std::string name{};
  // UUIDs. If the request named only a number of GPUs, PickReserved (admission.h) has chosen them.
  std::vector<std::string> gpus{};
  WallTime start{}, end{};
  std::vector<std::string> users{};
};

enum class AccountKind : std::uint8_t { kUser, kProject };

class SnapshotUpdater {
 public:
  void SetSettings(const SchedulingSettings& settings) { snapshot_.settings = settings; }
  void SetPaused(bool paused) { snapshot_.paused = paused; }
  void SetHost(const Host& host) { snapshot_.host = host; }
  // `links` as in Snapshot. The updater uses at most kMaxGpus GPUs. It looks up all needs again.
  void SetGpus(std::vector<Gpu> gpus, std::vector<Link> links = {});
  // The values that change often, for a GPU that SetGpus named.
  void SetForeign(std::string_view uuid, base::Bytes foreign, bool unmanaged, std::string holder);
  void SetReservations(const std::vector<ReservationSpec>& reservations);

  // Sets the limits of all accounts that have none of their own (SetShares, SetQuota), including accounts
  // that come later.
  void SetUsual(AccountKind kind, const Quota& quota, double shares);
  void SetShares(AccountKind kind, std::string_view name, double shares);
  void SetQuota(AccountKind kind, std::string_view name, const Quota& quota);
  void SetWindow(AccountKind kind, std::string_view name, double gpu_seconds, WallTime relief);
  // Adds a run that ended to the use of its user within its project, for fair share.
  void Charge(std::string_view user, std::string_view project, const UsageRate& rate, WallTime from,
              WallTime to);

  // Drops the accounts that have no job, no reservation, no limits of their own and no use that counts at
  // `now`. The other accounts may get new rows.
  void Forget(WallTime now);

  // Replaces the job's row if the job waits or runs already. A job has one row: it either waits or runs.
  void PutWaiting(const WaitingJob& job, const JobSpec& spec);
  void PutRunning(const RunningJob& job, const JobSpec& spec);
  void Erase(JobId id);
  // For a job that waits; does nothing for others.
  void SetDependency(JobId id, DependencyState state);

  // The snapshot as of `now`: brings up to date how long jobs have run. Valid until the next change.
  const Snapshot& View(base::MonoTime now);
  const Snapshot& snapshot() const { return snapshot_; }

  // The number of an account's waiting jobs.
  int Queued(AccountKind kind, std::string_view name) const;
  // The job's place in Snapshot::waiting, and so in Plan::verdicts; nullopt: it does not wait.
  std::optional<Index> RowOfWaiting(JobId id) const;
  // The job's place in Snapshot::running; nullopt: it has not started, or has ended.
  std::optional<Index> RowOfRunning(JobId id) const;
  // The account's row, made if there is none; kNone for the project without a name.
  Index AccountOf(AccountKind kind, std::string_view name);
  // The same for a user within a project, by their rows.
  Index MemberOf(Index user, Index project);
  // What a request needs of this machine.
  Need NeedOf(const JobSpec& spec) const;
  // The most memory that such a job could have on each of its GPUs; 0: it has none, or there are too few.
  base::Bytes MostMemoryFor(const JobSpec& spec) const;

 private:
  // Where a job's row is.
  struct RowRef {
    bool runs = false;
    Index row = 0;
  };
  struct RunClock {
    Millis before{0};
    std::optional<base::MonoTime> since{};
  };
  // The request that a need was made from, to make it again for other GPUs, and how many jobs have the need.
  struct Origin {
    GpuRequest gpus{};
    std::size_t hash = 0;
    std::uint32_t jobs = 0;
  };
  // Rows of a table by name; rows without jobs are used again.
  struct Names {
    std::unordered_map<std::string, Index> index{};
    std::vector<std::string> keys{};
    std::vector<std::uint32_t> jobs{};
    std::vector<Index> free{};
  };
  // The accounts of one kind, in addition to their table in the snapshot.
  struct Accounts {
    std::unordered_map<std::string, Index> rows{};
    std::vector<int> queued{};
    std::vector<bool> limited{};  // it has limits of its own
    Quota quota{};                // for the other accounts
    double shares = 1;
  };
  // The fields that a waiting and a running row have in common.
  struct Common {
    Index need = kNone, user = kNone, project = kNone, member = kNone, array = kNone, group = kNone;
  };

  Common Acquire(std::string_view user, const JobSpec& spec, const std::optional<ArrayTask>& array);
  void Release(const Common& common);
  Index AcquireNeed(const JobSpec& spec);
  void Resolve(Need& need, const GpuRequest& gpus) const;
  GpuSet SetOf(const std::vector<std::string>& uuids) const;
  std::vector<ResidualOnGpu> LeftOf(const std::map<std::string, base::Bytes>& by_uuid) const;
  std::vector<QueueAccount>& Table(AccountKind kind) {
    return kind == AccountKind::kUser ? snapshot_.users : snapshot_.projects;
  }
  Accounts& AccountsOf(AccountKind kind) { return kind == AccountKind::kUser ? users_ : projects_; }
  // Maps each old row to the new one.
  std::vector<Index> Keep(AccountKind kind, const std::vector<bool>& kept);
  void CountQueued(const WaitingJobInput& row, int by);
  void EraseWaiting(Index row);
  void EraseRunning(Index row);

  Snapshot snapshot_{};
  std::unordered_map<std::int64_t, RowRef> rows_{};
  std::vector<RunClock> clocks_{};  // for the rows of Snapshot::running
  std::vector<Origin> origins_{};   // for the rows of Snapshot::needs
  std::unordered_multimap<std::size_t, Index> needs_by_hash_{};
  std::vector<Index> free_needs_{};
  Accounts users_{}, projects_{.shares = 0};
  std::unordered_map<std::uint64_t, Index> members_{};  // by project and user
  Names arrays_{}, groups_{};
};

}  // namespace gpuman::queue
