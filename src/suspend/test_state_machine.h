// For tests of the state machine: a job of made-up processes, and the machine's actions as words.
//
//   "secure 11"  "secure 11 b"  "load 11" (on a)  "load 11 b" (with by_hand; else the mover does it at once)
//   "rest" (with rests_by_hand; else all with a shim are held at once)  "cancel rest"
//   "evict 11"  "fetch 11"  "return 11"
//   "moved b"  "can?"  "state? 11"  "checkpoint 11"  "restore 11"  "restore 11 a>b b>a"
//   "= suspended held_by_user" (state and reason)  "! job_suspended" (event)
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "suspend/state_machine.h"

namespace gpuman::suspend {

using base::GiB;
using base::MiB;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

inline std::string WordOf(const Action& action) {
  struct Say {
    std::string operator()(const action::QuiesceJob&) const { return "rest"; }
    std::string operator()(const action::CancelQuiesce&) const { return "cancel rest"; }
    std::string operator()(const action::OrderEvict& a) const {
      return fmt::format("evict {}", a.process.pid);
    }
    std::string operator()(const action::OrderFetchToGpu& a) const {
      return fmt::format("fetch {}", a.process.pid);
    }
    std::string operator()(const action::OrderRestore& a) const {
      return fmt::format("return {}", a.process.pid);
    }
    std::string operator()(const action::AskCan&) const { return "can?"; }
    std::string operator()(const action::AskState& a) const {
      return fmt::format("state? {}", a.process.pid);
    }
    std::string operator()(const action::Checkpoint& a) const {
      return fmt::format("checkpoint {}", a.process.pid);
    }
    std::string operator()(const action::RestoreCheckpoint& a) const {
      std::string text = fmt::format("restore {}", a.process.pid);
      for (const auto& move : a.gpus) text += fmt::format(" {}>{}", move.from, move.to);
      return text;
    }
    std::string operator()(const action::CopyToHost& a) const {
      return fmt::format("secure {}{}{}", a.process.pid, a.target.empty() ? "" : " ", a.target);
    }
    std::string operator()(const action::CopyToGpu& a) const {
      return fmt::format("load {}{}", a.process.pid, a.gpu.empty() || a.gpu == "a" ? "" : " " + a.gpu);
    }
    std::string operator()(const action::Moved& a) const { return "moved " + a.gpu; }
    std::string operator()(const action::SetState& a) const {
      return fmt::format("= {}{}{}", ToString(a.phase), a.reason.empty() ? "" : " ", a.reason);
    }
    std::string operator()(const action::Emit& a) const { return "! " + a.kind; }
  };
  return std::visit(Say{}, action);
}

class Story {
 public:
  explicit Story(SuspensionSettings settings = {}) : machine(settings) {}

  // A process started later has a bigger number. `evictable` of `used` is what its shim could evict.
  ObservedProcess& Process(pid_t pid, base::Bytes used, std::optional<base::Bytes> evictable = std::nullopt,
                           const std::string& gpu = "a") {
    ObservedProcess view;
    view.id = IdOf(pid);
    view.has_shim = evictable.has_value();
    view.eviction = view.has_shim ? EvictionProgress::kOnGpu : EvictionProgress::kNone;
    view.gpus[gpu] = {used, evictable.value_or(base::Bytes{}), {}};
    processes.push_back(view);
    return processes.back();
  }
  static base::ProcessId IdOf(pid_t pid) { return {pid, static_cast<std::uint64_t>(pid) * 100}; }
  ObservedProcess& At(pid_t pid) {
    return *std::find_if(processes.begin(), processes.end(),
                         [&](const auto& one) { return one.id.pid == pid; });
  }

  Words Feed(const Event& event) {
    Words words;
    for (const Action& action : machine.On(event, now)) {
      if (const auto* evict = std::get_if<action::OrderEvict>(&action))
        At(evict->process.pid).answered = false;
      if (const auto* fetch = std::get_if<action::OrderFetchToGpu>(&action))
        At(fetch->process.pid).answered = At(fetch->process.pid).held = false;
      if (const auto* come = std::get_if<action::OrderRestore>(&action))
        At(come->process.pid).answered = At(come->process.pid).held = false;
      if (std::get_if<action::QuiesceJob>(&action) && !rests_by_hand) {
        resting_ = true;
        continue;
      }
      const auto* secure = std::get_if<action::CopyToHost>(&action);
      const auto* load = std::get_if<action::CopyToGpu>(&action);
      if (by_hand || (!secure && !load))
        words.push_back(WordOf(action));
      else
        moved_.push_back(
            secure ? event::MoverAnswered{secure->process, Verb::kSecure, {.outcome = MoverOutcome::kDone}}
                   : event::MoverAnswered{load->process, Verb::kLoad, {.outcome = MoverOutcome::kDone}});
    }
    if (std::exchange(resting_, false)) {
      const Words more = Rested();
      words.insert(words.end(), more.begin(), more.end());
    }
    while (!moved_.empty()) {
      const event::MoverAnswered next = moved_.front();
      moved_.erase(moved_.begin());
      const Words more = Feed(next);
      words.insert(words.end(), more.begin(), more.end());
    }
    return words;
  }
  Words MoverAnswered(pid_t pid, Verb verb, MoverOutcome outcome = MoverOutcome::kDone) {
    return Feed(event::MoverAnswered{IdOf(pid), verb, {.outcome = outcome, .message = "it said so"}});
  }
  // The memory stays on the GPU that the process left, and goes straight to the other GPU.
  Words Straight(pid_t pid, Verb verb) {
    return Feed(event::MoverAnswered{
        IdOf(pid), verb, {.outcome = MoverOutcome::kDone, .bytes = GiB(9), .straight = true}});
  }
  Words Observe() { return Feed(event::Observed{processes, gpus}); }
  Words Suspend() { return Feed(event::SuspendAsked{"held_by_user", "by me"}); }
  Words Resume(std::optional<std::string> gpu = {}) { return Feed(event::ResumeAsked{std::move(gpu)}); }
  Words Move(const std::string& gpu) { return Feed(event::MoveAsked{gpu}); }
  Words Can(bool can) {
    return Feed(event::DriverAnswered{
        {},
        can ? MoverAnswer{.outcome = MoverOutcome::kDone}
            : MoverAnswer{.outcome = MoverOutcome::kUnsupported, .message = "old driver"}});
  }
  Words Says(pid_t pid, MoverOutcome outcome, DriverState state) {
    if (outcome == MoverOutcome::kDone) OnDevice(At(pid), state != DriverState::kCheckpointed);
    return Feed(
        event::DriverAnswered{IdOf(pid), {.outcome = outcome, .state = state, .message = "it said so"}});
  }
  Words Checkpointed(pid_t pid) { return Says(pid, MoverOutcome::kDone, DriverState::kCheckpointed); }
  Words Restored(pid_t pid) { return Says(pid, MoverOutcome::kDone, DriverState::kRunning); }
  Words Room(base::Bytes free, bool chosen = true, const std::string& gpu = "a") {
    return Feed(event::RoomAvailable{{{gpu, free}}, chosen});
  }
  Words Evicted(pid_t pid) {
    for (auto& [gpu, share] : At(pid).gpus)
      share = {share.used - share.evictable, {}, share.evicted + share.evictable};
    return Shim(pid, EvictionProgress::kEvicted);
  }
  // Its memory is on the GPU, and its gate is closed.
  Words Fetched(pid_t pid) {
    At(pid).held = true;
    return MemoryRestored(pid);
  }
  Words MemoryRestored(pid_t pid) {
    for (auto& [gpu, share] : At(pid).gpus) share = {share.used + share.evicted, share.evicted, {}};
    return Shim(pid, EvictionProgress::kOnGpu);
  }
  Words Shim(pid_t pid, EvictionProgress eviction, const std::string& error = {}) {
    At(pid).eviction = eviction;
    At(pid).answered = true;
    At(pid).error = error;
    return Observe();
  }
  // All processes that a shim can hold are at rest.
  Words Rested() {
    for (auto& view : processes)
      if (view.has_shim && view.eviction != EvictionProgress::kNone) view.held = view.answered = true;
    const Words words = Observe();
    EXPECT_THAT(words, IsEmpty()) << "before it is told";
    return Feed(event::JobQuiesced{});
  }
  Words NotRested(const std::string& why) { return Feed(event::QuiesceFailed{why}); }
  Words Dies(pid_t pid) {
    std::erase_if(processes, [&](const auto& one) { return one.id.pid == pid; });
    return Observe();
  }
  // Lets the time pass until the state machine's deadline.
  Words Wait() {
    const auto deadline = machine.Deadline();
    EXPECT_TRUE(deadline) << "nothing to wait for";
    if (!deadline) return {};
    EXPECT_GT(*deadline, now) << "it would wake up without end";
    now = *deadline;
    return Feed(event::Tick{});
  }
  const std::string& Detail() const { return machine.record().detail; }

  SuspensionStateMachine machine;
  bool by_hand = false, rests_by_hand = false;
  std::vector<ObservedProcess> processes;
  std::vector<ObservedGpu> gpus{{"a", "NVIDIA H200"}, {"b", "NVIDIA H200"}, {"c", "NVIDIA A100"}};
  base::MonoTime now{std::chrono::hours(1)};

 private:
  // The driver does not list a checkpointed process.
  void OnDevice(ObservedProcess& view, bool on) {
    if (!on)
      for (auto& [gpu, share] : view.gpus) parked_[view.id][gpu] = std::exchange(share.used, {});
    else
      for (auto& [gpu, bytes] : std::exchange(parked_[view.id], {})) view.gpus[gpu].used = bytes;
  }
  std::map<base::ProcessId, BytesByGpu> parked_;
  std::vector<event::MoverAnswered> moved_;
  bool resting_ = false;
};

}  // namespace gpuman::suspend
