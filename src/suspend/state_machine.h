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
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "base/units.h"
#include "suspend/events.h"
#include "suspend/host_room.h"
#include "suspend/member_process.h"
#include "suspend/record.h"
#include "suspend/request.h"

namespace gpuman::suspend {

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
  void Meet(MemberProcess& member, base::MonoTime now);
  void TakeAnswer(MemberProcess& member, Verb verb, MoverAnswer answer, base::MonoTime now);
  // `target`: the GPU that the job moves to; nullopt: it does not move.
  enum class Goal { kHost, kGpu };
  void Want(Goal goal, std::optional<std::string> target = {});
  void Begin(SuspensionPhase phase, base::MonoTime now);
  void Advance(base::MonoTime now);

  // --- state_machine_rest.cc
  bool AwaitRest(base::MonoTime now);
  void CancelQuiesce();
  bool CanBeHeld(const MemberProcess& member) const;
  MemberProcess* OnlySilentOne();
  bool FailIfStopped(MemberProcess& member, base::MonoTime now);
  base::Result<> NothingIsStopped() const;

  // --- state_machine_out.cc
  void GoOut(base::MonoTime now);
  bool AwaitSample(base::MonoTime now);
  bool IsStrict() const { return record_.phase == SuspensionPhase::kSuspending; }
  void OrderEvictions(base::MonoTime now);
  void Give(MemberProcess& member, ProcessOrder order, base::MonoTime now);
  void OpenGates(base::MonoTime now);
  // Each of these returns true when the state machine has to wait for something, or the phase has changed.
  bool SecureAll(base::MonoTime now);
  bool IsSecure(const MemberProcess& member) const;
  // To another GPU, as soon as it has left this one.
  bool GoesOn() const { return record_.target && record_.wants_gpu; }
  bool AskUnknown(base::MonoTime now);
  bool AwaitShims(base::MonoTime now);
  bool AwaitDriver(base::MonoTime now);
  bool CheckpointNext(base::MonoTime now);
  void ArriveOut(base::MonoTime now);
  bool IsLeft(const MemberProcess& member, base::MonoTime now) const;
  bool IsWorthEvicting(const MemberProcess& member) const;
  bool RefuseToStay(base::MonoTime now);
  bool AwaitFigures(base::MonoTime now);
  void Hold(MemberProcess& member);
  void HoldWhatCameLast(const MemberProcess& member);
  void HoldWhatStays();
  void ReportNewcomer(MemberProcess& member, base::MonoTime now);
  // A step failed for this process: turns back, or leaves the process where it is.
  void FailOut(MemberProcess& member, const std::string& why, base::MonoTime now);
  void TurnBack(std::string reason, std::string why, base::MonoTime now);

  // --- state_machine_back.cc
  void GoBack(base::MonoTime now);
  bool RestoresHeld() const;
  bool Fetches() const;
  void LoadAll();
  bool IsReadyToRestore(const MemberProcess& member) const;
  bool RestoreNext(base::MonoTime now);
  bool TurnBackToMove(base::MonoTime now);
  bool RestoreMemory(ProcessOrder order, base::MonoTime now);
  void ArriveBack(base::MonoTime now);
  // kPassing: the same may succeed soon.
  enum class Failure { kPassing, kLasting };
  void FailBack(const std::string& why, Failure failure, base::MonoTime now);
  std::vector<GpuMove> MovesFor(const base::ProcessId& process) const;
  void Moved(MemberProcess& member, const std::vector<GpuMove>& moves, base::MonoTime now);
  // The driver has restored the process; what it held is on its GPU again, whatever older samples show.
  void NoteRestored(MemberProcess& member, base::MonoTime now) const;
  // The driver says that the process is not checkpointed: a restore without an answer may have moved the
  // process.
  void FindWhere(MemberProcess& member, base::MonoTime now);
  // A part of the job has moved already, or may have: the rest follows.
  bool IsPartlyMoved() const;
  // The job comes back where it was, unless a part of it has moved.
  void DropTarget();

  // --- state_machine_queries.cc: what is known
  bool AnyStays() const;
  bool AnyShares() const;
  std::string Whereabouts() const;
  std::string NameOf(const std::string& gpu) const;
  base::Bytes HeldOn(const MemberProcess& member, const std::string& gpu) const;
  bool IsOld(const MemberProcess& member, const std::string& gpu) const;
  BytesByGpu LeftOf(const MemberProcess& member) const;
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
  void AskMover(MemberProcess& member, Verb verb);
  void AskDriver(const base::ProcessId& process, Verb verb);
  void AskCan();

  SuspensionSettings settings_;
  SuspensionRecord record_;
  std::map<base::ProcessId, MemberProcess> members_;
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
