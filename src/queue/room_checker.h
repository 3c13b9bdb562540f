// The free part of the machine, while a pass gives it to jobs. Internal to src/queue.
//
// A pass makes a RoomChecker from a snapshot, takes GPUs from it, claims GPUs for later, and tries changes on
// copies. No part becomes free again during a pass: a job that did not fit once does not fit later in the
// same pass. A RoomChecker refers to the snapshot. Thread-compatible.
#pragma once

#include <optional>
#include <vector>

#include "queue/plan.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// A job that wants to run.
struct PlacementRequest {
  Need need{};
  Index user = 0;
  JobId job{};
  std::int16_t priority = kUsualPriority;
  std::int64_t rank = 0;      // priority.h
  WallTime since{};           // since when it is in the queue
  WallTime end = kNever;      // if it starts now
  bool host_counted = false;  // the job runs or is suspended and has its host part already
  bool resumes = false;       // a claim does not stop it: the claim's job may wait for what this job holds
};

// A job that holds a GPU, or a part of it.
struct PlacementHolder {
  Index running = kNone;  // kNone: started in this pass
  WallTime end = kNever;
  base::Bytes memory{};
  bool share = false;
  bool leaving = false;
  base::Bytes left{};  // what stays when it is suspended
};

// What stays of a suspended job on a GPU.
struct ResidualMemory {
  JobId job{};
  base::Bytes bytes{};
};

// The state of a GPU during a pass.
struct GpuRoom {
  bool open = true;        // not drained, restricted or lost
  bool unmanaged = false;  // not for exclusive jobs; for shared ones if the settings allow it
  base::Bytes free{};      // for shared jobs
  std::vector<PlacementHolder> holders{};
  std::vector<ResidualMemory> left{};  // of suspended jobs; counted in `free`
  bool exclusive = false;              // one holder has all of it
  // From then on the GPU is kept for a waiting job; `spare` is the memory that is left beside that job, for
  // shared jobs.
  WallTime claimed = kNever;
  base::Bytes spare{};
  bool claimed_firmly = false;  // also against preemptible jobs
};

// The constraints that can prevent a placement. All of them count, unless the caller asks for the result
// without some of them.
struct PlacementChecks {
  bool claims = true;
  bool reservations = true;
  bool unmanaged = true;
  bool closed = true;
};

class RoomChecker {
 public:
  RoomChecker(const Snapshot& snapshot, WallTime now);

  // The GPUs that the job can start on now; nullopt: there is no room.
  std::optional<GpuSet> Find(const PlacementRequest& request) const;
  // The GPUs that are suitable now, however few.
  GpuSet Fitting(const PlacementRequest& request, const PlacementChecks& constraints = {}) const;
  bool HostFits(const PlacementRequest& request) const;
  // Why Find() refuses a request: kUnmanaged, kUnavailable, kReservation, kPriority (kept for others), or
  // kResources.
  WaitReason WhyNot(const PlacementRequest& request) const;

  void Take(const PlacementRequest& request, const GpuSet& gpus);
  // In this pass the running job is told to leave its GPUs. Its memory and GPUs are not free before it has
  // left. `ends`: it is not suspended, so nothing of it stays.
  void Dismiss(Index running, bool ends = false);
  // Keeps `gpus` and the job's part of the host from `from` on.
  void Claim(const PlacementRequest& request, const GpuSet& gpus, WallTime from);

  // Whether claims and other users' reservations let the job hold this GPU until its end.
  bool MayHold(std::size_t gpu, const PlacementRequest& request,
               const PlacementChecks& constraints = {}) const;
  // Whether no other user has the GPU reserved within this time.
  bool IsUnreserved(std::size_t gpu, Index user, WallTime from, WallTime to) const;
  // Whether the GPU is open, and no unmanaged process keeps this kind of job off it.
  bool IsUsable(std::size_t gpu, const Need& need) const;
  bool IsPrivileged(Index user) const { return privileged_[user]; }
  // The memory that stays on the GPU of suspended jobs other than this one, and the memory that is free for
  // this job.
  base::Bytes LeftBeside(std::size_t gpu, JobId job) const;
  base::Bytes FreeFor(std::size_t gpu, JobId job) const;
  // Whether all of the GPU but what stays of other suspended jobs, and `more`, is enough for the job.
  bool HasRoomBesideLeft(std::size_t gpu, const Need& need, JobId job, base::Bytes more = {}) const;

  const std::vector<GpuRoom>& slots() const { return slots_; }
  const Snapshot& snapshot() const { return *snapshot_; }
  WallTime now() const { return now_; }
  // The part of the host that is free at `time`, as far as it is counted.
  Host HostAt(WallTime time) const;
  WallTime EndOf(const RunningJobInput& job) const;

 private:
  struct HostHolder {
    WallTime end;
    base::Bytes memory;
    int cpus;
  };

  bool Fits(std::size_t gpu, const PlacementRequest& request, const PlacementChecks& constraints) const;
  void Hold(std::size_t gpu, const PlacementHolder& holder);
  void FindMostFree();

  const Snapshot* snapshot_;
  WallTime now_;
  std::vector<GpuRoom> slots_;
  GpuSet empty_{}, partly_{};               // without any holder; without an exclusive holder
  GpuSet idle_{}, sharable_{};              // those of empty_ and partly_ that jobs may get
  base::Bytes most_free_{};                 // the most among sharable_
  std::vector<bool> privileged_;            // users with a reservation
  std::vector<WallTime> reserved_;          // when the next reservation of each GPU by other users begins
  Host host_{};                             // free now
  std::vector<HostHolder> host_holders_{};  // of jobs started in this pass
  WallTime host_claimed_ = kNever;
  Host host_spare_{};  // beside the claim, from then on
};

}  // namespace gpuman::queue
