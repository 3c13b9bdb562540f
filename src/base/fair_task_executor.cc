#include "base/fair_task_executor.h"

#include <utility>

namespace gpuman::base {

void FairTaskExecutor::Add(Party uid, Task task) {
  User& user = users_[uid];
  user.waiting.push_back(std::move(task));
  PutInOrder(uid, user);
  Start();
}

void FairTaskExecutor::PutInOrder(Party uid, User& user) {
  if (user.in_order || user.waiting.empty() || user.under_way >= bounds_.of_user) return;
  user.in_order = true;
  order_.push_back(uid);
}

void FairTaskExecutor::Start() {
  while (under_way_ < bounds_.of_all && !order_.empty()) {
    const Party uid = order_.front();
    order_.pop_front();
    User& user = users_.at(uid);
    user.in_order = false;
    Task task = std::move(user.waiting.front());
    user.waiting.pop_front();
    ++user.under_way;
    ++under_way_;
    PutInOrder(uid, user);
    if (task.begin) task.begin();
    to_threads_([to_loop = to_loop_, self = self_, uid, task = std::move(task)]() mutable {
      task.work();
      to_loop([self = std::move(self), uid, task = std::move(task)] {
        if (!*self) return;
        (*self)->Finish(uid);
        if (task.then) task.then();
      });
    });
  }
}

void FairTaskExecutor::Finish(Party uid) {
  --under_way_;
  const auto it = users_.find(uid);
  --it->second.under_way;
  if (it->second.waiting.empty() && it->second.under_way == 0)
    users_.erase(it);
  else
    PutInOrder(uid, it->second);
  Start();
}

}  // namespace gpuman::base
