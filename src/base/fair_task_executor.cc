#include "base/fair_task_executor.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace gpuman::base {

void FairTaskExecutor::Add(Party uid, Task task) {
  std::vector<Task> dropped;
  User& user = users_[uid];
  if (user.waiting.size() >= bounds_.waiting_of_user) MoveCancelled(user.waiting, dropped);
  user.waiting.push_back(std::move(task));
  PutInOrder(uid, user);
  Start();
}

bool FairTaskExecutor::AddIfRoom(Party uid, Task task) {
  std::vector<Task> dropped;
  if (const auto it = users_.find(uid); it != users_.end()) {
    auto& waiting = it->second.waiting;
    if (waiting.size() >= bounds_.waiting_of_user) MoveCancelled(waiting, dropped);
    if (waiting.size() >= bounds_.waiting_of_user) return false;
  }
  Add(uid, std::move(task));
  return true;
}

void FairTaskExecutor::MoveCancelled(std::deque<Task>& waiting, std::vector<Task>& dropped) {
  const auto is_wanted = [](const Task& task) { return !task.is_cancelled || !task.is_cancelled(); };
  const auto end = std::stable_partition(waiting.begin(), waiting.end(), is_wanted);
  std::move(end, waiting.end(), std::back_inserter(dropped));
  waiting.erase(end, waiting.end());
}

std::optional<FairTaskExecutor::Task> FairTaskExecutor::Next(std::deque<Task>& waiting,
                                                             std::vector<Task>& dropped) {
  while (!waiting.empty()) {
    Task task = std::move(waiting.front());
    waiting.pop_front();
    if (!task.is_cancelled || !task.is_cancelled()) return task;
    dropped.push_back(std::move(task));
  }
  return std::nullopt;
}

void FairTaskExecutor::PutInOrder(Party uid, User& user) {
  if (user.in_order || user.waiting.empty() || user.under_way >= bounds_.of_user) return;
  user.in_order = true;
  order_.push_back(uid);
}

void FairTaskExecutor::Start() {
  std::vector<Task> dropped;
  while (under_way_ < bounds_.of_all && !order_.empty()) {
    const Party uid = order_.front();
    order_.pop_front();
    User& user = users_.at(uid);
    user.in_order = false;
    auto next = Next(user.waiting, dropped);
    if (!next) {
      if (user.under_way == 0) users_.erase(uid);
      continue;
    }
    Task task = std::move(*next);
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
