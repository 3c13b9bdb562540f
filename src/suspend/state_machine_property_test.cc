// Checks what must hold for any answers, failures, deaths and requests, in any order. The simulated world
// here carries out its orders sooner or later, or not, and keeps its own record of the true state.
#include <rapidcheck.h>

#include <deque>

#include "suspend/test_state_machine.h"

namespace gpuman::suspend {
namespace {

struct Target {
  ObservedProcess view;
  base::Bytes context, data;            // data: what its shim could evict
  base::Bytes out{};                    // the part of `data` that the mover has
  bool secure = false, loaded = false;  // whole in host memory; on a GPU again
  bool straight = false;                // it stayed on its GPU, because its job was on the way to another
  DriverState saved = DriverState::kRunning;
  bool answers = true;  // its shim answers
  bool cuda = true;
  bool imported = false, stuck = false;  // it has memory of another process; not all of that can leave
  bool shares = false;                   // others may have some of its memory
  bool shut = false;                     // its gate is closed
  std::string gpu = "a";
  bool from_start = false;  // it was there before the first request to move
  bool restored = false;    // by the driver, which said so
  std::map<std::string, GpuFootprint> sampled{};
  enum class Ordered { kNothing, kHold, kEvict, kFetch, kRestore } told = Ordered::kNothing;
};

struct Asked {  // the driver
  base::ProcessId process;
  Verb verb;
  std::vector<GpuMove> moves;
};
struct Transfer {
  base::ProcessId process;
  Verb verb;
  std::string to;
};

class World {
 public:
  World() {
    can_ = *rc::gen::inRange(0, 4) != 0;
    honest_ = *rc::gen::arbitrary<bool>();
    for (int count = *rc::gen::inRange(0, 4); count > 0; --count) Start();
    for (auto& [id, target] : targets_) target.from_start = true;
    Feed(event::Observed{Views(), gpus_});
  }

  void Run() {
    for (int step = *rc::gen::inRange(1, 80); step > 0; --step) {
      now_ += base::Millis(*rc::gen::element(1, 100, 6000, 40'000, 130'000));
      RandomEvent(*rc::gen::inRange(0, 18));
    }
    Settle();
  }

 private:
  void Start() {
    Target target;
    const pid_t pid = next_pid_++;
    target.view.id = Story::IdOf(pid);
    target.view.has_shim = *rc::gen::arbitrary<bool>();
    target.context = MiB(*rc::gen::element<std::uint64_t>(0, 500));
    if (target.view.has_shim && target.context.count > 0)
      target.data = MiB(*rc::gen::inRange<std::uint64_t>(0, 9000));
    target.answers = *rc::gen::inRange(0, 6) != 0;
    target.cuda = *rc::gen::inRange(0, 6) != 0;
    target.imported = target.view.has_shim && *rc::gen::inRange(0, 4) == 0;
    target.stuck = *rc::gen::inRange(0, 4) == 0;
    target.shares = target.view.has_shim && *rc::gen::inRange(0, 4) == 0;
    target.view.fetches = target.view.has_shim && *rc::gen::inRange(0, 4) != 0;
    target.view.figures_current = *rc::gen::inRange(0, 4) != 0;
    // Without a context no thread of its shim answers.
    const bool has_context = target.view.has_shim && target.context.count > 0;
    target.view.eviction = has_context ? EvictionProgress::kOnGpu : EvictionProgress::kNone;
    if (rest_ordered_) Hold(target);
    targets_[target.view.id] = target;
  }

  // The counts of the shims are current; the figures of the driver are of the last sample.
  std::vector<ObservedProcess> Views() {
    std::vector<ObservedProcess> views;
    const bool samples = now_ >= sampled_at_ + std::chrono::seconds(10) || *rc::gen::inRange(0, 3) != 0;
    if (samples) sampled_at_ = now_;
    for (auto& [id, target] : targets_) {
      const bool here = target.saved != DriverState::kCheckpointed;
      if (samples || target.sampled.empty()) {
        target.sampled.clear();
        target.sampled[target.gpu].used = here ? target.context + (target.data - target.out) : base::Bytes{};
        target.sampled[target.gpu].sampled_at = now_;
      }
      target.view.gpus = target.sampled;
      target.view.gpus[target.gpu].evictable = target.data - target.out;
      target.view.gpus[target.gpu].evicted = target.out;
      target.view.shares = target.shares;
      target.view.holds_imported = here && target.imported && (target.stuck || target.out.count == 0);
      // Without a shim, only a sample shows the process; while the job is away, its record does.
      const bool known = target.view.has_shim || machine_.record().held.contains(id) ||
                         target.sampled.begin()->second.used.count > 0;
      if (known) views.push_back(target.view);
    }
    return views;
  }

  void RandomEvent(int what) {
    switch (what) {
      case 0:
        return Feed(event::SuspendAsked{"held_by_user", ""});
      case 1:
        return Feed(event::ResumeAsked{});
      case 2:
        return Move(*rc::gen::element<std::string>("a", "b"));
      case 3:
        return Feed(event::RoomAvailable{{{"a", GiB(100)}, {"b", GiB(100)}}, true});
      case 4:
        if (targets_.size() < 5) Start();
        return Feed(event::Observed{Views(), gpus_});
      case 5:
        if (!targets_.empty() && *rc::gen::inRange(0, 3) == 0)
          targets_.erase(
              std::next(targets_.begin(), *rc::gen::inRange(0, static_cast<int>(targets_.size()))));
        return Feed(event::Observed{Views(), gpus_});
      case 6:
        if (*rc::gen::inRange(0, 4) == 0) return Restart();
        return Feed(event::Tick{});
      case 7:
      case 8:
      case 9:
        return MoveShims(/*fail=*/*rc::gen::inRange(0, 4) == 0);
      case 10:
      case 11:
      case 12:
        return MoveOne(/*fail=*/*rc::gen::inRange(0, 3) == 0);
      case 13:
        return AnswerRest(/*fail=*/*rc::gen::arbitrary<bool>());
      default:
        return AnswerOne(/*fail=*/*rc::gen::inRange(0, 3) == 0);
    }
  }

  void Move(const std::string& gpu) {
    if (machine_.CanMove(gpu)) wanted_ = gpu;
    Feed(event::MoveAsked{gpu});
  }

  // A daemon is killed and started again: requests on their way are carried out, their answers lost.
  void Restart() {
    while (!asked_.empty()) {
      AnswerMover(asked_.front(), *rc::gen::arbitrary<bool>());
      asked_.pop_front();
    }
    // An old mover finishes what it has taken, and gives up what it has loaded.
    for (auto& [id, target] : targets_) {
      target.secure = true;
      target.loaded = false;
    }
    moves_.clear();
    rest_ordered_ = false;
    for (auto& [id, target] : targets_) target.restored = false;
    sampled_at_ = {};
    machine_ = SuspensionStateMachine::Rebuild({}, ParseRecord(SerializeRecord(machine_.record())).value());
    NoteBegin();
    Feed(event::Observed{Views(), gpus_});
  }

  // The attempt to bring all to rest may end at any moment without success; all rest only when all do.
  void AnswerRest(bool fail) {
    if (!rest_ordered_) return;
    const bool all = std::all_of(targets_.begin(), targets_.end(), [](const auto& one) {
      const ObservedProcess& view = one.second.view;
      const bool holds = view.has_shim && view.eviction != EvictionProgress::kNone;
      return one.second.saved != DriverState::kRunning || !holds || view.held;
    });
    if (!all && !fail) return;
    rest_ordered_ = false;
    rested_ = true;
    if (!fail) return Feed(event::JobQuiesced{});
    // Where the only process does not answer, the driver takes it, and nobody else is there to be held.
    Feed(event::QuiesceFailed{"it works"});
    if (machine_.phase() != SuspensionPhase::kSuspending) rested_ = false;
  }
  static void Hold(Target& target) {
    if (!target.view.has_shim) return;
    target.told = Target::Ordered::kHold;
    target.view.answered = false;
  }
  // Whether a way out that begins now finds that some of the job has left already.
  void NoteBegin() {
    rested_ = std::any_of(targets_.begin(), targets_.end(), [](const auto& one) {
      const Target& target = one.second;
      return target.out.count > 0 || target.told == Target::Ordered::kEvict ||
             target.told == Target::Ordered::kFetch || target.shut ||
             target.view.eviction == EvictionProgress::kEvicting ||
             target.view.eviction == EvictionProgress::kEvicted;
    });
  }

  // Every shim that has an order takes a step.
  void MoveShims(bool fail) {
    for (auto& [id, target] : targets_) {
      if (target.told == Target::Ordered::kNothing || !target.answers ||
          target.saved != DriverState::kRunning || target.view.eviction == EvictionProgress::kNone)
        continue;
      if (target.told == Target::Ordered::kHold) {
        // It completes a restore that it has begun; other memory stays where it is.
        if (target.view.eviction == EvictionProgress::kRestoring) target.out = {};
        if (target.view.eviction == EvictionProgress::kRestoring ||
            target.view.eviction == EvictionProgress::kEvicted)
          target.view.eviction = EvictionProgress::kOnGpu;
        // The work may wait for another process; then the shim gives up by itself.
        target.view.answered = true;
        target.view.held = !fail;
        target.shut = !fail;
        target.view.eviction = fail ? EvictionProgress::kFailed : target.view.eviction;
        target.told = Target::Ordered::kNothing;
        continue;
      }
      const bool evict = target.told == Target::Ordered::kEvict;
      const EvictionProgress at_work = evict ? EvictionProgress::kEvicting : EvictionProgress::kRestoring;
      target.view.answered = true;
      if (evict && target.out.count > 0) {  // it is out
        target.view.eviction = EvictionProgress::kEvicted;
        target.told = Target::Ordered::kNothing;
      } else if (fail && (evict || target.out.count > 0)) {  // with nothing out the shim only opens its gate
        target.view.eviction = EvictionProgress::kFailed;
        target.view.error = "no memory";
        target.told = Target::Ordered::kNothing;
      } else if (target.view.eviction != at_work) {
        target.view.eviction = at_work;
      } else {
        target.view.eviction = evict ? EvictionProgress::kEvicted : EvictionProgress::kOnGpu;
        target.shut = evict || (target.told == Target::Ordered::kFetch && target.shut);
        // An order from before a restart may be carried out late: the mover loads what it is asked to give.
        target.out = evict ? target.data : base::Bytes{};
        target.imported = target.imported || !evict;
        target.view.held = !evict && target.shut;
        target.secure = target.loaded = false;
        target.told = Target::Ordered::kNothing;
      }
    }
    Feed(event::Observed{Views(), gpus_});
  }

  // Carries out a request as the driver would, and returns the answer of the mover.
  MoverAnswer AnswerMover(const Asked& ask, bool fail) {
    if (!can_) return {.outcome = MoverOutcome::kUnsupported, .message = "old"};
    if (ask.verb == Verb::kCan) return {.outcome = MoverOutcome::kDone};
    const auto it = targets_.find(ask.process);
    if (it == targets_.end()) return {.outcome = MoverOutcome::kGone};
    Target& target = it->second;
    if (!target.cuda) return {.outcome = MoverOutcome::kNoCuda, .state = DriverState::kRunning};
    if (target.saved == DriverState::kBroken) return {.state = DriverState::kBroken, .message = "broken"};
    const int how = fail ? *rc::gen::inRange(0, 5) : -1;
    if (how == 0) return {.state = target.saved, .message = "no"};
    if (how == 1) return {.outcome = MoverOutcome::kLost, .message = "died before"};
    if (how == 2 && ask.verb != Verb::kState && *rc::gen::inRange(0, 3) == 0) {
      target.saved = DriverState::kBroken;
      return {.state = DriverState::kBroken, .message = "broken"};
    }
    if (how == 3) {
      const bool restore = ask.verb == Verb::kRestore && target.saved == DriverState::kCheckpointed;
      if (!restore && ask.verb != Verb::kCheckpoint) return {.state = target.saved, .message = "no"};
      return {.outcome = restore ? MoverOutcome::kNoRoom : MoverOutcome::kTimeout,
              .state = target.saved,
              .message = "no"};
    }
    if (ask.verb == Verb::kCheckpoint) target.saved = DriverState::kCheckpointed;
    if (ask.verb == Verb::kRestore) {
      if (target.saved == DriverState::kCheckpointed)
        for (const GpuMove& move : ask.moves)
          if (target.gpu == move.from) {
            target.gpu = move.to;
            break;
          }
      target.saved = DriverState::kRunning;
    }
    if (how == 4) {
      if (ask.verb == Verb::kCheckpoint && *rc::gen::arbitrary<bool>()) target.saved = DriverState::kLocked;
      return {.outcome = MoverOutcome::kLost, .message = "died after"};
    }
    return {.outcome = MoverOutcome::kDone, .state = target.saved};
  }

  void MoveOne(bool fail) {
    if (moves_.empty()) return;
    const Transfer moving = moves_.front();
    const auto& [process, verb, to] = moving;
    moves_.pop_front();
    const auto it = targets_.find(process);
    if (it == targets_.end())
      return Feed(event::MoverAnswered{process, verb, {.outcome = MoverOutcome::kGone}});
    Target& target = it->second;
    if (fail) {
      const MoverOutcome how =
          *rc::gen::element(MoverOutcome::kFailed, MoverOutcome::kLost, MoverOutcome::kNoRoom);
      // A mover that died may have finished before.
      const bool done = how == MoverOutcome::kLost && *rc::gen::arbitrary<bool>();
      if (done && verb == Verb::kSecure) target.secure = true;
      if (how == MoverOutcome::kLost) target.loaded = false;
      return Feed(event::MoverAnswered{process, verb, {.outcome = how, .message = "no"}});
    }
    const bool stays = !target.secure && !to.empty() && *rc::gen::inRange(0, 4) != 0;
    target.straight = stays;
    target.secure = !stays;
    target.loaded = verb == Verb::kLoad;
    Feed(event::MoverAnswered{
        process, verb, {.outcome = MoverOutcome::kDone, .bytes = target.out, .straight = stays}});
  }

  void AnswerOne(bool fail) {
    if (asked_.empty()) return;
    const auto ask = asked_.front();
    asked_.pop_front();
    // A mover is its user's process, and the user may make it say anything.
    if (!honest_ && fail && *rc::gen::inRange(0, 4) == 0 && ask.verb != Verb::kCan)
      return Feed(event::DriverAnswered{
          ask.process,
          {.outcome = MoverOutcome::kDone,
           .state = *rc::gen::element(DriverState::kUnknown, DriverState::kLocked, DriverState::kRunning)}});
    const MoverAnswer answer = AnswerMover(ask, fail);
    if (const auto it = targets_.find(ask.process); it != targets_.end() && ask.verb != Verb::kState)
      it->second.restored = ask.verb == Verb::kRestore && answer.outcome == MoverOutcome::kDone;
    Feed(event::DriverAnswered{ask.process, answer});
  }

  void Feed(const Event& event) {
    RC_LOG() << now_.time_since_epoch() / base::Millis(1) << " event " << event.index();
    if (const auto* said = std::get_if<event::DriverAnswered>(&event))
      RC_LOG() << " " << said->process.pid << " " << ToString(said->answer.outcome) << " "
               << ToString(said->answer.state);
    for (const auto& [id, target] : targets_)
      RC_LOG() << " [" << id.pid << " " << ToString(target.saved) << " eviction "
               << static_cast<int>(target.view.eviction) << (target.view.answered ? "" : "?") << " out "
               << target.out.count << "]";
    RC_LOG() << "\n";
    const SuspensionPhase before = machine_.phase();
    const Actions actions = machine_.On(event, now_);
    const bool begins = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
      const auto* state = std::get_if<action::SetState>(&action);
      return state && state->phase == SuspensionPhase::kSuspending;
    });
    if (begins && before != SuspensionPhase::kSuspending) NoteBegin();
    Check(actions);
    Count(actions);
    if (const auto deadline = machine_.Deadline()) RC_ASSERT(*deadline > now_);
  }

  // This holds even where no sample has shown the process since its return.
  void CheckThatNobodyStayed() {
    if (!honest_ || !can_ || AnyStays()) return;
    for (const auto& [id, target] : targets_)
      RC_ASSERT(!target.restored || target.saved != DriverState::kRunning || target.context.count == 0);
  }

  void Check(const Actions& actions) {
    for (const Action& action : actions) {
      RC_LOG() << "  " << WordOf(action) << "\n";
      if (const auto* emit = std::get_if<action::Emit>(&action); emit && emit->kind == "job_suspended")
        CheckThatNobodyStayed();
      if (std::get_if<action::QuiesceJob>(&action)) {
        RC_ASSERT(machine_.phase() == SuspensionPhase::kSuspending && !rest_ordered_);
        rest_ordered_ = true;
        for (auto& [id, target] : targets_) {
          // None is held while another's memory has left already: the job could not go on. Memory that is on
          // its way back has not.
          RC_ASSERT(target.out.count == 0 || !target.view.answered ||
                    target.view.eviction == EvictionProgress::kRestoring);
          Hold(target);
        }
      }
      if (std::get_if<action::CancelQuiesce>(&action)) RC_ASSERT(std::exchange(rest_ordered_, false));
      if (const auto* evict = std::get_if<action::OrderEvict>(&action)) {
        RC_ASSERT(!rest_ordered_);
        if (machine_.phase() == SuspensionPhase::kSuspending) RC_ASSERT(rested_);
        Tell(evict->process, Target::Ordered::kEvict);
      }
      if (const auto* fetch = std::get_if<action::OrderFetchToGpu>(&action))
        Tell(fetch->process, Target::Ordered::kFetch);
      if (const auto* back = std::get_if<action::OrderRestore>(&action)) {
        if (machine_.phase() == SuspensionPhase::kResuming)
          for (const auto& [id, target] : targets_)
            RC_ASSERT(target.told != Target::Ordered::kFetch || target.out.count == 0);
        Tell(back->process, Target::Ordered::kRestore);
      }
      if (std::get_if<action::AskCan>(&action)) asked_.push_back({{}, Verb::kCan, {}});
      if (const auto* state = std::get_if<action::AskState>(&action)) Ask(state->process, Verb::kState);
      if (const auto* save = std::get_if<action::Checkpoint>(&action)) {
        Ask(save->process, Verb::kCheckpoint);
        const auto it = targets_.find(save->process);
        if (it == targets_.end()) continue;
        RC_ASSERT(it->second.view.eviction != EvictionProgress::kEvicting &&
                  it->second.view.eviction != EvictionProgress::kRestoring);
        RC_ASSERT(!it->second.view.holds_imported);
        RC_ASSERT(!it->second.view.has_shim || !AnyStays());
      }
      if (const auto* secure = std::get_if<action::CopyToHost>(&action))
        Transport(secure->process, Verb::kSecure, secure->target);
      if (const auto* load = std::get_if<action::CopyToGpu>(&action))
        Transport(load->process, Verb::kLoad, load->gpu);
      if (const auto* restore = std::get_if<action::RestoreCheckpoint>(&action))
        Ask(restore->process, Verb::kRestore, restore->gpus);
    }
  }

  bool AnyStays() const {
    return std::any_of(targets_.begin(), targets_.end(), [](const auto& one) {
      const ObservedProcess& view = one.second.view;
      return view.eviction == EvictionProgress::kEvicted && view.answered &&
             (view.holds_imported || view.shares);
    });
  }

  void Transport(base::ProcessId process, Verb verb, const std::string& to) {
    for (const Transfer& moving : moves_) RC_ASSERT(moving.process != process);
    moves_.push_back({process, verb, to});
  }

  void Ask(base::ProcessId process, Verb verb, std::vector<GpuMove> moves = {}) {
    for (const Asked& pending : asked_) RC_ASSERT(pending.verb == Verb::kCan);
    asked_.push_back({process, verb, std::move(moves)});
  }

  // What the daemon does with a request for a GPU: the job counts there when it has arrived, and also when it
  // only waits for room there.
  void Count(const Actions& actions) {
    const auto& record = machine_.record();
    for (const Action& action : actions) {
      if (const auto* moved = std::get_if<action::Moved>(&action)) counts_on_ = moved->gpu;
      const auto* emit = std::get_if<action::Emit>(&action);
      if (emit && emit->kind == "job_moved") counts_on_ = wanted_;
    }
    const bool waits = record.phase == SuspensionPhase::kSuspended && record.wants_gpu && record.target;
    if (waits && record.reason == "resources") counts_on_ = *record.target;
  }

  void Tell(base::ProcessId process, Target::Ordered told) {
    const auto it = targets_.find(process);
    if (it == targets_.end()) return;
    if (honest_)
      RC_ASSERT(it->second.saved == DriverState::kRunning || it->second.saved == DriverState::kBroken);
    if (told == Target::Ordered::kFetch) {
      RC_ASSERT(it->second.view.fetches);
      for (const Transfer& moving : moves_) RC_ASSERT(moving.process != process);
    }
    if (told == Target::Ordered::kRestore) RC_ASSERT(it->second.loaded || it->second.out.count == 0);
    it->second.told = told;
    it->second.view.answered = false;
  }

  // Nothing more is asked and nothing more fails: the state machine comes to rest, in a state that is true.
  void Settle() {
    for (int i = 0; i < 400 && !AtRest(); ++i) {
      now_ += std::chrono::minutes(3);
      AnswerOne(false);
      MoveOne(false);
      MoveShims(false);
      AnswerRest(/*fail=*/i % 8 == 7);  // some may not answer
      Feed(event::Tick{});
      Feed(event::RoomAvailable{{}, false});
    }
    RC_ASSERT(AtRest());
    if (!honest_ || machine_.phase() != SuspensionPhase::kRunning) return;
    // A shim may obey after the machine has stopped waiting for it.
    for (int i = 0; i < 400 && AnyShimHasAnOrder(); ++i) {
      MoveOne(false);
      MoveShims(false);
    }
    for (const auto& [id, target] : targets_) {
      RC_ASSERT(target.saved == DriverState::kRunning || target.saved == DriverState::kBroken);
      if (target.answers) RC_ASSERT(target.out.count == 0);
      if (target.answers) RC_ASSERT(!target.view.held);
      const bool moves = can_ && target.cuda && target.from_start && target.context.count > 0;
      if (moves && target.saved == DriverState::kRunning) RC_ASSERT(target.gpu == counts_on_);
    }
  }
  bool AnyShimHasAnOrder() const {
    return std::any_of(targets_.begin(), targets_.end(), [](const auto& one) {
      const Target& target = one.second;
      return target.answers && target.saved == DriverState::kRunning &&
             target.told != Target::Ordered::kNothing && target.view.eviction != EvictionProgress::kNone;
    });
  }
  // A suspended job still looks at intervals for processes that could not be taken.
  bool AtRest() const {
    const bool secure = std::all_of(targets_.begin(), targets_.end(), [](const auto& one) {
      return one.second.out.count == 0 || one.second.secure;
    });
    return (machine_.phase() == SuspensionPhase::kSuspended && moves_.empty() && secure) ||
           (machine_.phase() == SuspensionPhase::kRunning && asked_.empty());
  }

  SuspensionStateMachine machine_{SuspensionSettings{}};
  bool can_ = true, honest_ = true;
  bool rest_ordered_ = false;
  bool rested_ = false;  // on this way out
  pid_t next_pid_ = 11;
  base::MonoTime now_{std::chrono::hours(1)}, sampled_at_{};
  std::vector<ObservedGpu> gpus_{{"a", "NVIDIA H200"}, {"b", "NVIDIA H200"}};
  std::map<base::ProcessId, Target> targets_;
  std::string wanted_ = "a", counts_on_ = "a";
  std::deque<Asked> asked_;
  std::deque<Transfer> moves_;
};

TEST(SuspendProperty, AnyOrderOfEventsEndsSafely) {
  EXPECT_TRUE(rc::check("any order of events", [] { World().Run(); }));
}

}  // namespace
}  // namespace gpuman::suspend
