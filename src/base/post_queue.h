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

namespace gpuman::base {

class PostQueue {
 public:
  using Call = std::function<void()>;
  using Post = std::function<void(Call)>;
  static constexpr std::chrono::microseconds kTurn{2'000};

  // `post` may be called from any thread. It calls its argument later, on the loop, after everything that
  // waits there.
  explicit PostQueue(Post post, std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>());
  void Add(Call call);

 private:
  struct Queue {
    Post post;
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
