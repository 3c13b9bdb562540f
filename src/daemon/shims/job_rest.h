// Brings a job to rest: no call of its processes passes to the driver, and no work of theirs is left on a
// GPU. The memory stays where it is.
//
// One attempt after the other, for each job by itself. It orders all shims of the job to hold, and reads
// their answers when they notify, and at times. Processes that join during an attempt are held as well.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/units.h"
#include "daemon/shims/answer_poll.h"
#include "daemon/shims/shim_channel.h"

namespace gpuman::daemon {

class JobRest {
 public:
  struct Result {
    bool rested = false;
    // Not rested: which processes did not come to rest, and why. It goes on where a sentence has said "the
    // job did not come to rest: ".
    std::string why{};
    unsigned steps = 0;  // calls that had to be let through to bring all to rest
    base::Millis took{0};
  };
  using Done = std::function<void(const Result&)>;

  // All must outlive this object.
  JobRest(boost::asio::io_context& loop, const base::Clock& clock, ShimChannel& shims);
  ~JobRest();
  JobRest(const JobRest&) = delete;
  JobRest& operator=(const JobRest&) = delete;

  // Begins an attempt that ends after `limit`, or a few seconds later if a shim does not take up its order.
  // An earlier attempt of the job is void: its `done` is not called any more. `done` is called once, later,
  // from the loop. Rested: all are held until the caller orders something else. Not rested: what the shims do
  // is not known, and the caller orders all of them to run.
  void Begin(base::JobId job, base::Millis limit, Done done);
  // Ends the attempt, if there is one, without an answer. The caller orders what follows.
  void Cancel(base::JobId job);

  // Call when a process of the job has sent a notification.
  void OnNotify(base::JobId job);

 private:
  struct Attempt {
    std::uint64_t number = 0;
    base::MonoTime began, deadline;
    Done done;
    AnswerPoll poll;
    std::unique_ptr<boost::asio::steady_timer> timer;
    bool ended = false;  // the answer is on its way
  };

  void Check(base::JobId job);
  void End(base::JobId job, Attempt& attempt, Result result);
  void SetTimer(base::JobId job, Attempt& attempt);

  boost::asio::io_context& loop_;
  const base::Clock& clock_;
  ShimChannel& shims_;
  std::map<base::JobId, Attempt> attempts_;
  std::uint64_t last_ = 0;  // number of an attempt
  // Callbacks that outlive this object find nullptr.
  std::shared_ptr<JobRest*> self_;
};

}  // namespace gpuman::daemon
