// Functions for an event loop. The loop calls them in the order in which they came, for a limited time at
// once. So however many functions come together, all other work on the loop waits for one such time only.
//
// Thread-safe. Queued functions are called even after this object is gone, as functions posted directly are.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/executor.h"

namespace gpuman::base {

class PostQueue {
 public:
  using Call = std::function<void()>;
  static constexpr std::chrono::microseconds kTurn{2'000};

  // `to_loop` calls its argument on the loop, after everything that waits there.
  explicit PostQueue(Executor to_loop, std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>());
  void Add(Call call);

 private:
  struct Queue {
    Executor to_loop;
    std::shared_ptr<const Clock> clock;
    std::mutex mutex;
    std::deque<Call> calls;
    bool posted = false;  // a handler is on the loop
  };
  static void PostSome(const std::shared_ptr<Queue>& queue);
  static void CallSome(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with what is posted
};

}  // namespace gpuman::base
