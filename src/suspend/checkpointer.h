// The daemon's way to the driver's checkpoint of processes: requests queue here and go, one at a time on the
// machine, to a gpuman-mover of the right user, which is started when it is needed and stopped when it
// has had nothing to do for a while.
//
// Lives on the event loop: not thread-safe, nothing blocks, answers come from the loop and never from within
// Ask. Every request is answered exactly once, as long as the Checkpointer lives: a helper that dies, hangs
// or writes nonsense is killed and answers kLost, one that cannot be started, or cannot load the driver,
// kFailed or kUnsupported; the next request starts another.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/units.h"
#include "suspend/helper.h"
#include "suspend/helper_link.h"
#include "suspend/request.h"

namespace gpuman::suspend {

struct CheckpointerOptions {
  HelperProgram program;
  base::Millis start_limit{30'000};     // until a new helper has loaded the driver
  base::Millis request_limit{180'000};  // 141 GiB at the 2.5 GB/s of an H200's checkpoint take one minute
  base::Millis idle_limit{600'000};     // a helper without requests is stopped
};

class Checkpointer {
 public:
  using Done = std::function<void(const Answer&)>;

  // Loop and workers must outlive it.
  Checkpointer(boost::asio::io_context& loop, boost::asio::thread_pool& workers, CheckpointerOptions options);
  // Requests without an answer get none; helpers end when they have done what they are at.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // The id of `request` is set here. kCan also starts the helper, which is worth doing ahead of time.
  void Ask(const HelperUser& user, Request request, Done done);

  // Of the user's helper; nullopt: none runs.
  std::optional<pid_t> HelperPid(const HelperUser& user) const;

 private:
  struct Helper {
    std::shared_ptr<HelperLink> link;
    bool ready = false;
    std::unique_ptr<boost::asio::steady_timer> idle;
  };
  struct Pending {
    HelperUser user;
    Request request;
    Done done;
  };

  void Pump();
  Helper& HelperOf(const HelperUser& user);
  void SendActive();
  void SetLimit(base::Millis limit, const char* what);
  void OnAnswer(const HelperUser& user, const Answer& answer);
  void OnGone(const HelperUser& user, const base::Error& error);
  void FinishActive(Answer answer);
  void StopWhenIdle(const HelperUser& user);

  boost::asio::io_context& loop_;
  boost::asio::thread_pool& workers_;
  const CheckpointerOptions options_;
  std::uint64_t next_id_ = 1;
  std::deque<Pending> queue_;
  std::optional<Pending> active_;
  boost::asio::steady_timer limit_;
  std::map<HelperUser, Helper> helpers_;
  // Posted work holds a weak reference, so that none of it outlives this object.
  std::shared_ptr<Checkpointer*> self_;
};

}  // namespace gpuman::suspend
