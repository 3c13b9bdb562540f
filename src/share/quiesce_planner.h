// Brings all GPUs of a job to rest while the gates of its processes are closed. Pure: what the processes
// publish goes in, and the calls that single processes may make come out.
//
// A *unit* is one process on one of its GPUs. Processes of a job wait for each other on their GPUs: one has
// launched its part of a collective, another stands at its closed gate and has not, so the first GPU never
// comes to rest. The *cut* is the state in which nothing works on any GPU and every gate is closed. It is
// found without knowing what the calls mean: a unit that works while nothing changes waits for a call of a
// unit that stands at its gate, so such units are allowed a few calls (a *grant*) until all rest.
//
// Only units that do not work are allowed calls, so none gets further ahead than the first thing for which it
// has to wait. A *leap* is a grant too many: units came to rest, but the one that was granted calls
// became the one that waits. After some leaps the grants become smaller:
//
//   together    every unit that rests and waits, with a look at its GPU after each call; a unit that has made
//               many calls without having to wait, with a look after up to 8
//   one by one  the unit with the fewest granted calls, of those that met the longest working unit before
//   single      the same unit, one call
//
// With each leap a unit also has to work for longer before others are granted calls for it: its work may
// end by itself. If no unit rests and waits and still some GPU works, then, more and more rarely, a unit may
// make a call *behind* work that has not ended.
//
// Before all of that: where the processes execute the same program (lockstep_tracker.h), those that are
// behind make the calls that the furthest has made, also behind work. Then what each has launched finds its
// other parts. If they are not and still wait for each other, their places are known only roughly, and each
// of them makes a few calls more.
//
// If there is a meeting of all units ahead (an all-reduce, a barrier), which each unit reaches after finitely
// many calls, the last phase comes to a cut: no unit gets past its part of that meeting, and each call of a
// unit that has not launched its part yet brings it nearer. Calls behind work may pass the meeting; then the
// next meeting does it. Without such meetings (a pipeline, groups that work independently) a cut is found as
// a rule, or else the attempt fails at its deadline. A failed attempt changes nothing: the caller opens the
// gates.
//
// quiesce_planner_test.cc is the specification; quiesce_planner_property_test.cc checks what is always true.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "share/events.h"
#include "share/lockstep_tracker.h"

namespace gpuman::share {

// `gpu`: the number of the GPU in the job's ledger.
struct ProcessGpuId {
  base::ProcessId process;
  unsigned gpu = 0;
  friend auto operator<=>(const ProcessGpuId&, const ProcessGpuId&) = default;
};

// Each field as the process published it last.
struct ProcessGpuState {
  ProcessGpuId id;
  // Work that has not ended, or is not known to have ended; or the gate is open. A call of the process that
  // has not returned counts for the units that work, or for all where none does.
  bool works = false;
  bool waits = false;         // a thread waits at the closed gate with a call for it
  bool takes_grants = false;  // its shim knows grants, its gate is closed, none of its memory is away
  // An allocation of the process waits for room. None is made for it before the attempt is over, so it makes
  // no other call that a unit may wait for.
  bool for_room = false;
  std::uint64_t calls = 0;  // calls that its process has made, in all; 0: not known
};

// The result of a grant that has ended, for whatever reason. A process has one grant at a time; nobody
// reports the result of a grant that was replaced.
struct GateCallResult {
  ProcessGpuId unit;
  unsigned calls = 0;  // calls that were made
};

// The caller reads `ended` before it reads `works` and `waits`: then what a grant submitted is seen with its
// end.
struct QuiesceView {
  // In any order: each process that has a context, with each GPU that it has used in this attempt, at rest or
  // not. The grant of a unit that is not in the view is over.
  std::vector<ProcessGpuState> units;
  bool all_shut = false;  // the gate of every process that has a context is closed
  bool broken = false;    // no cut can be: a process is stopped or silent, its driver failed, its gate opened
  std::vector<GateCallResult> ended{};  // since the last Decide
};

struct QuiesceSettings {
  bool call_grants = true;  // false: no calls are allowed; the job rests by itself, or not
  // Nothing is decided before the view has stayed the same for so long.
  Span settle = std::chrono::milliseconds(3);
  // How long all units that could be allowed calls may work before one of them may make a call behind that
  // work: where some unit rests and does not wait (its host computes), and where every unit works.
  Span host_patience = std::chrono::milliseconds(50), behind_patience = std::chrono::milliseconds(250);
  // After so many leaps in all, units are granted calls one by one, and after so many, single calls.
  unsigned together = 2, one_by_one = 6;
};

// What is learned and outlives an attempt.
struct QuiesceHistory {
  // How strongly two units are linked: a grant to one of them alone brought the other to rest. In both
  // directions.
  std::map<ProcessGpuId, std::map<ProcessGpuId, unsigned>> freed_by{};
  // How long after the order to close the work that needs no calls usually comes to rest.
  Span usual{};
  LockstepTracker lockstep{};
};

// A grant: the unit may make so many calls, one after the other, as they come to its gate. It replaces an
// earlier grant of the same process, on whichever GPU.
struct GateCallGrant {
  ProcessGpuId unit;
  unsigned calls = 0;  // at most 1023
  // log2 of how many calls are made between two looks at the GPU, which has to rest before the next call.
  unsigned stride = 0;
  bool careful = false;  // a pause before each further call, so that the shim sees that others came to rest
  bool behind = false;   // calls are made although the GPU works, and nothing is awaited
  friend bool operator==(const GateCallGrant&, const GateCallGrant&) = default;
};

struct QuiesceDecision {
  enum class Kind {
    kWait,
    kGrant,   // carry out `grants`
    kRested,  // nothing works, all gates are closed and no grant is open: the cut
    kFailed,  // it is broken, or the time is over; open grants have to be withdrawn
  };
  Kind kind = Kind::kWait;
  std::vector<GateCallGrant> grants{};
  base::MonoTime look_at{};  // with kWait and kGrant: Decide is due then, and whenever the view changes
};

// One attempt. Thread-compatible. After kRested and kFailed no call is granted any more: the decision stays,
// except that kFailed follows kRested if something works again.
class QuiescePlanner {
 public:
  struct Figures {
    unsigned calls = 0;   // that were made
    unsigned rounds = 0;  // decisions that grant calls
    unsigned leaps = 0;
    Span took{};  // from the begin to the decision
  };

  // `began`: when the gates were ordered to close. The attempt fails at `deadline`.
  QuiescePlanner(QuiesceSettings settings, QuiesceHistory history, base::MonoTime began,
                 base::MonoTime deadline);

  QuiesceDecision Decide(const QuiesceView& view, base::MonoTime now);

  // For the next attempt; also after a failed one.
  QuiesceHistory Take() &&;
  Figures figures() const { return figures_; }

 private:
  struct Unit {
    bool works = false, waits = false, takes_grants = false, for_room = false;
    std::uint64_t calls_made = 0;  // by its process, in all
    base::MonoTime works_since{};
    unsigned run = 0;  // calls that it was allowed since it worked last while others were granted calls
    unsigned calls = 0, behind = 0;  // calls that it was allowed in this attempt; those behind unended work
  };

  // --- what is seen
  void Note(const QuiesceView& view, base::MonoTime now);
  void NoteEnds(const QuiesceView& view, base::MonoTime now);
  void NoteUnit(const ProcessGpuState& seen, base::MonoTime now);
  void EndRound();
  void Link();
  bool AnyWorks() const;
  bool AnyForRoom() const;
  bool AllWork() const;
  // A grant is open and may still let calls through. One whose unit works lets none through until that work
  // ends.
  bool HasUsableGrant() const;
  std::vector<ProcessGpuId> Candidates() const;
  std::optional<ProcessGpuId> LongestWorking() const;

  // --- what is decided
  QuiesceDecision Rest(base::MonoTime now);
  QuiesceDecision Fail(base::MonoTime now);
  QuiesceDecision WaitUntil(base::MonoTime time) const;
  void LearnUsual();
  CallsByProcess Calls() const;
  base::MonoTime GrantAt() const;
  base::MonoTime BehindAt() const;
  QuiesceDecision GrantCalls(base::MonoTime now);
  QuiesceDecision GrantBehind(base::MonoTime now);
  std::vector<GateCallGrant> GrantsToAlign() const;
  std::vector<GateCallGrant> GrantsToShift() const;
  base::MonoTime AlignAt() const;
  QuiesceDecision Align(std::vector<GateCallGrant> grants, base::MonoTime now);
  QuiesceDecision Order(std::vector<GateCallGrant> grants, base::MonoTime now);
  std::vector<ProcessGpuId> Choose();
  unsigned StrideOf(const ProcessGpuId& unit) const;
  ProcessGpuId LeastGranted(const std::vector<ProcessGpuId>& candidates) const;
  std::vector<ProcessGpuId> Linked(const std::vector<ProcessGpuId>& candidates) const;

  QuiesceSettings settings_;
  QuiesceHistory history_;
  base::MonoTime began_, deadline_;
  Figures figures_{};
  std::map<ProcessGpuId, Unit> units_;             // units that are in the view
  std::map<base::ProcessId, GateCallGrant> open_;  // grants that have not ended
  bool all_shut_ = false;
  base::MonoTime changed_, shut_changed_;  // when the view and all_shut changed last
  // A unit has to work for so long before others are granted calls because of it; doubled with each leap.
  Span patience_;
  // Units of the last round: those that were granted calls, those that worked when it began, and those of the
  // latter that have come to rest since.
  std::set<ProcessGpuId> granted_, worked_, rested_;
  bool behind_ = false;                       // the last round was behind work
  std::optional<ProcessGpuId> target_;        // the longest working unit in the last round
  unsigned linked_rounds_ = 0;                // with this target
  unsigned host_uses_ = 0, behind_uses_ = 0;  // of the two patiences
  bool aligning_ = false;                     // the last round was for processes that were behind
  unsigned alignments_ = 0, shifts_ = 0;      // a shift is an alignment as well
  base::MonoTime aligned_at_{};               // the last of them
  std::optional<QuiesceDecision> over_;
};

}  // namespace gpuman::share
