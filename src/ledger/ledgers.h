// The ledgers of the running jobs, on the daemon's side.
//
// The daemon writes limits into a ledger and reads usage from it, but relies on nothing that it reads there:
// the job's programs can write it too. The daemon keeps its own copy of everything that has to be right (the
// limits, which process joined) in class Ledgers.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/memory_parts.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "ledger/ledger_mapping.h"
#include "ledger/lock_flood.h"
#include "ledger/wire/orders.h"
#include "ledger/wire/rest.h"

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
  base::Bytes used;
};

// An allocation on a GPU that was refused to a program of the job, as the process itself reports it.
struct Refusal {
  std::string uuid;
  std::uint64_t number = 0;  // grows with each refusal on this GPU
  wire::RefusedBy by = wire::RefusedBy::kNobody;
  base::Bytes asked;                 // of a context 0: nobody knows what one costs there
  bool is_context = false;           // else memory
  base::Bytes used;                  // by the job on this GPU, at that time
  std::optional<base::Bytes> limit;  // at that time
  std::uint64_t at = 0;              // CLOCK_MONOTONIC, ns
  // At that time; absent: not known.
  std::optional<base::Bytes> pools_unused{};  // the part of the process's pools that no allocation had
  std::optional<base::Bytes> device_free{};
  std::optional<base::MemoryParts> parts{};  // of `used`
};

// The most that a process has counted on one GPU at a time.
struct ProcessPeak {
  pid_t pid;            // the process may have ended, and another may have its pid
  std::string program;  // its name, at most 16 characters; empty: not known
  std::string uuid;
  base::MemoryParts parts;  // what it was; nothing in it is other processes' or uncounted
};

struct FirstAndLastRefusal {
  Refusal last;
  std::optional<Refusal> first{};  // since ForgetFirstRefusals; absent: not known
};

// Whether the job's memory can leave its GPU, and what that may take.
struct EvictionSettings {
  bool possible = false;
  std::optional<base::Bytes> host_budget;  // host memory that all processes may keep for evicted data
  base::Millis patience{0};  // how long calls and work in flight may take to end; 0: the shim's own, 30 s
  friend bool operator==(const EvictionSettings&, const EvictionSettings&) = default;
};

// How a job shares its GPUs with others.
struct SharingSettings {
  base::Millis watched{0};  // above 0: the job's shims tell what their programs do; a program is idle after
                            // so long without a call
  base::Millis room_patience{0};  // how long an allocation that finds no room waits for some; 0: not at all
  base::Bytes denied{};  // an allocation of this size or more is refused and does not wait; 0: no such size
  std::chrono::microseconds pace{0};  // above 0: the GPU can stop between launches, far more often than this
  // Above 0: a program is idle after so long already, and tells of its next call at once.
  std::chrono::microseconds alert{0};
  friend bool operator==(const SharingSettings&, const SharingSettings&) = default;
};

// An order to a process.
struct ProcessOrder {
  wire::OrderKind what = wire::OrderKind::kRun;
  // kTake: of each GPU at least so many bytes are to be away in all; 0 where a GPU is not named. Bytes of a
  // GPU that is no home of the process (SlotStatus::homes) count for its first home.
  std::map<std::string, base::Bytes> away{};
  // kHold: how long the process may take to come to rest. When it is over, the process runs again by itself,
  // held or not, unless another order came. 0: the ledger's patience, and then it is held without end. A shim
  // without SlotStatus::takes_grants takes any patience for 0.
  base::Millis patience{0};
  // kRun: a closed gate stays closed, so that the process is held with all its memory on the GPU. Only for a
  // process with SlotStatus::fetches.
  bool stay_held = false;
  friend bool operator==(const ProcessOrder&, const ProcessOrder&) = default;
};

using wire::CallGrant;
using wire::CallGrantReport;

// How a process that is ordered to hold comes to rest. A GPU is named by its index (Ledgers::GpusOf).
struct QuiesceReport {
  bool shut = false;          // an order has closed the gate, and no memory leaves yet
  bool in_flight = false;     // a call has not returned
  bool capturing = false;     // a stream is captured; the gate is open meanwhile
  bool anywhere = false;      // a thread waits at the gate, and for no GPU that is known
  bool for_room = false;      // a thread waits for room, outside the gate
  std::uint16_t works = 0;    // one bit for each GPU with work that has not ended, or that may have some
  std::uint16_t waits = 0;    // one bit for each GPU for which a thread waits at the gate
  std::uint32_t changes = 0;  // 16 bits that grow with each change
  friend bool operator==(const QuiesceReport&, const QuiesceReport&) = default;
};

// A GPU whose memory can leave it. All figures are of one process.
struct EvictableGpu {
  std::string uuid{};
  base::Bytes evictable{};  // on the GPU
  base::Bytes evicted{};    // in host memory
  base::Bytes wants{};      // the bytes that waiting allocations need there
  friend bool operator==(const EvictableGpu&, const EvictableGpu&) = default;
};

// Where a process's memory is. All members except `process` and `ordered` come from the process itself.
struct SlotStatus {
  base::ProcessId process;
  wire::MemoryResidency residency = wire::MemoryResidency::kNone;
  bool answered = false;  // the last order was carried out or refused
  wire::OrderKind ordered = wire::OrderKind::kRun;
  wire::OrderError error = wire::OrderError::kNone;
  std::uint32_t driver_error = 0;  // CUresult, where the driver caused the error
  // The GPUs whose memory can leave, each once, the first home first. There is a first home in any case; its
  // UUID is empty where the process sees only one GPU, or has chosen none yet.
  std::vector<EvictableGpu> homes;
  base::Bytes evictable;        // on the GPUs, the sum of `homes`
  base::Bytes evicted;          // in host memory, the sum of `homes`
  base::Bytes managed;          // memory that the driver moves
  bool holds_imported = false;  // the process has memory that must not be on the GPU at a checkpoint
  bool notifies = false;        // the shim sends a notification when it answers an order
  // What the process counts on each GPU where it counts anything, evicted memory included. Memory that is
  // neither evictable nor evicted is pinned.
  std::vector<GpuUsage> held;
  wire::Activity activity = wire::Activity::kUnknown;
  std::uint64_t activity_since = 0;  // CLOCK_MONOTONIC, ns
  base::Bytes wants;                 // the bytes that waiting allocations need, the sum of `homes`
  std::uint64_t completed = 0;       // calls; only differences mean anything
  bool takes_grants = false;         // the shim tells `rest`, and takes call grants and a patience
  bool shares = false;               // the process exports memory by descriptor, dma-buf or multicast
  bool fetches = false;              // the shim knows ProcessOrder::stay_held
  QuiesceReport rest;
  CallGrantReport grant_report;  // of the last call grant that the process has seen
};

// What the daemon gives to a process that joins. A process that holds `owner`, or a mapping made through
// `owner`, owns the slot.
struct JoinedSlot {
  unsigned slot = 0;
  base::Fd owner;
  base::Fd file;
};

// The 16 bytes of "GPU-93f6e897-3b2d-…"; nullopt when `text` is no UUID. Pure.
std::optional<std::array<std::uint8_t, 16>> ParseUuid(std::string_view text);
// The UUID of the GPU with this index, below GpusOf, as the ledger has it. Programs can have written anything
// there.
std::string UuidAt(const wire::Ledger& ledger, unsigned gpu);
// The index of this GPU in the ledger; nullopt: it has none, or `uuid` is no UUID.
std::optional<unsigned> IndexOf(const wire::Ledger& ledger, std::string_view uuid);

// Not thread-safe.
class Ledgers {
 public:
  // Makes a ledger for a job that has none. kInvalidArgument: a malformed UUID, a GPU twice or too many.
  base::Result<> Create(base::JobId job, std::span<const GpuLimit> limits,
                        const EvictionSettings& eviction = {});
  // Takes the ledger that the job's processes already use (an earlier daemon made it) and gives it these
  // limits; without limits the ledger keeps its present ones. Adopt takes processes and orders as the ledger
  // names them: the caller checks whether such a process is the job's before it does anything to the process.
  base::Result<> Adopt(base::JobId job, base::Fd file, std::span<const GpuLimit> limits,
                       const EvictionSettings& eviction = {});
  // The same from the bytes of a ledger whose processes have all ended.
  base::Result<> Restore(base::JobId job, std::string_view bytes, std::span<const GpuLimit> limits,
                         const EvictionSettings& eviction = {});
  // The job's ledger, opened anew; kNotFound: it has none.
  base::Result<base::Fd> FileOf(base::JobId job) const;
  // Sets new limits for a running job. GPUs that the ledger lacks are added; GPUs not named here lose their
  // limits.
  base::Result<> SetLimits(base::JobId job, std::span<const GpuLimit> limits);
  // The job's processes have moved to this GPU: what they have counted on one other GPU counts there from now
  // on, peaks and refusals included. Returns the other GPU; nullopt: nothing changes, since they count on
  // several GPUs, on none, or there already.
  std::optional<std::string> FollowMove(base::JobId job, std::string_view uuid);
  // Sets what the job's eviction may take; `possible` stays as it was when the ledger was made.
  void SetEviction(base::JobId job, const EvictionSettings& eviction);
  // Bytes of the job that the driver shows on the GPU beyond what the ledger counts: contexts, modules,
  // processes without the shim. They count against the limit.
  void SetUncounted(base::JobId job, std::string_view uuid, base::Bytes bytes);
  // Tells all jobs' processes that the uncounted memory on the GPU comes from figures not older than `began`.
  void SetSampled(std::string_view uuid, base::MonoTime began);
  // Forgets the job. Its processes go on with the last limits.
  void Drop(base::JobId job);
  bool Has(base::JobId job) const { return jobs_.contains(job); }

  // Gives a process of the job a slot: kNotFound without a ledger, kExhausted when all are taken.
  base::Result<JoinedSlot> Join(base::JobId job, base::ProcessId process);
  // Whether the process counts its memory in this job's ledger now.
  bool Registered(base::JobId job, base::ProcessId process) const;
  // The same of the process with this pid, as the ledger knows it; nullopt: there is none. A pid may be
  // another process's by now.
  std::optional<base::ProcessId> RegisteredPid(base::JobId job, pid_t pid) const;
  // What the process counts on the GPU, without the part that is in host memory; nullopt: it does not count
  // its memory in this job's ledger now.
  std::optional<base::Bytes> OnGpuOf(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  // Whether memory of the process is leaving the GPU or coming back now: the process updates its count only
  // at the end of that.
  bool IsMoving(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  // Changes with each order to the process, and with each answer.
  std::uint64_t OrdersOf(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  // Orders a process to do something. Gives the order again where the process refused the last such order,
  // and does nothing where the process has carried it out or is about to. Returns at once: SlotStatusesOf
  // tells the result. kNotFound: no such process counts in the job's ledger; kNotSupported: eviction is not
  // possible in this job.
  base::Result<> Order(base::JobId job, base::ProcessId process, const ProcessOrder& command);
  // The same for all processes, including those that join later (these get a hold where the command is to
  // have memory away). Returns the number of processes now.
  base::Result<unsigned> OrderAll(base::JobId job, const ProcessOrder& command);
  // Lets calls of a process pass the gate that an order has closed; calls == 0 withdraws the last grant.
  // Returns the number of the grant at once: SlotStatus::grant_report tells how the grant ends, and the
  // process sends a notification then. A grant ends also with the next order to the process. kNotFound: no
  // such process counts in the job's ledger.
  base::Result<unsigned> GrantCalls(base::JobId job, base::ProcessId process, const CallGrant& grant);
  // The UUIDs of the GPUs by their index in the ledger; empty where the job's limits do not name the GPU.
  std::vector<std::string> GpusOf(base::JobId job) const;
  // Sets how the job shares. The job's shims follow at once.
  void SetSharing(base::JobId job, const SharingSettings& sharing);
  // The job's shims tell what their programs do, whether the job shares or not, and look at it at least this
  // often; 0: only where SetSharing says so.
  void SetIdleWatch(base::JobId job, base::Millis watched);
  // Whether the job is suspended or on its way: then the driver may checkpoint its processes.
  void SetSuspends(base::JobId job, bool suspends);
  // Shows the job's processes that the daemon lives: a process that is held with all its memory runs on where
  // it sees no life for some seconds.
  void ShowLife(base::JobId job);
  // Sets the bytes that the job may have on the GPU for now; nullopt: only its limit bounds it. The job keeps
  // the memory that it has.
  void SetRoom(base::JobId job, std::string_view uuid, std::optional<base::Bytes> bytes);
  // Tells the allocations that wait for room to try again.
  void OfferRoom(base::JobId job);
  // The status of each process that counts in the ledger now.
  std::vector<SlotStatus> SlotStatusesOf(base::JobId job) const;
  // Managed memory of the job's processes, by the GPU where each has most.
  std::vector<GpuUsage> ManagedOf(base::JobId job) const;
  // Host memory that the job's processes keep for evicted data.
  base::Bytes HostMemoryOf(base::JobId job) const;

  // What the job's processes count, in the order of the limits; empty for a job without a ledger.
  std::vector<GpuUsage> UsageOf(base::JobId job) const;
  // Reports, for people. They are in the order of the limits; where a ledger was taken over and no limits are
  // given yet, they are of all GPUs that the ledger itself names.

  // The most that the job's processes have counted on each GPU at a time since the ledger was made, however
  // short that was. 0: they had none.
  std::vector<GpuUsage> PeaksOf(base::JobId job) const;
  // On each GPU that had one.
  std::vector<FirstAndLastRefusal> RefusalsOf(base::JobId job) const;
  // A run of the job has begun at `at` (CLOCK_MONOTONIC, ns): earlier refusals are not the first of it.
  void ForgetFirstRefusals(base::JobId job, std::uint64_t at);
  // What the peak on the GPU was, as in PeaksOf; nothing in it is uncounted. nullopt: not known.
  std::optional<base::MemoryParts> PartsOfPeak(base::JobId job, std::string_view uuid) const;
  // The peaks of the job's processes, those that have ended as well, the largest first. Of a process that
  // ended long ago there may be none.
  std::vector<ProcessPeak> ProcessPeaksOf(base::JobId job) const;
  // What it takes to ask who owns the job's slots; the shortest of a few questions. The job has a ledger.
  LockCost LockCostOf(base::JobId job) const;
  // False when the ledger's content differs from what the daemon wrote: a program has overwritten it.
  bool Intact(base::JobId job) const;

 private:
  // The word `order_bytes` of the slot, and of each of its entries in Ledger::home, by index; 0 where an
  // entry is not named.
  struct OrderBytes {
    std::uint64_t slot = 0;
    std::map<unsigned, std::uint64_t> home{};
    friend bool operator==(const OrderBytes&, const OrderBytes&) = default;
  };
  struct Member {
    base::ProcessId process;
    std::uint32_t order = 0;
    OrderBytes order_bytes{};  // given with `order`
    std::uint32_t call_grant = 0;
    bool suspends = false;  // whether the job was to be suspended at `order` (SetSuspends)
  };
  struct Entry {
    LedgerMapping page;
    std::vector<GpuLimit> limits;
    EvictionSettings eviction;
    std::map<unsigned, Member> members;  // processes that may have ended
    ProcessOrder joining{};              // the order for processes that join
    SharingSettings sharing{};
    base::Millis idle_watch{0};
    std::size_t peaks_claimed = 0;             // at most so many marks of processes' peaks are not free
    std::map<unsigned, std::uint64_t> room{};  // the bytes from SetRoom, by the GPU's index in the ledger
  };
  // What a process has on one GPU.
  struct Account {
    wire::Ledger* ledger;
    unsigned slot;
    unsigned gpu;
  };
  static std::optional<unsigned> OnlyCountedGpu(const Entry& entry);
  static std::optional<unsigned> SlotOf(const Entry& entry, base::ProcessId process);
  std::optional<Account> AccountOf(base::JobId job, base::ProcessId process, std::string_view uuid) const;
  base::Result<> Add(base::JobId job, base::Result<LedgerMapping> page, std::span<const GpuLimit> limits,
                     const EvictionSettings& eviction);
  static void TakeOver(Entry& entry);
  static void FreePeaks(Entry& entry);
  static void WriteSharing(Entry& entry);
  static void ChangeWatch(Entry& entry);
  static void Tell(Entry& entry, unsigned slot, Member& member, const ProcessOrder& command);
  static OrderBytes OrderBytesOf(const Entry& entry, unsigned slot, const ProcessOrder& command);
  static std::vector<EvictableGpu> HomesOf(const Entry& entry, unsigned slot);
  SlotStatus Read(const Entry& entry, unsigned slot, const Member& member) const;
  void WriteSampled(wire::Ledger& ledger) const;

  std::map<base::JobId, Entry> jobs_;
  std::map<std::array<std::uint8_t, 16>, std::uint64_t> sampled_;  // SetSampled, by GPU; CLOCK_MONOTONIC, ns
};

}  // namespace gpuman::ledger
