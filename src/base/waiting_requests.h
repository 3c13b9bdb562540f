// Requests that wait for something. A client may ask, leave and ask again without end; its requests are
// dropped then, so that the list is never much longer than the number of clients that are there.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gpuman::base {

// `Request` has a function `is_cancelled` that returns true from when nobody waits for the request any more,
// or is empty. It must not change the list.
template <typename Request>
bool IsCancelled(const Request& request) {
  return request.is_cancelled && request.is_cancelled();
}

template <typename Request>
class WaitingRequests {
 public:
  void Add(Request request) {
    requests_.push_back(std::move(request));
    if (requests_.size() < look_at_) return;
    auto waiting = TakeAll();
    look_at_ = std::max(kLeast, 2 * waiting.size());
    requests_ = std::move(waiting);
  }
  bool empty() const { return requests_.empty(); }
  std::size_t size() const { return requests_.size(); }
  // Returns those that are still waited for, in the order in which they came.
  std::vector<Request> TakeAll() {
    auto all = std::exchange(requests_, {});
    std::erase_if(all, IsCancelled<Request>);
    return all;
  }

 private:
  static constexpr std::size_t kLeast = 256;

  std::vector<Request> requests_;
  std::size_t look_at_ = kLeast;  // the size at which the next Add looks for cancelled ones
};

}  // namespace gpuman::base
