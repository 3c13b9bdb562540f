// The ledgers of the running jobs, on the daemon's side.
//
// The daemon writes limits into a ledger and reads usage from it, but relies on nothing that stands there:
// the job's programs can write it too. What has to be right (the limits, which process joined) is kept here
// as well.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "ledger/page.h"
#include "ledger/wire/orders.h"

namespace gpuman::ledger {

struct GpuLimit {
  std::string uuid;  // "GPU-…" or "MIG-…"
  std::optional<base::Bytes> hard;
  std::optional<base::Bytes> soft;
  base::Bytes context;  // what one context costs there; 0: not known
  friend bool operator==(const GpuLimit&, const GpuLimit&) = default;
};

struct GpuUsage {
  std::string uuid;
  base::Bytes used;  // by the processes that count, as they count
};

// The last allocation on a GPU that a program of the job did not get, as its process says.
struct Refusal {
  std::string uuid;
  std::uint64_t number = 0;  // grows with each on this GPU
  wire::RefusedBy by = wire::RefusedBy::kNobody;
  base::Bytes asked;
  base::Bytes used;                  // by the job there, then
  std::optional<base::Bytes> limit;  // then
  std::uint64_t at = 0;              // CLOCK_MONOTONIC, ns
};

// Whether the job's memory can leave its GPU, and what that may take.
struct Eviction {
  bool possible = false;
  std::optional<base::Bytes> host_budget;  // host memory that all processes may keep for evicted data
  base::Millis patience{0};  // for calls and work in flight to come to an end; 0: the shim's own, 30 s
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

// How a job shares its GPUs with others.
struct Sharing {
  base::Millis watched{
      0};  // above 0: its shims tell what their programs do; idle after so long without a call
  base::Millis room_patience{0};  // how long an allocation that finds no room waits for some; 0: not at all
  base::Bytes denied{};  // an allocation of so much or more gets none and does not wait; 0: no such size
  friend bool operator==(const Sharing&, const Sharing&) = default;
};

// What a process is to do.
struct Command {
  wire::OrderKind what = wire::OrderKind::kRun;
  base::Bytes away{};  // kTake: in all, at least
  friend bool operator==(const Command&, const Command&) = default;
};

// Where a process's memory is. All but `process` and `ordered` is what the process says of itself.
struct SlotStatus {
  base::ProcessId process;
  wire::MemoryStage stage = wire::MemoryStage::kNone;
  bool answered = false;  // the last order was carried out or refused
  wire::OrderKind ordered = wire::OrderKind::kRun;
  wire::Trouble trouble = wire::Trouble::kNone;
  std::uint32_t driver_error = 0;  // CUresult, where the trouble is the driver's
  base::Bytes evictable;           // on the GPU
  base::Bytes evicted;             // in host memory
  base::Bytes managed;             // the driver moves it
  bool holds_imported = false;     // on the GPU: memory that no checkpoint may find there
  bool notifies = false;           // when it answers an order
  // What it counts on each GPU that it counts anything on, evicted memory included: what of it is neither
  // evictable nor evicted is pinned.
  std::vector<GpuUsage> held;
  std::string home;  // of several GPUs that it sees, that whose memory can leave; else empty
  wire::Activity activity = wire::Activity::kUnknown;
  std::uint64_t activity_since = 0;  // CLOCK_MONOTONIC, ns
  base::Bytes wants;                 // that allocations wait for
  std::uint64_t completed = 0;       // calls; only differences mean anything
};

// What a process that joins gets. Whoever holds `owner`, or a mapping made through it, owns the slot.
struct JoinedSlot {
  unsigned slot = 0;
  base::Fd owner;
  base::Fd file;
};

// The 16 bytes of "GPU-93f6e897-3b2d-…"; nullopt when it is no such text. Pure.
std::optional<std::array<std::uint8_t, 16>> ParseUuid(std::string_view text);

// Not thread-safe.
class Ledgers {
 public:
  // A ledger for a job that has none. kInvalidArgument: a UUID that is none, a GPU twice or too many.
  base::Result<> Create(base::JobId job, std::span<const GpuLimit> limits, const Eviction& eviction = {});
  // The ledger that the job's processes use already (an earlier daemon made it), with these limits; with
  // those that it has where there are none. Processes and orders are taken as they stand in it: whether such
  // a process is the job's is for the caller to see, before it does anything to one.
  base::Result<> Adopt(base::JobId job, base::Fd file, std::span<const GpuLimit> limits,
                       const Eviction& eviction = {});
  // New limits for a running job; GPUs that the ledger lacks are added to it, those not named here lose
  // theirs.
  base::Result<> SetLimits(base::JobId job, std::span<const GpuLimit> limits);
  // The same for what its eviction may take; `possible` is as the ledger was made with.
  void SetEviction(base::JobId job, const Eviction& eviction);
  // Bytes of the job that the driver shows on the GPU beyond what the ledger counts: contexts, modules,
  // processes without the shim. They take from the limit.
  void SetUncounted(base::JobId job, std::string_view uuid, base::Bytes bytes);
  // Forgets the job. Its processes go on with the last limits.
  void Drop(base::JobId job);
  bool Has(base::JobId job) const { return jobs_.contains(job); }

  // A place for a process of the job: kNotFound without a ledger, kExhausted when all are taken.
  base::Result<JoinedSlot> Join(base::JobId job, base::ProcessId process);
  // Whether the process counts its memory in this job's ledger now.
  bool Registered(base::JobId job, base::ProcessId process) const;
  // What the process counts on the GPU; nullopt: it does not count its memory in this job's ledger now.
  std::optional<base::Bytes> HeldBy(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  // The same without what is in host memory instead.
  std::optional<base::Bytes> OnGpuOf(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  // Gives back what processes that have ended held; returns how many of those there were. A process of the
  // job that is refused memory does the same, so nothing waits for this.
  unsigned Reclaim(base::JobId job);
  // Orders a process; anew where the last such order was refused, and nothing where it stands or is being
  // carried out. Returns at once: SlotStatusesOf tells what comes of it. kNotFound: no such process counts in
  // the job's ledger; kNotSupported: eviction is not possible in this job.
  base::Result<> Order(base::JobId job, base::ProcessId process, const Command& command);
  // Off its GPU, or back.
  base::Result<> Order(base::JobId job, base::ProcessId process, bool out);
  // The same for all processes, those that join later included (those are held where the others are to have
  // memory away). Returns how many there are now.
  base::Result<unsigned> OrderAll(base::JobId job, const Command& command);
  base::Result<unsigned> OrderAll(base::JobId job, bool out);
  // How the job shares. Its shims follow at once.
  void SetSharing(base::JobId job, const Sharing& sharing);
  // Bytes that the job may have on the GPU for now; nullopt: no bound but its limit. What it has stays.
  void SetRoom(base::JobId job, std::string_view uuid, std::optional<base::Bytes> bytes);
  // There may be room for allocations that wait for some: they try again.
  void OfferRoom(base::JobId job);
  // Of each process that counts in the ledger now.
  std::vector<SlotStatus> SlotStatusesOf(base::JobId job) const;
  // Managed memory of the job's processes, by the GPU where each has most.
  std::vector<GpuUsage> ManagedOf(base::JobId job) const;
  // Host memory that the job's processes keep for evicted data.
  base::Bytes HostMemoryOf(base::JobId job) const;

  // In the order of the limits; empty for a job without a ledger.
  std::vector<GpuUsage> UsageOf(base::JobId job) const;
  // Of the GPUs on which there was one, in the order of the limits.
  std::vector<Refusal> RefusalsOf(base::JobId job) const;
  // False when the ledger says something else than was written: a program has overwritten it.
  bool Intact(base::JobId job) const;

 private:
  struct Member {
    base::ProcessId process;
    std::uint32_t order = 0;
    base::Bytes away{};  // with it
  };
  struct Entry {
    Page page;
    std::vector<GpuLimit> limits;
    Eviction eviction;
    std::map<unsigned, Member> members;               // of processes that may have ended
    wire::OrderKind joining = wire::OrderKind::kRun;  // of processes that join
    Sharing sharing{};
    std::map<unsigned, std::uint64_t> room{};  // by the GPU's index in the ledger; what was set
  };
  // What a process has on one GPU.
  struct Account {
    wire::Ledger* ledger;
    unsigned slot;
    unsigned gpu;
  };
  static std::optional<unsigned> SlotOf(const Entry& entry, base::ProcessId process);
  std::optional<Account> AccountOf(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  base::Result<> Add(base::JobId job, base::Result<Page> page, std::span<const GpuLimit> limits,
                     const Eviction& eviction);
  static void TakeOver(Entry& entry);
  static void WriteSharing(Entry& entry);
  static void Tell(Entry& entry, unsigned slot, Member& member, const Command& command);
  SlotStatus Read(const Entry& entry, unsigned slot, const Member& member) const;

  std::map<base::JobId, Entry> jobs_;
};

}  // namespace gpuman::ledger
