// Keeps a snapshot of the queue up to date, a job at a time, so that a pass never has to gather it.
//
// The daemon says of each job what it is now; names (users, projects, groups, arrays) and equal needs are
// turned into indices here. It asks nothing and decides nothing. One change costs constant time, except of
// what all needs depend on (the GPUs). Thread-compatible; strings are copied.
#pragma once

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
};

// A job that has been started, by the queue or not (`gpuman run`).
struct RunningJob {
  JobId id{};
  std::string_view user{};
  RunningPhase phase = RunningPhase::kRunning;
  bool suspendable = false;
  bool movable = false;
  bool wants_back = false;
  std::vector<std::string> gpus{};           // UUIDs: all that it has some of, now or soon
  std::vector<std::string> leaving{};        // of those, the ones that it leaves (kMoving)
  Millis ran_before{0};                      // of this run, up to `on_since` or the suspension
  std::optional<base::MonoTime> on_since{};  // it runs, without a break, since; nullopt: it is suspended
  WallTime since{};                          // suspended: since when
};

// With users by name.
struct ReservationOf {
  std::int64_t id = 0;
  std::string name{};
  std::vector<std::string>
      gpus{};  // UUIDs; admission.h: PickReserved chooses them where only a number was asked for
  WallTime start{}, end{};
  std::vector<std::string> users{};
};

enum class AccountKind : std::uint8_t { kUser, kProject };

class Book {
 public:
  void SetSettings(const SchedulingSettings& settings) { snapshot_.settings = settings; }
  void SetPaused(bool paused) { snapshot_.paused = paused; }
  void SetHost(const Host& host) { snapshot_.host = host; }
  // `links` as in Snapshot. At most kMaxGpus; more are not used. All needs are looked at again.
  void SetGpus(std::vector<Gpu> gpus, std::vector<Link> links = {});
  // What changes often: of a GPU that SetGpus named.
  void SetForeign(std::string_view uuid, base::Bytes foreign, bool unmanaged, std::string holder);
  void SetReservations(const std::vector<ReservationOf>& reservations);

  // Of accounts without limits of their own, those that come later too: of all, until SetShares and SetQuota
  // say otherwise.
  void SetUsual(AccountKind kind, const Quota& quota, double shares);
  void SetShares(AccountKind kind, std::string_view name, double shares);
  void SetQuota(AccountKind kind, std::string_view name, const Quota& quota);
  void SetWindow(AccountKind kind, std::string_view name, double gpu_seconds, WallTime relief);
  // A run that ended: for the fair share of its user within its project.
  void Charge(std::string_view user, std::string_view project, const Rate& rate, WallTime from, WallTime to);

  // Lets go of the accounts that have nothing: no job, no reservation, no limits of their own, no use that
  // counts at `now`. Rows of accounts are others afterwards.
  void Forget(WallTime now);

  // Of a job that waits or runs already: replaces it. A job is one or the other.
  void PutWaiting(const WaitingJob& job, const Request& request);
  void PutRunning(const RunningJob& job, const Request& request);
  void Erase(JobId id);
  // Of a job that waits; nothing of another.
  void SetDependency(JobId id, DependencyState state);

  // As it is now: how long jobs have run is brought up to `now`. Valid until the next change.
  const Snapshot& View(base::MonoTime now);
  const Snapshot& snapshot() const { return snapshot_; }

  // Waiting jobs of an account.
  int Queued(AccountKind kind, std::string_view name) const;
  // Its place in Snapshot::waiting, and so in Plan::verdicts; nullopt: it does not wait.
  std::optional<Index> RowOfWaiting(JobId id) const;
  // Its place in Snapshot::running; nullopt: it was not started, or has ended.
  std::optional<Index> RowOfRunning(JobId id) const;
  // The account's row, made where there is none; kNone for the project without a name.
  Index AccountOf(AccountKind kind, std::string_view name);
  // The same for a user within a project, by their rows.
  Index MemberOf(Index user, Index project);
  // What a request needs of this machine.
  Need NeedOf(const Request& request) const;

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
  // What a need was made of, to make it again for other GPUs, and how many jobs have it.
  struct Origin {
    GpuRequest gpus{};
    std::size_t hash = 0;
    std::uint32_t jobs = 0;
  };
  // Rows of a table by name; those of no job are used again.
  struct Names {
    std::unordered_map<std::string, Index> index{};
    std::vector<std::string> keys{};
    std::vector<std::uint32_t> jobs{};
    std::vector<Index> free{};
  };
  // The accounts of a kind: beside their table in the snapshot.
  struct Accounts {
    std::unordered_map<std::string, Index> rows{};
    std::vector<int> queued{};
    std::vector<bool> limited{};  // it has limits of its own
    Quota quota{};                // of the others
    double shares = 1;
  };
  // What a waiting and a running row have in common.
  struct Common {
    Index need = kNone, user = kNone, project = kNone, member = kNone, array = kNone, group = kNone;
  };

  Common Acquire(std::string_view user, const Request& request);
  void Release(const Common& common);
  Index AcquireNeed(const Request& request);
  void Resolve(Need& need, const GpuRequest& gpus) const;
  GpuSet SetOf(const std::vector<std::string>& uuids) const;
  std::vector<Account>& Table(AccountKind kind) {
    return kind == AccountKind::kUser ? snapshot_.users : snapshot_.projects;
  }
  Accounts& AccountsOf(AccountKind kind) { return kind == AccountKind::kUser ? users_ : projects_; }
  // Old row -> new one.
  std::vector<Index> Keep(AccountKind kind, const std::vector<bool>& kept);
  void CountQueued(const Waiting& row, int by);
  void EraseWaiting(Index row);
  void EraseRunning(Index row);

  Snapshot snapshot_{};
  std::unordered_map<std::int64_t, RowRef> rows_{};
  std::vector<RunClock> clocks_{};  // of Snapshot::running
  std::vector<Origin> origins_{};   // of Snapshot::needs
  std::unordered_multimap<std::size_t, Index> needs_by_hash_{};
  std::vector<Index> free_needs_{};
  Accounts users_{}, projects_{.shares = 0};
  std::unordered_map<std::uint64_t, Index> members_{};  // by project and user
  Names arrays_{}, groups_{};
};

}  // namespace gpuman::queue
