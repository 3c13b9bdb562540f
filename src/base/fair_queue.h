// Tasks of many users for a few threads: users take turns, and no user has more than so many tasks under way,
// so that nobody waits for more than one task of each of the others, however many those have.
//
// Lives on the event loop; not thread-safe. The destructor drops what waits. What is under way goes on, and
// nobody is told of it any more.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>

namespace gpuman::base {

// Whose a task is that users wait for together.
inline constexpr uid_t kEveryUser = static_cast<uid_t>(-1);

class FairQueue {
 public:
  using Post = std::function<void(std::function<void()>)>;
  struct Task {
    std::function<void()> work;     // on a thread
    std::function<void()> then{};   // on the loop, once `work` is done
    std::function<void()> begin{};  // on the loop, when its turn has come: makes what `work` needs
  };
  struct Bounds {
    std::size_t of_all = 1;  // tasks under way
    std::size_t of_user = 1;
  };

  // `to_threads` and `to_loop` call what they get later: on a thread, and on the loop.
  FairQueue(Post to_threads, Post to_loop, Bounds bounds)
      : to_threads_(std::move(to_threads)), to_loop_(std::move(to_loop)), bounds_(bounds) {}
  ~FairQueue() { *self_ = nullptr; }
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // A task whose turn has come begins within this call. All parts of it are let go of on the loop.
  void Add(uid_t user, Task task);

 private:
  struct User {
    std::deque<Task> waiting{};
    std::size_t under_way = 0;
    bool in_order = false;
  };
  void PutInOrder(uid_t uid, User& user);
  void Start();
  void Finish(uid_t uid);

  Post to_threads_, to_loop_;
  const Bounds bounds_;
  std::map<uid_t, User> users_;  // those who have a task
  std::deque<uid_t> order_;      // those who may begin one, each once
  std::size_t under_way_ = 0;
  // What is posted and outlives this object finds it gone.
  std::shared_ptr<FairQueue*> self_ = std::make_shared<FairQueue*>(this);
};

}  // namespace gpuman::base
