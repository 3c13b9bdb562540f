// A model of GPUs, buses and programs in simulated time, for the tests of this folder.
//
// A program computes for `burst` and does something else for `gap`, in turn, until it has computed for
// `work`. It computes at full speed while its gate is open. The bus of each GPU copies both ways at once.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "share/scheduler.h"

namespace gpuman::share {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

struct Program {
  std::map<std::string, base::Bytes> memory;  // by GPU; it can leave
  Span burst{1h}, gap{};
  Span work = Span::max();  // computing time after which it ends
  TenantOptions options{};
  base::Bytes pinned{};  // on each of its GPUs
  Span drain = 5ms;      // until the work in flight has come to rest
  bool managed = false;  // the driver moves its memory
  Span in_flight{};      // its own work that is still to be done when its gate has been shut
  bool IsGang() const { return memory.size() > 1; }
};

class World {
 public:
  struct Job {
    TenantId id;
    Program program;
    bool alive = true, open = true, gap = false, idle_reported = false, parked = false;
    std::set<std::string> runs_on;  // closed in part: the GPUs on which its work did not come to rest
    bool closing = false;           // ordered to close its gate, and not at rest yet: its memory stays in use
    std::map<std::string, base::Bytes> here, away, managed;
    std::map<std::string, base::Bytes> wanted, growth;  // its first memory there, with a context; more of it
    std::map<std::string, std::uint64_t> promised, credit;
    Span left{}, computed{};  // of this phase; in all phases
    base::MonoTime since{};   // of the phase, or since it went on
    std::uint64_t epoch = 0;  // of its planned events
    OrderId close = 0, restore = 0;
    std::map<std::string, OrderId> evicts;
    std::optional<base::MonoTime> stands;  // waits at its gate since then
    std::vector<Span> stood;               // how long it waited there, each time
    std::map<std::string, std::uint64_t> moved_out, moved_in;
    int closings = 0;
    std::optional<base::MonoTime> ended;
    bool Computes() const { return alive && open && !gap && wanted.empty() && growth.empty(); }
    base::Bytes Of(const std::string& gpu) const {  // what it has, wherever that is
      base::Bytes sum =
          wanted.count(gpu) == 0 && program.memory.count(gpu) > 0 ? program.pinned : base::Bytes{};
      for (const auto* const each : {&here, &away, &managed})
        if (const auto it = each->find(gpu); it != each->end()) sum += it->second;
      return sum;
    }
  };

  World(SchedulerSettings settings, std::map<std::string, base::Bytes> gpus, double bytes_per_second)
      : scheduler_(std::move(settings)), capacities_(std::move(gpus)), rate_(bytes_per_second) {
    for (const auto& [gpu, bytes] : capacities_) Feed(event::CapacityChanged{gpu, bytes});
  }
  virtual ~World() = default;

  TenantId Start(Program program) {
    const TenantId id{next_id_++};
    Job& job = jobs_[id];
    job.id = id;
    job.program = std::move(program);
    job.wanted = job.program.memory;
    job.left = job.program.burst;
    job.since = now_;
    event::Joined joined{id, job.program.options};
    for (const auto& [gpu, bytes] : job.program.memory) joined.gpus.insert(gpu);
    Feed(joined);
    Feed(event::ActivityChanged{id, TenantActivity::kBusy});
    TellDemand(id);
    return id;
  }

  void End(TenantId id) {
    Job& job = jobs_.at(id);
    if (!job.alive) return;
    Stop(job);
    job.alive = false;
    ++job.epoch;
    job.ended = now_;
    job.here.clear();
    Feed(event::Left{id});
  }

  // The program stands still until it has so much more on the GPU, which may be one more GPU.
  void Grow(TenantId id, const std::string& gpu, base::Bytes bytes) {
    Job& job = jobs_.at(id);
    if (!job.Computes()) return;
    Stop(job);
    ++job.epoch;
    if (job.program.memory.try_emplace(gpu, bytes).second)
      job.wanted[gpu] = bytes;
    else
      job.growth[gpu] = bytes;
    Feed(event::ActivityChanged{id, TenantActivity::kWaiting});
    TellDemand(id);
  }

  // A suspension takes the job's memory and contexts away, whatever the scheduler has ordered.
  void Suspend(TenantId id) {
    Job& job = jobs_.at(id);
    if (!job.alive || job.parked || job.program.managed) return;
    Stop(job);
    job.parked = true;
    job.open = job.closing = false;
    job.runs_on.clear();
    ++job.epoch;
    if (job.gap) PlanGapEnd(id, job.epoch);
    job.close = job.restore = 0;
    job.evicts.clear();
    job.growth.clear();
    job.credit.clear();
    job.promised.clear();
    job.stands.reset();
    for (auto& [gpu, bytes] : job.here) {
      job.away[gpu] += bytes;
      bytes = {};
    }
    Feed(event::Suspended{id});
    TellDemand(id);
  }
  void Resume(TenantId id) {
    Job& job = jobs_.at(id);
    if (!job.alive || !job.parked) return;
    job.parked = false;
    // Its contexts are on the GPU again, and may have taken more room than there was.
    for (const auto& [gpu, bytes] : job.program.memory) lowered_.insert(gpu);
    Feed(event::Unsuspended{id});
    TellDemand(id);
    if (!job.gap) StandAtGate(id);
  }
  void SetCapacity(const std::string& gpu, base::Bytes bytes) {
    lowered_.insert(gpu);
    capacities_[gpu] = bytes;
    Feed(event::CapacityChanged{gpu, bytes});
  }

  // Runs for `span`, or until nothing more happens.
  void RunFor(Span span) {
    const base::MonoTime end = now_ + span;
    while (Step(end)) {
    }
    now_ = end;
    for (auto& [id, job] : jobs_) Stop(job), Continue(id);
  }
  // Runs until all programs have ended, and returns how long that took.
  Span RunToEnd(Span limit) {
    const base::MonoTime begin = now_;
    while (now_ < begin + limit && AnyAlive() && Step(begin + limit)) {
    }
    EXPECT_FALSE(AnyAlive()) << "not all ended";
    return now_ - begin;
  }

  Job& job(TenantId id) { return jobs_.at(id); }
  int denied() const { return denied_; }
  int reports(const std::string& kind) { return reports_[kind]; }
  base::MonoTime now() const { return now_; }
  Scheduler& scheduler() { return scheduler_; }
  SharedGpuStatus Status(const std::string& gpu) {
    for (SharedGpuStatus& status : scheduler_.View(now_).gpus)
      if (status.gpu == gpu) return status;
    return {};
  }
  void Feed(const Event& event) {
    const Actions actions = scheduler_.On(event, now_);
    ++events_;
    for (const Action& action : actions) {
      if (log_) log_(action);
      std::visit([this](const auto& each) { Do(each); }, action);
    }
    CheckCapacity();
    Check();
  }
  void At(base::MonoTime when, std::function<void()> what) {
    queue_.push({when, ++planned_, std::move(what)});
  }
  void SetLog(std::function<void(const Action&)> log) { log_ = std::move(log); }

 protected:
  struct Planned {
    base::MonoTime when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Planned& other) const {
      return std::tie(when, number) > std::tie(other.when, other.number);
    }
  };
  // A test overrides these: whether a piece of a move fails, and how long a gate takes to close (nullopt: it
  // never closes); what else holds after each event.
  virtual bool FailsOut() { return false; }
  virtual bool FailsBack() { return false; }
  virtual std::optional<Span> ClosesAfter(const Job& job) { return job.program.drain + InFlight(job); }
  // The work in flight; the shim of a paced tenant keeps it short.
  Span InFlight(const Job& job) const {
    return scheduler_.WatchOf(job.id).paced ? std::min<Span>(job.program.in_flight, 1ms)
                                            : job.program.in_flight;
  }
  // Its work does not come to rest while it waits for room: a part of it waits for the part that allocates.
  virtual bool SpinsForRoom(const Job&) const { return false; }
  virtual void Check() {}

  bool AnyAlive() const {
    return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& each) { return each.second.alive; });
  }

  bool Step(base::MonoTime end) {
    const auto deadline = scheduler_.Deadline();
    const bool tick = deadline && (queue_.empty() || *deadline < queue_.top().when);
    if (!tick && queue_.empty()) return false;
    const base::MonoTime next = tick ? *deadline : queue_.top().when;
    if (next > end) return false;
    if (tick) {
      if (next <= ticked_) {
        ADD_FAILURE() << "a deadline that does not move";
        return false;
      }
      now_ = ticked_ = std::max(now_, next);
      Feed(event::Tick{});
      return true;
    }
    now_ = std::max(now_, next);
    auto what = queue_.top().what;
    queue_.pop();
    what();
    return true;
  }

  void TellDemand(TenantId id) {
    Job& job = jobs_.at(id);
    event::DemandChanged is{id, {}};
    for (const auto& [gpu, bytes] : job.program.memory)
      is.gpus[gpu] = {job.here[gpu], job.away[gpu],
                      job.wanted.count(gpu) > 0 || job.parked ? base::Bytes{} : job.program.pinned,
                      job.parked ? base::Bytes{} : Wants(job, gpu), job.managed[gpu]};
    for (const std::string& gpu : job.runs_on) {
      is.gpus[gpu].pinned += is.gpus[gpu].resident;
      is.gpus[gpu].resident = {};
    }
    Feed(is);
  }

  static base::Bytes Wants(const Job& job, const std::string& gpu) {
    if (const auto first = job.wanted.find(gpu); first != job.wanted.end())
      return first->second + job.program.pinned;
    const auto more = job.growth.find(gpu);
    return more == job.growth.end() ? base::Bytes{} : more->second;
  }

  // --- programs
  void Stop(Job& job) {
    if (job.Computes()) {
      job.left -= now_ - job.since;
      job.computed += now_ - job.since;
    }
    job.since = now_;
  }
  void Continue(TenantId id) {
    Job& job = jobs_.at(id);
    const std::uint64_t epoch = ++job.epoch;
    if (!job.Computes()) {
      if (job.gap && job.alive) PlanGapEnd(id, epoch);
      return;
    }
    const Span to_end = job.program.work - job.computed;
    At(now_ + std::min(job.left, to_end), [this, id, epoch] { EndBurst(id, epoch); });
  }
  void EndBurst(TenantId id, std::uint64_t epoch) {
    Job& job = jobs_.at(id);
    if (job.epoch != epoch || !job.alive) return;
    Stop(job);
    if (job.computed >= job.program.work) return End(id);
    if (job.program.gap == Span{}) {
      job.left = job.program.burst;
      return Continue(id);
    }
    job.gap = true;
    job.idle_reported = false;
    gap_ends_[id] = now_ + job.program.gap;
    const std::uint64_t next = ++job.epoch;
    PlanGapEnd(id, next);
    const base::MonoTime begin = now_;
    // The shim looks twice before it says that the program is idle.
    const Span look = scheduler_.WatchOf(id).idle / 2;
    At(now_ + look, [this, id, begin] {
      Job& idle = jobs_.at(id);
      if (!idle.alive || !idle.gap || gap_begin(id) != begin) return;
      idle.idle_reported = true;
      Feed(event::ActivityChanged{id, TenantActivity::kIdle, begin});
    });
  }
  base::MonoTime gap_begin(TenantId id) { return gap_ends_[id] - jobs_.at(id).program.gap; }
  void PlanGapEnd(TenantId id, std::uint64_t epoch) {
    At(std::max(now_, gap_ends_[id]), [this, id, epoch] {
      Job& job = jobs_.at(id);
      if (job.epoch != epoch || !job.alive || !job.gap) return;
      job.gap = false;
      job.left = job.program.burst;
      job.since = now_;
      if (!job.open) return StandAtGate(id);
      Continue(id);
      if (job.idle_reported) Feed(event::ActivityChanged{id, TenantActivity::kBusy});
    });
  }
  void StandAtGate(TenantId id) {
    Job& job = jobs_.at(id);
    if (job.parked) return;
    if (!job.stands) job.stands = now_;
    Feed(event::ActivityChanged{id, TenantActivity::kWaiting});
  }

  // --- actions
  void Do(const action::Open& open) {
    Job& job = jobs_.at(open.tenant);
    for (const auto& [gpu, bytes] : job.away) EXPECT_EQ(bytes.count, 0u) << "opened without its memory";
    EXPECT_FALSE(job.restore) << "opened while its memory moves";
    job.close = 0;
    job.closing = false;
    job.open = true;
    if (job.stands) job.stood.push_back(now_ - *job.stands);
    job.stands.reset();
    job.since = now_;
    if (!std::exchange(job.runs_on, {}).empty()) TellDemand(open.tenant);
    Continue(open.tenant);
  }
  void Do(const action::Close& close) {
    Job& job = jobs_.at(close.tenant);
    Stop(job);
    EXPECT_TRUE(job.open);
    ++job.closings;
    job.open = false;
    ++job.epoch;
    if (job.gap) PlanGapEnd(close.tenant, job.epoch);
    job.close = close.order;
    job.closing = true;
    if (SpinsForRoom(job) && close.in_part) return At(now_ + 5ms, [this, close] { CloseInPart(close); });
    if (SpinsForRoom(job))
      return At(close.deadline - 20ms, [this, close] {
        if (jobs_.at(close.tenant).alive)
          Feed(event::GateNotClosed{close.tenant, close.order, "process 1 waits for room", true, true});
      });
    const Span in_flight = InFlight(job);
    if (const auto after = ClosesAfter(job))
      At(now_ + *after, [this, close, in_flight] {
        Job& closing = jobs_.at(close.tenant);
        if (!closing.alive) return;
        closing.computed += in_flight;
        const bool current = closing.close == close.order;
        if (current) {
          closing.promised.clear();
          closing.closing = false;
        }
        Feed(event::GateClosed{close.tenant, close.order});  // also after the deadline
        if (current && !closing.gap && !closing.open) StandAtGate(close.tenant);
      });
  }
  void CloseInPart(const action::Close& close) {
    Job& job = jobs_.at(close.tenant);
    if (!job.alive || job.close != close.order) return;
    job.promised.clear();
    job.closing = false;
    for (const auto& [gpu, bytes] : job.program.memory)
      if (Wants(job, gpu).count == 0) job.runs_on.insert(gpu);
    TellDemand(close.tenant);
    Feed(event::GateClosed{close.tenant, close.order});
    if (!job.gap && !job.open) StandAtGate(close.tenant);
  }
  void Do(const action::Evict& evict) {
    EXPECT_FALSE(jobs_.at(evict.tenant).open || jobs_.at(evict.tenant).runs_on.count(evict.gpu) > 0)
        << "memory taken from one that runs";
    jobs_.at(evict.tenant).evicts[evict.gpu] = evict.order;
    MoveOut(evict, evict.bytes.count);
  }
  void MoveOut(const action::Evict& evict, std::uint64_t left) {
    const std::uint64_t piece = std::min({left, kPiece, jobs_.at(evict.tenant).here[evict.gpu].count});
    base::MonoTime& free_at = out_free_[evict.gpu];
    free_at = std::max(now_, free_at) + TimeOf(piece);
    At(free_at, [this, evict, left, piece] {
      Job& job = jobs_.at(evict.tenant);
      if (!job.alive || job.evicts[evict.gpu] != evict.order) return;
      if (piece > 0 && FailsOut()) {
        Feed(event::EvictDone{evict.tenant, evict.gpu, evict.order, "no room in host memory"});
        return TellDemand(evict.tenant);
      }
      EXPECT_FALSE(job.open);
      const base::Bytes moved = std::min(base::Bytes{piece}, job.here[evict.gpu]);
      job.here[evict.gpu] = job.here[evict.gpu] - moved;
      job.away[evict.gpu] += moved;
      job.moved_out[evict.gpu] += moved.count;
      if (left > piece && piece > 0) MoveOut(evict, left - piece);
      Feed(event::MovedOut{evict.tenant, evict.gpu, moved});
      if (left > piece && piece > 0) return;
      Feed(event::EvictDone{evict.tenant, evict.gpu, evict.order});
      TellDemand(evict.tenant);
    });
  }
  void Do(const action::Restore& restore) {
    Job& job = jobs_.at(restore.tenant);
    EXPECT_FALSE(job.open);
    job.restore = restore.order;
    job.credit.clear();
    busy_in_.erase(restore.tenant);
    // A Restore that has no memory to move is answered too.
    At(now_, [this, restore] { MoveBack(restore.tenant, restore.order); });
  }
  void Do(const action::CancelRestore& stop) {
    At(now_ + 1ms, [this, stop] {
      Job& job = jobs_.at(stop.tenant);
      if (!job.alive || job.restore != stop.order) return;
      FinishBack(stop.tenant, "stopped");
    });
  }
  void Do(const action::MemoryGrant& grant) {
    Job& job = jobs_.at(grant.tenant);
    if (grant.for_restore) {
      EXPECT_NE(job.restore, 0u) << "room for nothing";
      job.credit[grant.gpu] += grant.bytes.count;
      At(now_, [this, id = grant.tenant, order = job.restore] { MoveBack(id, order); });
      return;
    }
    job.promised[grant.gpu] += grant.bytes.count;
    At(now_, [this, id = grant.tenant, gpu = grant.gpu] { Allocate(id, gpu); });
  }
  void Do(const action::Deny& deny) {
    ++denied_;
    At(now_, [this, id = deny.tenant] { End(id); });
  }
  void Do(const action::Escalate& escalate) {
    At(now_ + 10ms, [this, id = escalate.tenant] { End(id); });
  }
  void Do(const action::EventReport& report) { ++reports_[report.kind]; }

  void Allocate(TenantId id, const std::string& gpu) {
    Job& job = jobs_.at(id);
    const base::Bytes wants = Wants(job, gpu);
    if (!job.alive || wants.count == 0) return;
    if (job.parked || job.promised[gpu] < wants.count) return;
    const base::Bytes more = job.growth[gpu];
    (job.program.managed ? job.managed : job.here)[gpu] += job.wanted[gpu] + more;
    job.program.memory[gpu] += more;
    job.promised.erase(gpu);
    Stop(job);
    job.wanted.erase(gpu);
    job.growth.erase(gpu);
    TellDemand(id);
    Continue(id);
    if (job.Computes()) Feed(event::ActivityChanged{id, TenantActivity::kBusy});
  }
  // Moves a piece at a time on each GPU, as far as there is credit.
  void MoveBack(TenantId id, OrderId order) {
    Job& job = jobs_.at(id);
    if (!job.alive || job.restore != order) return;
    bool all = true;
    for (auto& [gpu, bytes] : job.away) {
      if (bytes.count == 0) continue;
      all = false;
      const std::uint64_t piece = std::min({bytes.count, kPiece, job.credit[gpu]});
      if (piece == 0 || !busy_in_[id].insert(gpu).second) continue;
      base::MonoTime& free_at = in_free_[gpu];
      free_at = std::max(now_, free_at) + TimeOf(piece);
      At(free_at, [this, id, order, gpu = gpu, piece] { Arrive(id, order, gpu, piece); });
    }
    if (all) FinishBack(id, "");
  }
  void Arrive(TenantId id, OrderId order, const std::string& gpu, std::uint64_t piece) {
    Job& job = jobs_.at(id);
    if (!job.alive || job.restore != order) return;
    busy_in_[id].erase(gpu);
    if (FailsBack()) return FinishBack(id, "a copy failed");
    job.credit[gpu] -= piece;
    job.away[gpu] = job.away[gpu] - base::Bytes{piece};
    job.here[gpu] += base::Bytes{piece};
    job.moved_in[gpu] += piece;
    Feed(event::MovedIn{id, gpu, {piece}});
    MoveBack(id, order);
  }
  void FinishBack(TenantId id, const std::string& why) {
    Job& job = jobs_.at(id);
    const OrderId order = std::exchange(job.restore, 0);
    job.credit.clear();
    Feed(event::RestoreDone{id, order, why});
    TellDemand(id);
  }

  void CheckCapacity() {
    for (const auto& [gpu, capacity] : capacities_) {
      base::Bytes sum, fixed;
      for (const auto& [id, job] : jobs_)
        if (job.alive && job.program.memory.count(gpu) > 0 && job.wanted.count(gpu) == 0 && !job.parked)
          fixed += job.program.pinned;
      sum = fixed;
      for (const auto& [id, job] : jobs_) {
        if (!job.alive) continue;
        if (const auto it = job.here.find(gpu); it != job.here.end()) sum += it->second;
        // Managed memory that is larger than the GPU uses all of the GPU.
        if (const auto it = job.managed.find(gpu); (job.open || job.closing) && it != job.managed.end())
          sum += std::min(it->second, capacity - fixed);
        if (const auto it = job.promised.find(gpu); it != job.promised.end()) sum += base::Bytes{it->second};
        if (const auto it = job.credit.find(gpu); it != job.credit.end()) sum += base::Bytes{it->second};
      }
      // After the capacity was lowered, the memory in use exceeds it until enough has left.
      if (sum <= capacity) lowered_.erase(gpu);
      EXPECT_TRUE(sum <= capacity || lowered_.count(gpu) > 0) << gpu << ": " << sum.count;
    }
  }

  Span TimeOf(std::uint64_t bytes) const {
    return std::chrono::duration_cast<Span>(
        std::chrono::duration<double>(static_cast<double>(bytes) / rate_));
  }

  static constexpr std::uint64_t kPiece = 256ull << 20;
  Scheduler scheduler_;
  std::map<std::string, base::Bytes> capacities_;
  std::set<std::string> lowered_;
  double rate_;
  base::MonoTime now_{1h}, ticked_{};
  std::int64_t next_id_ = 1;
  std::uint64_t planned_ = 0, events_ = 0;
  std::map<TenantId, Job> jobs_;
  std::map<TenantId, base::MonoTime> gap_ends_;
  std::map<TenantId, std::set<std::string>> busy_in_;
  std::map<std::string, base::MonoTime> out_free_, in_free_;
  std::map<std::string, int> reports_;
  int denied_ = 0;
  std::priority_queue<Planned> queue_;
  std::function<void(const Action&)> log_;
};

}  // namespace gpuman::share
