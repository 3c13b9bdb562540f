// Which of several users may make the driver's checkpoint calls. Pure: the time is an argument.
//
// As long as calls are quick, there is one call at a time on the machine: that call has the turn. A call that
// is not over after `alone` goes on, and the other users do not wait for it any more. After that, they do not
// wait for any call of that user, until for `remembered` no call of that user has taken so long. So a user
// whose mover or process does not move on makes the others wait once, for `alone`. The driver carries out
// calls for different processes at the same time (docs/suspend.md has the measurements); one user still has
// one call at a time.
//
// Users take turns: the user served longest ago is next, however many calls another user has waiting. Of one
// user's calls those that bring a process back go first, since somebody waits for them: for each of them
// there was a checkpoint before, so the others wait for a bounded time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "suspend/mover_options.h"

namespace gpuman::suspend {

struct CheckpointQueueSettings {
  base::Millis alone{500};
  base::Millis remembered{600'000};
};

// Thread-compatible.
class CheckpointQueue {
 public:
  explicit CheckpointQueue(CheckpointQueueSettings settings) : settings_(settings) {}

  enum class Call { kRestores, kOther };

  // The party's mover is ready to make a call. The caller chooses the ids, each used once.
  void Ask(const MoverLimitGroup& party, std::uint64_t id, Call call = Call::kOther);
  // The call has an answer, or will never have one. Does nothing for an unknown id.
  void End(std::uint64_t id, base::MonoTime now);

  // The calls to make now. Call it after each Ask and End, and at the Deadline.
  std::vector<std::uint64_t> Begin(base::MonoTime now);
  // When the other users stop waiting for the call that has the turn; nullopt: no user waits for a call.
  std::optional<base::MonoTime> Deadline() const;

 private:
  struct Queue {
    std::deque<std::uint64_t> waiting;  // in the order in which they begin
    std::size_t restores_waiting = 0;   // so many of them, the first ones, restore a process
    std::optional<std::uint64_t> at_work;
    base::MonoTime since{};       // of the call in progress
    base::MonoTime slow_until{};  // until then no other party waits for this one
    std::uint64_t served = 0;     // when it was served last, by `served_`
  };
  static bool Withdraw(Queue& queue, std::uint64_t id);
  Queue* Next(const MoverLimitGroup*& party);
  void Overstay(Queue& queue, base::MonoTime now);

  const CheckpointQueueSettings settings_;
  std::map<MoverLimitGroup, Queue> queues_;
  std::optional<MoverLimitGroup> holder_;  // the party that has the turn
  std::uint64_t served_ = 0;
};

// How long the daemon waits before it starts a user's mover again after `deaths` movers in a row ended before
// they did anything.
base::Millis RestartDelay(int deaths);

}  // namespace gpuman::suspend
