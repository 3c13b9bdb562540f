#include "base/sliced_work.h"

#include <memory>
#include <utility>

namespace gpuman::base {

void SlicedWork::Add(Party who, Slice slice) {
  work_[who].push_back(std::move(slice));
  PostNext();
}

void SlicedWork::ForEach(Party who, std::size_t count, std::function<void(std::size_t)> act,
                         std::function<void()> then) {
  if (count <= kMaxAtOnce) {
    for (std::size_t i = 0; i < count; ++i) act(i);
    return then();
  }
  const auto next = std::make_shared<std::size_t>(0);
  Add(who, [next, count, act = std::move(act), then = std::move(then)](const TimeSlice& turn) {
    for (; *next < count; ++*next) {
      if (turn.IsOver()) return true;
      act(*next);
    }
    then();
    return false;
  });
}

void SlicedWork::PostNext() {
  if (std::exchange(posted_, true)) return;
  to_loop_(self_.Bind([](SlicedWork& me) { me.DoOne(); }));
}

void SlicedWork::DoOne() {
  posted_ = false;
  auto mine = work_.upper_bound(last_);
  if (mine == work_.end()) mine = work_.begin();
  last_ = mine->first;
  Slice slice = std::move(mine->second.front());
  mine->second.pop_front();
  if (mine->second.empty()) work_.erase(mine);
  // The slice may add work.
  const bool more = slice(TimeSlice(clock_, clock_.Mono() + kTurn));
  if (more) work_[last_].push_back(std::move(slice));
  if (!work_.empty()) PostNext();
}

}  // namespace gpuman::base
