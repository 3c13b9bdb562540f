// Answers requests in rounds: those that come while a round is under way wait, and the next round answers all
// of them. So however many ask, there is one round at a time and one to come, and a request waits for at most
// two. No request shares a round that began before it came, since that round may not see what the request is
// to see.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/waiting_requests.h"
#include "base/weak_self.h"

namespace gpuman::base {

// `Request`: see WaitingRequests.
template <typename Request>
class RequestBatcher {
 public:
  using Batch = std::vector<Request>;  // at least one
  // Answers the requests and then calls `done`, once, at any time.
  using Answer = std::function<void(Batch batch, std::function<void()> done)>;

  explicit RequestBatcher(Answer answer) : answer_(std::move(answer)) {}
  RequestBatcher(const RequestBatcher&) = delete;
  RequestBatcher& operator=(const RequestBatcher&) = delete;

  void Add(Request request) {
    waiting_.Add(std::move(request));
    if (!under_way_) Begin();
  }

 private:
  void Begin() {
    auto batch = waiting_.TakeAll();
    if (batch.empty()) return;
    under_way_ = true;
    answer_(std::move(batch), self_.Bind([](RequestBatcher& me) {
      me.under_way_ = false;
      me.Begin();
    }));
  }

  const Answer answer_;
  WaitingRequests<Request> waiting_;
  bool under_way_ = false;
  WeakSelf<RequestBatcher> self_{this};
};

}  // namespace gpuman::base
