// Whatever a client orders, and whenever, the client may rely on this: an order is carried out, kept or
// refused, never answered and dropped. The world here is the supervisor (supervisor.h), its child on the way
// to execve, a disk that may be full, and deaths of all of them, in any order.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <signal.h>

#include <map>
#include <set>

#include "keeper/state_machine.h"
#include "keeper/test_history.h"

namespace gpuman::keeper {
namespace {

using std::chrono::milliseconds;

class World {
 public:
  World() {
    spec_.restart.mode = *rc::gen::element(RestartMode::kNo, RestartMode::kOnFailure, RestartMode::kAlways);
    spec_.restart.initial_delay = milliseconds(100);
    spec_.stop_grace = milliseconds(500);
    spec_.leftovers = *rc::gen::element(LeftoverPolicy::kEnd, LeftoverPolicy::kWait);
    if (*rc::gen::inRange(0, 3) == 0) spec_.time_limit = {milliseconds(3000), SIGUSR1, milliseconds(300)};
    obeys_ = *rc::gen::arbitrary<bool>();
  }

  void Run() {
    for (int step = *rc::gen::inRange(1, 120); step > 0; --step) {
      now_ += milliseconds(*rc::gen::element(0, 1, 90, 700));
      RandomEvent(*rc::gen::inRange(0, 22));
      Check();
    }
    Settle();
  }

 private:
  // How far the child has come on its way to execve, and the report of it that the keeper is about to read.
  enum class Way { kNone, kForked, kRecorded, kExecuted, kRefused, kFailed, kKilled };

  struct Order {
    Command command;
    int forks = 0;  // forks before the order
    bool answered = false;
  };

  void RandomEvent(int what) {
    RC_LOG() << "event " << what << " at " << now_.time_since_epoch().count() << "\n";
    switch (what) {
      case 0:
      case 1:
        return GoOnWithChild(true);
      case 2:
        return GoOnWithChild(*rc::gen::inRange(0, 3) != 0);
      case 3:
      case 4:
        return ReadReport();
      case 5:
        return EndMain({EndKind::kExited, *rc::gen::element(0, 1), false, {}});
      case 6:
        others_ = *rc::gen::inRange(0, 2) && main_lives_;
        return;
      case 7:
        if (!main_lives_) others_ = false;
        return;
      case 8:
        return Reap();
      case 9:
        if (machine_) Perform(machine_->OnTime(now_));
        return;
      case 10:
        full_ = *rc::gen::inRange(0, 3) == 0;
        return;
      case 11:
      case 12:
        return EndTurn();
      case 13:
        if (machine_ && *rc::gen::inRange(0, 3) == 0) Perform(machine_->OnShutdown(now_));
        return;
      case 14:
        if (*rc::gen::inRange(0, 3) == 0) KillKeeper();
        return;
      case 15:
        return StartKeeper();
      default:
        return Give(AnyCommand());
    }
  }

  static Command AnyCommand() {
    const EndReason reason{"order", ""};
    const auto signal = *rc::gen::element(SIGUSR1, SIGINT);
    const auto grace = *rc::gen::element(std::optional<base::Millis>{}, std::optional(base::Millis{0}));
    switch (*rc::gen::inRange(0, 9)) {
      case 0:
        return StopJob{reason, {}, grace};
      case 1:
        return RestartJob{reason, {}, grace};
      case 2:
        return SetEndReason{*rc::gen::inRange<RunNumber>(0, 3),
                            {*rc::gen::element<std::string>("", "a", "b"), ""},
                            *rc::gen::arbitrary<bool>()};
      case 3: {
        UpdateSettings update;
        update.restart = RestartPolicy{.mode = *rc::gen::element(RestartMode::kNo, RestartMode::kAlways)};
        return update;
      }
      case 4:
        return WriteLogNote{"a note"};
      case 5:
      case 6:
        return SendSignalTo{signal, *rc::gen::arbitrary<bool>()};
      default:
        return SetClockPaused{*rc::gen::arbitrary<bool>()};
    }
  }

  // --- The child and its processes ---

  void GoOnWithChild(bool well) {
    if (way_ == Way::kForked) {
      if (well && !full_) Write(RunStarted{launching_, {static_cast<pid_t>(launching_), 1}, {}});
      way_ = well && !full_ ? Way::kRecorded : Way::kFailed;
    } else if (way_ == Way::kRecorded) {
      way_ = well ? Way::kExecuted : Way::kRefused;
      main_lives_ = well;
    }
  }

  void EndMain(const MainEnd& end) {
    if (!main_lives_) return;
    main_lives_ = false;
    end_ = end;
  }

  void KillAll() {
    EndMain({EndKind::kSignalled, SIGKILL, false, {}});
    others_ = false;
    if (way_ == Way::kForked || way_ == Way::kRecorded) {
      recorded_before_death_ = way_ == Way::kRecorded;
      way_ = Way::kKilled;
    }
  }

  // --- The supervisor ---

  void StartKeeper() {
    if (machine_ || Summarize(disk_).job_ended) return;
    const auto history = Summarize(StillNeeded(disk_, *rc::gen::inRange<std::uint64_t>(0, disk_.size() + 1)));
    machine_.emplace(spec_);
    for (const auto& text : history.settings) machine_->ApplySettings(ParseSettings(text).value());
    Perform(machine_->Begin(history, true, now_));
    EndTurn();
  }

  void ReadReport() {
    if (!machine_ || way_ == Way::kNone || way_ == Way::kForked || way_ == Way::kRecorded) return;
    const Way way = std::exchange(way_, Way::kNone);
    const bool started = way == Way::kExecuted || (way == Way::kKilled && recorded_before_death_);
    if (started) {
      if (way == Way::kKilled) end_ = MainEnd{EndKind::kSignalled, SIGKILL, false, {}};
      knows_main_ = true;
      Perform(machine_->OnLaunched({launching_, {static_cast<pid_t>(launching_), 1}, {}}, now_));
    } else {
      Perform(machine_->OnLaunchFailed({launching_, way == Way::kKilled ? "killed" : "exec", 2, "no"}, now_));
    }
  }

  void Reap() {
    if (!machine_) return;
    if (knows_main_ && end_) {
      knows_main_ = false;
      Perform(machine_->OnMainEnded(*std::exchange(end_, std::nullopt), !others_, now_));
    } else if (!knows_main_ && way_ == Way::kNone && !others_) {
      Perform(machine_->OnTreeEmpty(now_));
    }
  }

  void Flush() {
    if (full_ || way_ != Way::kNone) return;
    for (auto& body : std::exchange(queue_, {})) Write(std::move(body));
  }
  void Write(RecordBody body) { disk_.push_back({disk_.size() + 1, {}, {}, std::move(body)}); }

  // Replies once the orders are on disk; then performs the launch that was decided on.
  void EndTurn() {
    if (!machine_) return;
    Flush();
    while (queue_.empty()) {
      for (auto& order : orders_) order.answered = true;
      if (leaving_) return Leave();
      if (!to_launch_) return;
      launching_ = *std::exchange(to_launch_, std::nullopt);
      if (!machine_->stop_ordered()) return Fork();
      Perform(machine_->OnLaunchFailed({launching_, "stopped", 0, "no"}, now_));
      Flush();
    }
  }

  void Fork() {
    RC_LOG() << "  forks " << launching_ << "\n";
    way_ = Way::kForked;
    ++forks_;
    RC_ASSERT(!leaving_);
    RC_ASSERT(!Summarize(disk_).stop);
    RC_ASSERT(!no_more_);
  }

  void Perform(const Actions& actions) {
    for (const auto& one : actions) {
      if (const auto* launch = std::get_if<action::Launch>(&one)) {
        to_launch_ = launch->run;
        ForgetRun();
      }
      if (const auto* append = std::get_if<action::Append>(&one)) Append(append->body);
      if (const auto* order = std::get_if<action::SignalMain>(&one)) got_.insert({order->signal, false});
      if (const auto* order = std::get_if<action::SignalTree>(&one)) {
        Flush();
        got_.insert({order->signal, true});
        if (obeys_ && order->signal == SIGTERM) EndMain({EndKind::kSignalled, SIGTERM, false, {}});
        if (obeys_ && order->signal == SIGTERM) others_ = false;
      }
      if (std::holds_alternative<action::KillTree>(one)) {
        Flush();
        KillAll();
      }
      if (std::holds_alternative<action::Leave>(one)) leaving_ = true;
    }
  }

  void Append(const RecordBody& body) {
    if (const auto* ended = std::get_if<RunEnded>(&body); ended && !announced_.empty()) {
      RC_ASSERT(ended->ordered.has_value());
      RC_ASSERT(ended->ordered->word == announced_);
    }
    const bool over = std::holds_alternative<RunEnded>(body) || std::holds_alternative<StartFailed>(body);
    if (over) {
      no_more_ = final_;
      ForgetRun();
    }
    if (std::holds_alternative<RestartScheduled>(body)) RC_ASSERT(!no_more_);
    RC_LOG() << "  writes " << SerializeRecord({0, {}, {}, body}) << "\n";
    queue_.push_back(body);
  }

  // Promises that concern a run end with it.
  void ForgetRun() {
    announced_.clear();
    final_ = false;
    paused_ = false;
    asked_.clear();
    got_.clear();
  }

  void Leave() {
    machine_.reset();
    Lose();
  }
  void KillKeeper() {
    if (!machine_) return;
    machine_.reset();
    no_more_ = false;
    std::erase_if(orders_, [](const Order& order) { return !order.answered; });
    Lose();
  }
  // The command dies with its keeper, and the next keeper ends the processes that are left.
  void Lose() {
    KillAll();
    way_ = Way::kNone;
    knows_main_ = leaving_ = recorded_before_death_ = false;
    end_.reset();
    to_launch_.reset();
    queue_.clear();
    ForgetRun();
  }

  // --- The client ---

  void Give(const Command& command) {
    if (!machine_) return;
    const Order order{command, forks_, false};
    const KeeperPhase before = machine_->phase();
    // The request is noted first: it may be over before OnCommand's actions are all performed.
    auto actions = machine_->OnCommand(command, now_);
    if (!actions) {
      RC_ASSERT(actions.error().code == base::ErrorCode::kConflict);
      RC_ASSERT(machine_->phase() == before);
      return;
    }
    RC_LOG() << "  accepted " << SerializeMessage(NumberedCommand{0, command}) << " in "
             << base::WordOf(WordsOf(before), before) << "\n";
    orders_.push_back(order);
    if (const auto* pause = std::get_if<SetClockPaused>(&command)) paused_ = pause->paused;
    if (const auto* signal = std::get_if<SendSignalTo>(&command))
      asked_.insert({signal->signal, signal->tree});
    if (const auto* reason = std::get_if<SetEndReason>(&command)) {
      announced_ = reason->reason.word;
      final_ = reason->final && !announced_.empty();
    }
    if (std::holds_alternative<RestartJob>(command)) final_ = no_more_ = false;
    Perform(*actions);
  }

  // Checks, after each step, a run that the keeper knows to have started.
  void Check() {
    if (!machine_) return;
    const KeeperPhase phase = machine_->phase();
    if (phase == KeeperPhase::kStopping) RC_ASSERT(machine_->deadline().has_value());
    if (phase != KeeperPhase::kRunning && phase != KeeperPhase::kStopping && phase != KeeperPhase::kLeftovers)
      return;
    if (phase == KeeperPhase::kRunning || phase == KeeperPhase::kStopping)
      for (const auto& signal : asked_) RC_ASSERT(got_.contains(signal));
    if (knows_main_) RC_ASSERT(ClockInJournal() == paused_);
  }

  bool ClockInJournal() const {
    bool paused = false;
    const auto read = [&](const RecordBody& body) {
      if (const auto* clock = std::get_if<ClockPauseChanged>(&body)) paused = clock->paused;
      if (std::holds_alternative<RunStarted>(body)) paused = false;
    };
    for (const auto& record : disk_) read(record.body);
    for (const auto& body : queue_) read(body);
    return paused;
  }

  // Brings everything under way to its end, and starts the keepers that are needed, as a daemon does.
  void Settle() {
    full_ = false;
    for (int round = 0; round < 12; ++round) {
      StartKeeper();
      GoOnWithChild(true);
      GoOnWithChild(true);
      ReadReport();
      Reap();
      EndTurn();
      now_ += milliseconds(70'000);
      if (machine_) Perform(machine_->OnTime(now_));
      if (machine_ && machine_->phase() == KeeperPhase::kLeftovers) others_ = false;
      Reap();
      EndTurn();
      Check();
    }
    const auto history = Summarize(disk_);
    for (const auto& order : orders_) {
      if (!order.answered) continue;
      if (std::holds_alternative<StopJob>(order.command)) RC_ASSERT(history.job_ended.has_value());
      if (std::holds_alternative<RestartJob>(order.command) && !history.stop) RC_ASSERT(forks_ > order.forks);
      if (const auto* update = std::get_if<UpdateSettings>(&order.command))
        RC_ASSERT(std::count(history.settings.begin(), history.settings.end(), SerializeSettings(*update)) >
                  0);
    }
  }

  Spec spec_;
  bool obeys_ = true;  // the job's processes end at a SIGTERM
  base::MonoTime now_{milliseconds(1'000'000)};
  std::vector<JournalRecord> disk_;
  bool full_ = false;

  std::optional<RunStateMachine> machine_;  // empty: no keeper lives
  std::vector<RecordBody> queue_;           // waits for the disk
  std::optional<RunNumber> to_launch_;
  bool leaving_ = false;

  Way way_ = Way::kNone;
  RunNumber launching_ = 0;
  int forks_ = 0;
  bool recorded_before_death_ = false;
  bool knows_main_ = false;  // whether the keeper knows main
  bool main_lives_ = false;
  bool others_ = false;
  std::optional<MainEnd> end_;  // of a process that is not reaped yet

  std::vector<Order> orders_;  // orders that were accepted
  std::string announced_;      // for the current run, as are the next three
  bool final_ = false;
  bool paused_ = false;
  std::set<std::pair<int, bool>> asked_, got_;  // signals, and whether for the whole tree
  bool no_more_ = false;                        // no more runs, as the last run's announcement said
};

TEST(RunStateMachineProperty, EveryOrderIsCarriedOutKeptOrRefused) {
  for (int round = 0; round < 10; ++round)  // of a hundred worlds each
    EXPECT_TRUE(rc::check("an order that was answered holds, whatever happened", [] { World().Run(); }));
}

}  // namespace
}  // namespace gpuman::keeper
