// One job's way off the GPU and back. Pure: events and the time go in, actions come out.
//
//            SuspendAsked, MoveAsked                        ResumeAsked, then RoomAvailable
//   kRunning ----------------------> kSuspending --> kSuspended ------------> kResuming --> kRunning
//      ^                                 | a step failed   ^                      | a step failed
//      +---------- kUndoing <------------+                 +---- kRetreating <----+
//
// Out: first the job comes to rest (state_machine_rest.cc): its processes may wait for each other on the GPU.
// If it does not, all of them run on, and nothing has moved. Then all shims evict at once: they hand their
// memory to the mover. The mover copies it to the host (CopyToHost). Meanwhile the driver checkpoints every
// process that is on a GPU, one at a time, and the process that was started last goes first: so if a parent
// starts a child while its other children are being checkpointed, the new child is seen and goes before the
// parent. Where an evicted process still shares memory with another one, the driver could not restore what it
// saved: then every process with a shim *stays*, with its context and that memory, behind its closed gate,
// and the record has what is left on each GPU. Back: the mover copies (CopyToGpu) while the driver restores,
// parents first, and then the shims fetch their memory. Where a process stayed, and the driver has none of
// the job to restore, the shims fetch their memory while it is copied (Fetch), and no gate opens before all
// of it is there. If a step fails on the way out, the way out is undone and the job runs on with the reason;
// if a step fails on the way back, the job is taken out again and stays suspended with its data and the
// reason. A process that ends is no failure. Where the driver cannot checkpoint, only eviction counts, and
// the contexts stay.
//
// The next step always follows from the known state of each process, never from a fixed sequence: so a new
// daemon goes on from what it can observe (Rebuild). The tests beside this file are the specification;
// state_machine_property_test.cc checks what must be true whatever happens:
//   - a process whose shim is at work is not checkpointed, nor one with memory that cannot be restored, nor
//     one with a shim while another stays because of shared memory,
//   - nothing leaves before the job has come to rest, where its shims can hold it,
//   - a shim is not told to return while its process is checkpointed, locked or unknown, nor before its data
//     are on a GPU again, nor while another one fetches,
//   - no job stays in kSuspended before its data are whole in host memory: data that go straight to another
//     GPU have room there, or are copied to the host,
//   - the job comes to rest.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "suspend/host_room.h"
#include "suspend/record.h"
#include "suspend/request.h"

namespace gpuman::suspend {

// More memory than a checkpointed process still has on the GPU (4 MiB on an H200).
constexpr base::Bytes kResidue = base::MiB(16);

struct SuspensionSettings {
  base::Bytes worth_evicting = base::MiB(64);  // a checkpoint moves less than this as fast as the shim does
  base::Millis lock_timeout{10'000};           // for the work of the job on its GPUs to come to rest
  base::Millis idle_patience{
      1'000};                        // the same for a job that leaves because it is idle: nothing should work
  base::Millis settle_limit{1'000};  // for the driver to show what a shim already counts
  base::Millis answer_limit{5'000};  // for a shim to take up an order
  base::Millis evict_limit{120'000};  // for a shim to carry out an eviction
  base::Millis restore_limit{120'000};
  base::Millis retry{30'000};  // the wait after a failure that may pass: no room, or a process that could not
                               // be taken off the GPU
  int retries = 10;            // of a way back; after these a new request is needed
  // For a job that shares its GPU: on the way back, memory that its shims have in host memory stays there,
  // and their gates stay closed; the share controller brings that memory in during the job's turn. This does
  // not hold where the job moves to another GPU.
  bool restores_held = false;
};

// How far a shim is with an eviction for a suspension; made of its residency in the ledger. kFailed: the last
// order failed; `evicted` says what is in host memory then.
enum class EvictionProgress { kNone, kOnGpu, kEvicting, kEvicted, kRestoring, kFailed };

struct GpuFootprint {
  base::Bytes used;       // as the driver shows it
  base::Bytes evictable;  // what its shim could evict
  base::Bytes evicted;    // what its shim holds in host memory
  base::Bytes context{};  // the size of a context on this GPU; 0: not known
  // When `used` was read; max: it is as new as the rest.
  base::MonoTime sampled_at = base::MonoTime::max();
  friend bool operator==(const GpuFootprint&, const GpuFootprint&) = default;
};

struct ObservedProcess {
  base::ProcessId id;
  std::map<std::string, GpuFootprint> gpus{};  // by UUID; the GPUs on which the process has memory
  bool has_shim = false;
  EvictionProgress eviction = EvictionProgress::kNone;
  bool answered = true;  // `eviction` is the shim's answer to the last order
  std::string error{};   // the shim's error, with kFailed
  bool silent = false;   // the shim has not answered yet, and will send no notification when it answers
  // Memory that the driver saves with a checkpoint and cannot restore (measured): only the shim can evict it.
  bool holds_imported = false;
  // Memory of this process was exported, or it has opened memory of others: they reach each other.
  bool shares = false;
  bool fetches = false;  // the shim can bring its memory back behind its closed gate
  // Bytes of managed memory, which the driver does not checkpoint.
  base::Bytes managed{};
  // The shim's answer to the last order was: no call passes the gate and no work is in flight.
  bool held = false;
  bool closing = false;  // the shim is closing its gate
  bool stopped = false;  // by a signal or a debugger: driver calls for it would not return (measured)
  // False: the driver's figure is older than the shim's count, and the next figure is not known yet.
  bool figures_current = true;
};

struct ObservedGpu {
  std::string uuid, name;
  std::optional<unsigned> index{};  // as users know the GPU
};

namespace event {
// `reason` (held_by_user, device_pressure, …) and `detail` become those of the job. With `room_lasts` the job
// comes back by itself when there has been room for so long; a job that was suspended without `room_lasts`
// before still stays away. With kIdleReason (idle.h) `detail` stays the beginning of the detail while the job
// is away, and a job that does not come to rest just runs on: it works, although nobody saw it.
struct SuspendAsked {
  std::string reason, detail;
  std::optional<base::Millis> room_lasts{};
  std::optional<base::Millis> idle{};  // with kIdleReason: since the job's last call; for the event
};
struct ResumeAsked {
  std::optional<std::string> gpu{};  // UUID; none: the GPU where it was
};
struct MoveAsked {
  std::string gpu;
};
// The job was cancelled, or is over: the state machine orders nothing more, whatever the state.
struct Ended {};
// Every process of the job and every GPU of the machine, all of them each time. The caller sends it before it
// sends any request; then after each sampling and whenever the eviction of a shim changed.
struct Observed {
  std::vector<ObservedProcess> processes;
  std::vector<ObservedGpu> gpus;
};
// The answers to QuiesceJob. `took`, `steps` (calls that had to pass) and the like go into the event of the
// job.
struct JobQuiesced {
  base::Millis took{0};
  unsigned steps = 0;
};
struct QuiesceFailed {
  std::string why;  // goes on where "the job did not come to rest: " ends
  base::Millis took{0};
  unsigned steps = 0;
  unsigned units = 0, working = 0;  // a unit is a process on one of its GPUs
};
// The answer to AskCan (process {}), AskState, Checkpoint or RestoreCheckpoint.
struct DriverAnswered {
  base::ProcessId process{};
  MoverAnswer answer;
};
// The answer to CopyToHost or CopyToGpu.
struct MoverAnswered {
  base::ProcessId process;
  Verb verb = Verb::kSecure;
  MoverAnswer answer;
};
// For a job that wants to come back: the free memory on each GPU, and whether ChooseToResume chose the job
// (`chosen`) or the job's room has not lasted long enough yet (`settling`).
struct RoomAvailable {
  BytesByGpu free;
  bool chosen = false;
  bool settling = false;
};
struct Tick {};  // the deadline has come
}  // namespace event
using Event = std::variant<event::SuspendAsked, event::ResumeAsked, event::MoveAsked, event::Ended,
                           event::Observed, event::JobQuiesced, event::QuiesceFailed, event::DriverAnswered,
                           event::MoverAnswered, event::RoomAvailable, event::Tick>;

namespace action {
// All processes of the job with a shim come to rest within `limit`: their calls wait at the gates, their work
// ends, and their memory stays on the GPU. Processes that come meanwhile are held, too. The answer is
// JobQuiesced or QuiesceFailed; if the wait is over before (CancelQuiesce), there is none. The state machine
// then gives each process its next order.
struct QuiesceJob {
  base::Millis limit;
  friend bool operator==(const QuiesceJob&, const QuiesceJob&) = default;
};
struct CancelQuiesce {
  friend bool operator==(const CancelQuiesce&, const CancelQuiesce&) = default;
};
struct OrderEvict {
  base::ProcessId process;
  friend bool operator==(const OrderEvict&, const OrderEvict&) = default;
};
// All memory is on the GPU again, and the gate stays closed (ObservedProcess::fetches).
struct OrderFetchToGpu {
  base::ProcessId process;
  friend bool operator==(const OrderFetchToGpu&, const OrderFetchToGpu&) = default;
};
struct OrderRestore {
  base::ProcessId process;
  bool held = false;  // with its gate closed and its memory where it is (SuspensionSettings::restores_held)
  friend bool operator==(const OrderRestore&, const OrderRestore&) = default;
};
// Asks whether the driver can checkpoint. The state machine asks early: the question starts the mover while
// the shims evict.
struct AskCan {
  friend bool operator==(const AskCan&, const AskCan&) = default;
};
struct AskState {
  base::ProcessId process;
  friend bool operator==(const AskState&, const AskState&) = default;
};
struct Checkpoint {
  base::ProcessId process;
  base::Millis lock_timeout;
  base::Bytes bytes{};  // the memory that the process has on the device now
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};
struct RestoreCheckpoint {
  base::ProcessId process;
  std::vector<GpuMove> gpus;
  friend bool operator==(const RestoreCheckpoint&, const RestoreCheckpoint&) = default;
};
// The memory that the shim gave away has to be whole in host memory, and off every GPU. With `target` (the
// GPU where the job goes next), the memory may stay on a GPU that `target` can read.
struct CopyToHost {
  base::ProcessId process;
  std::string target{};
  friend bool operator==(const CopyToHost&, const CopyToHost&) = default;
};
// The memory has to be on a GPU again: on `gpu`, or, if that is empty, on the GPU that it came from.
struct CopyToGpu {
  base::ProcessId process;
  std::string gpu;
  friend bool operator==(const CopyToGpu&, const CopyToGpu&) = default;
};
// The job is on this GPU from now on: one of its processes came back there, even if others fail to; or a job
// that was to move comes back here, where it was.
struct Moved {
  std::string gpu;
  friend bool operator==(const Moved&, const Moved&) = default;
};
// Phase, reason or detail of the record changed. Empty reason: none.
struct SetState {
  SuspensionPhase phase;
  std::string reason, detail;
  friend bool operator==(const SetState&, const SetState&) = default;
};
struct Emit {
  std::string kind, message;
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const Emit&, const Emit&) = default;
};
}  // namespace action
using Action = std::variant<action::QuiesceJob, action::CancelQuiesce, action::OrderEvict,
                            action::OrderFetchToGpu, action::OrderRestore, action::AskCan, action::AskState,
                            action::Checkpoint, action::RestoreCheckpoint, action::CopyToHost,
                            action::CopyToGpu, action::Moved, action::SetState, action::Emit>;
using Actions = std::vector<Action>;

// Thread-compatible. The caller carries out the actions in order, and before that stores record() if it
// changed: if the daemon is killed in between, the next daemon knows what this one was about to do.
class SuspensionStateMachine {
 public:
  explicit SuspensionStateMachine(SuspensionSettings settings) : settings_(settings) {}

  // For a new daemon: goes on to the state that `record` asks for. The first Observed tells of the processes;
  // the state machine asks the driver for a process's state where that matters.
  static SuspensionStateMachine Rebuild(SuspensionSettings settings, SuspensionRecord record);

  Actions On(const Event& event, base::MonoTime now);

  // When a Tick is due; nullopt: never.
  std::optional<base::MonoTime> Deadline() const;

  const SuspensionRecord& record() const { return record_; }
  SuspensionPhase phase() const { return record_.phase; }
  // A way back has failed since the last request to resume or move the job. The state machine may try again.
  bool HasFailedBack() const { return retries_ > 0; }
  // The state machine waits for figures of the GPUs that are newer than the last shim's answer.
  bool AwaitsFigures() const { return left_due_.has_value(); }
  // Samples may still show a process as it was before its return.
  bool KnowsMoreThanSamples() const;

  // kUnsatisfiable, kNotSupported, kConflict or kNotFound with a sentence for the client that asks. An
  // accepted request may fail later.
  base::Result<> CanSuspend() const;
  // Also kUnsatisfiable where the job does not fit into the host's memory.
  base::Result<> CanSuspend(const HostRoom& room) const;
  base::Result<> CanResume(const std::optional<std::string>& gpu) const;
  base::Result<> CanMove(const std::string& gpu) const;
  base::Result<> CanMove(const std::string& gpu, const HostRoom& room) const;

  // The room on each GPU that a suspended job needs to come back. nullopt: the job does not want to come back
  // (just now).
  std::optional<BytesByGpu> Needs(base::MonoTime now) const;
  // The part of the job that is still on its GPUs and would come to the host's memory.
  HostNeed NeedOfHost() const;
  // The bytes that the job has in the host's memory, or is about to have.
  base::Bytes InHost() const;
  // The settings hold from the next order on.
  void SetSettings(SuspensionSettings settings) { settings_ = settings; }

 private:
  enum class Order { kNone, kHold, kEvict, kFetch, kRestore };
  // Where the mover has the memory that the shim gave away. kStraight: still on the GPU that the process
  // left, on its way to the target.
  enum class Location { kUnknown, kHost, kStraight, kGpu };

  struct Member {
    ObservedProcess seen;
    DriverState saved = DriverState::kRunning;
    bool no_cuda = false;  // the driver finds no CUDA in it
    Order order = Order::kNone;
    bool guessed = false;  // an earlier daemon gave `order`, or one like it
    base::MonoTime ordered_at{};
    base::MonoTime answered_at{};  // when the answer to `order` was seen
    base::MonoTime eviction_since{};
    bool without_shim = false;  // its shim did not answer in time on this way
    int losses = 0;             // answers that never came on this way
    // The moves of a restore whose answer never came: the driver may have restored the process.
    std::vector<GpuMove> lost_moves{};
    // The process could not be taken off the GPU, or need not be: the state machine does not look at it again
    // before this time.
    std::optional<base::MonoTime> left_until{};
    bool reported = false;
    base::MonoTime recheck_at{};  // from this time on the state machine checks whether a checkpointed process
                                  // is on the GPU
    std::optional<GpuMove> arrived;  // its last move, while samples may still show the process on its old GPU
    base::MonoTime arrived_at{};
    // What the driver restored last, while samples may still show the process without it.
    BytesByGpu restored{};
    base::MonoTime restored_at{};
    Location location = Location::kUnknown;
    std::optional<Verb> moving;  // kSecure or kLoad, not answered yet
    // The mover found none of the process's memory in host memory, although its slot showed some: the shim
    // had just taken that memory back. The state machine waits for a new look at the process before it asks
    // the mover again.
    bool outdated = false;
    int nothing_found = 0;  // times in a row
  };

  struct Pending {
    base::ProcessId process;
    Verb verb;
  };

  // --- state_machine.cc: events
  void Handle(const event::SuspendAsked& asked, base::MonoTime now);
  void Handle(const event::ResumeAsked& asked, base::MonoTime now);
  void Handle(const event::MoveAsked& asked, base::MonoTime now);
  void Handle(const event::Ended&, base::MonoTime now);
  void Handle(const event::Observed& observed, base::MonoTime now);
  void Handle(const event::JobQuiesced& rested, base::MonoTime now);
  void Handle(const event::QuiesceFailed& failed, base::MonoTime now);
  void Handle(const event::DriverAnswered& answered, base::MonoTime now);
  void Handle(const event::MoverAnswered& answered, base::MonoTime now);
  void Handle(const event::RoomAvailable& room, base::MonoTime now);
  void Handle(const event::Tick&, base::MonoTime now);
  void Meet(Member& member, base::MonoTime now);
  void TakeAnswer(Member& member, Verb verb, MoverAnswer answer, base::MonoTime now);
  // `target`: the GPU that the job moves to; nullopt: it does not move.
  enum class Goal { kHost, kGpu };
  void Want(Goal goal, std::optional<std::string> target = {});
  void Begin(SuspensionPhase phase, base::MonoTime now);
  void Advance(base::MonoTime now);

  // --- state_machine_rest.cc
  bool AwaitRest(base::MonoTime now);
  void CancelQuiesce();
  bool CanBeHeld(const Member& member) const;
  Member* OnlySilentOne();
  static std::string WhyStopped(const Member& member);
  bool FailIfStopped(Member& member, base::MonoTime now);
  base::Result<> NothingIsStopped() const;

  // --- state_machine_out.cc
  void GoOut(base::MonoTime now);
  bool AwaitSample(base::MonoTime now);
  bool IsStrict() const { return record_.phase == SuspensionPhase::kSuspending; }
  void OrderEvictions(base::MonoTime now);
  void Give(Member& member, Order order, base::MonoTime now);
  void OpenGates(base::MonoTime now);
  // Each of these returns true when the state machine has to wait for something, or the phase has changed.
  bool SecureAll(base::MonoTime now);
  bool IsSecure(const Member& member) const;
  // To another GPU, as soon as it has left this one.
  bool GoesOn() const { return record_.target && record_.wants_gpu; }
  bool AskUnknown(base::MonoTime now);
  bool AwaitShims(base::MonoTime now);
  bool AwaitDriver(base::MonoTime now);
  bool CheckpointNext(base::MonoTime now);
  void ArriveOut(base::MonoTime now);
  bool IsLeft(const Member& member, base::MonoTime now) const;
  static bool MayBegin(const Member& member);
  bool IsWorthEvicting(const Member& member) const;
  bool RefuseToStay(base::MonoTime now);
  bool AwaitFigures(base::MonoTime now);
  void Hold(Member& member);
  void HoldWhatCameLast(const Member& member);
  void HoldWhatStays();
  void ReportNewcomer(Member& member, base::MonoTime now);
  // A step failed for this process: turns back, or leaves the process where it is.
  void FailOut(Member& member, const std::string& why, base::MonoTime now);
  void TurnBack(std::string reason, std::string why, base::MonoTime now);

  // --- state_machine_back.cc
  void GoBack(base::MonoTime now);
  bool RestoresHeld() const;
  bool Fetches() const;
  void LoadAll();
  bool IsReadyToRestore(const Member& member) const;
  bool RestoreNext(base::MonoTime now);
  bool TurnBackToMove(base::MonoTime now);
  bool RestoreMemory(Order order, base::MonoTime now);
  static bool MustCome(const Member& member) {
    return member.order == Order::kFetch || member.order == Order::kRestore;
  }
  static bool MayNotCome(const Member& member);
  void ArriveBack(base::MonoTime now);
  // kPassing: the same may succeed soon.
  enum class Failure { kPassing, kLasting };
  void FailBack(const std::string& why, Failure failure, base::MonoTime now);
  std::vector<GpuMove> MovesFor(const base::ProcessId& process) const;
  void Moved(Member& member, const std::vector<GpuMove>& moves, base::MonoTime now);
  void CorrectLocation(Member& member, base::MonoTime now) const;
  // The driver has restored the process; what it held is on its GPU again, whatever older samples show.
  void NoteRestored(Member& member, base::MonoTime now) const;
  void CorrectRestored(Member& member, base::MonoTime now) const;
  static void ShowRestored(Member& member);
  // The driver says that the process is not checkpointed: a restore without an answer may have moved the
  // process.
  void FindWhere(Member& member, base::MonoTime now);
  // A part of the job has moved already, or may have: the rest follows.
  bool IsPartlyMoved() const;
  // The job comes back where it was, unless a part of it has moved.
  void DropTarget();

  // --- state_machine_queries.cc: what is known
  static bool IsOnGpu(const Member& member);
  static bool IsOff(const Member& member);
  // The mover has some of the process's memory.
  static bool IsAway(const Member& member);
  static bool ComesBack(const Member& member);
  static bool IsShimAtWork(const Member& member);
  // Its next call waits at its gate, and shows.
  static bool IsBehindGate(const Member& member) {
    return member.seen.held || member.seen.eviction == EvictionProgress::kEvicted;
  }
  // Others may reach memory of the process, or it reaches memory of others.
  static bool Shares(const Member& member) { return member.seen.holds_imported || member.seen.shares; }
  // Its shim has evicted what can leave, and memory that is shared with others is left.
  static bool Stays(const Member& member);
  bool AnyStays() const;
  bool AnyShares() const;
  static base::MonoTime AtWorkSince(const Member& member);  // on the last order
  static base::Bytes Sum(const ObservedProcess& view, base::Bytes GpuFootprint::*part);
  std::string Whereabouts() const;
  std::string NameOf(const std::string& gpu) const;
  base::Bytes HeldOn(const Member& member, const std::string& gpu) const;
  bool IsOld(const Member& member, const std::string& gpu) const;
  BytesByGpu LeftOf(const Member& member) const;
  BytesByGpu Left() const;
  std::map<std::string, std::int64_t> Figures(base::MonoTime now) const;
  std::map<std::string, std::int64_t> FiguresWithSpent(base::MonoTime now) const;
  std::optional<std::string> OnlyGpu() const;
  base::Result<> HasNoManagedMemory() const;
  void SetState(std::string reason, std::string detail);
  void SetAway(const std::string& reason, const std::string& detail);
  void Emit(const char* kind, std::string message, base::MonoTime now);
  // Also with what stays, or stayed, on each GPU.
  void EmitWith(const BytesByGpu& left, const char* kind, std::string message, base::MonoTime now);
  void Spend(const char* what, base::Millis time);
  void AskMover(Member& member, Verb verb);
  void AskDriver(const base::ProcessId& process, Verb verb);
  void AskCan();

  SuspensionSettings settings_;
  SuspensionRecord record_;
  std::map<base::ProcessId, Member> members_;
  std::vector<ObservedGpu> gpus_;
  bool resting_ = false;   // QuiesceJob was ordered and is not answered
  bool rested_ = false;    // on this way, all processes that have to come to rest were held
  bool settling_ = false;  // the driver does not yet show all memory that `held` has to record
  bool rebuilt_ = false;   // until the first Observed
  // Users see the job on record_.target: it is suspended, and waits for room there.
  bool counts_on_target_ = false;
  std::optional<bool> can_;  // the driver can checkpoint
  bool can_asked_ = false;
  std::string cannot_;  // why not
  std::optional<Pending> pending_;
  std::vector<GpuMove> pending_moves_;
  std::string why_;            // why the job turned back, while kUndoing or kRetreating
  std::string turned_reason_;  // the reason word that the job has after that way
  int retries_ = 0;
  base::MonoTime not_before_{};  // no way back begins earlier
  base::MonoTime began_{};       // when this way began
  std::optional<base::MonoTime> room_reported_at_;
  std::optional<base::MonoTime> left_due_;     // until when it waits for figures (AwaitFigures)
  bool left_changed_ = false;                  // a process of the suspended job ended, or was taken off
  std::map<std::string, std::int64_t> spent_;  // milliseconds and bytes of this way, by what they are
  Actions out_;                                // of the event being handled
};

}  // namespace gpuman::suspend
