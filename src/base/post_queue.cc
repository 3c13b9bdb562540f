#include "base/post_queue.h"

#include <utility>

namespace gpuman::base {

PostQueue::PostQueue(Executor to_loop, std::shared_ptr<const Clock> clock)
    : queue_(std::make_shared<Queue>()) {
  queue_->to_loop = std::move(to_loop);
  queue_->clock = std::move(clock);
}

void PostQueue::Add(Call call) {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->calls.push_back(std::move(call));
    if (std::exchange(queue_->posted, true)) return;
  }
  PostSome(queue_);
}

void PostQueue::PostSome(const std::shared_ptr<Queue>& queue) {
  queue->to_loop([queue] { CallSome(queue); });
}

void PostQueue::CallSome(const std::shared_ptr<Queue>& queue) {
  const MonoTime end = queue->clock->Mono() + kTurn;
  do {
    Call call;
    {
      const std::lock_guard lock(queue->mutex);
      if (queue->calls.empty()) {
        queue->posted = false;
        return;
      }
      call = std::move(queue->calls.front());
      queue->calls.pop_front();
    }
    call();  // it may add more
  } while (queue->clock->Mono() < end);
  PostSome(queue);
}

}  // namespace gpuman::base
