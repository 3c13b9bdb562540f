// Who may make the driver's checkpoint calls, of several users who want to. Pure: the time is an argument.
//
// One call at a time on the machine, as long as calls are quick: that is the turn. A call that is not over
// after `alone` goes on, and nobody waits for it any more; calls of that user are then not waited for at all,
// until none of them took so long for `remembered`. So a user whose mover or whose process stands still keeps
// others waiting once, for `alone`. The driver carries calls for different processes out at the same time
// (docs/suspend.md has what was measured); of one user there is one call at a time all the same.
//
// Users take turns: who was served longest ago is next, however many calls another one has waiting.
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

struct TurnSettings {
  base::Millis alone{500};
  base::Millis remembered{600'000};
};

// Thread-compatible.
class Turns {
 public:
  explicit Turns(TurnSettings settings) : settings_(settings) {}

  // A call that the party's mover is ready to make. Ids are the caller's, each used once.
  void Ask(const Party& party, std::uint64_t id);
  // It has an answer, or none will come. Nothing for an id that is not known.
  void End(std::uint64_t id, base::MonoTime now);

  // Calls that are to be made now. To be asked again after each Ask and End, and at the Deadline.
  std::vector<std::uint64_t> Begin(base::MonoTime now);
  // When others stop waiting for the call that has the turn; nullopt: nobody waits for one.
  std::optional<base::MonoTime> Deadline() const;

 private:
  struct Queue {
    std::deque<std::uint64_t> waiting;
    std::optional<std::uint64_t> at_work;
    base::MonoTime since{};       // of the call at work
    base::MonoTime slow_until{};  // until then nobody waits for this party
    std::uint64_t served = 0;     // when last, by `served_`
  };
  Queue* Next(const Party*& party);
  void Overstay(Queue& queue, base::MonoTime now);

  const TurnSettings settings_;
  std::map<Party, Queue> queues_;
  std::optional<Party> holder_;  // of the turn
  std::uint64_t served_ = 0;
};

// How long a user's mover is not started again, after so many have ended before they did anything.
base::Millis RestartDelay(int deaths);

}  // namespace gpuman::suspend
