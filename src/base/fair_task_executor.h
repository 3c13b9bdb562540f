// Tasks of many users for a few threads. Users take turns, and a user has at most a fixed number of tasks
// under way. So a user waits for at most one task of each other user, however many tasks the others have. The
// tasks of a user that wait have a bound as well, so that they do not fill the memory. A task that nobody
// wants any more, because its client has gone, is dropped.
//
// Lives on the event loop; not thread-safe. The destructor drops the tasks that wait. Tasks under way
// continue, but their `then` is not called any more.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/executor.h"
#include "base/round_robin_queue.h"

namespace gpuman::base {

// The user of a task for which all users wait together.
inline constexpr uid_t kEveryUser = static_cast<uid_t>(-1);

class FairTaskExecutor {
 public:
  struct Task {
    std::function<void()> work;     // on a thread
    std::function<void()> then{};   // on the loop, once `work` is done
    std::function<void()> begin{};  // on the loop, when its turn has come: makes what `work` needs
    // On the loop, any time before `begin`: true from when nobody wants the task. It is dropped then, unless
    // it is under way. Call nothing in there.
    std::function<bool()> is_cancelled{};
  };
  struct Bounds {
    std::size_t of_all = 1;  // tasks under way
    std::size_t of_user = 1;
    std::size_t waiting_of_user = SIZE_MAX;  // for AddIfRoom
  };

  // `to_threads` calls its argument on a thread, `to_loop` on the loop.
  FairTaskExecutor(Executor to_threads, Executor to_loop, Bounds bounds)
      : to_threads_(std::move(to_threads)), to_loop_(std::move(to_loop)), bounds_(bounds) {}
  ~FairTaskExecutor() { *self_ = nullptr; }
  FairTaskExecutor(const FairTaskExecutor&) = delete;
  FairTaskExecutor& operator=(const FairTaskExecutor&) = delete;

  // The user is the party for which the task counts. A task whose turn has come begins within this call. All
  // parts of a task are destroyed on the loop. Add takes any number of tasks: what has to be done, and what
  // others bound.
  void Add(Party user, Task task);
  // False: as many tasks of the user wait as may wait, and this one is dropped.
  [[nodiscard]] bool AddIfRoom(Party user, Task task);

 private:
  struct User {
    std::deque<Task> waiting{};
    std::size_t under_way = 0;
    bool in_order = false;
  };
  void PutInOrder(Party uid, User& user);
  // What a dropped task owns may call this object when it is destroyed, so `dropped` has it until this object
  // is in order again.
  static void MoveCancelled(std::deque<Task>& waiting, std::vector<Task>& dropped);
  static std::optional<Task> Next(std::deque<Task>& waiting, std::vector<Task>& dropped);
  void Start();
  void Finish(Party uid);

  Executor to_threads_, to_loop_;
  const Bounds bounds_;
  std::map<Party, User> users_;  // users who have a task
  std::deque<Party> order_;      // users who may begin a task, each once
  std::size_t under_way_ = 0;
  // A posted function that outlives this object finds nullptr here.
  std::shared_ptr<FairTaskExecutor*> self_ = std::make_shared<FairTaskExecutor*>(this);
};

}  // namespace gpuman::base
