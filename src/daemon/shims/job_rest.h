// Brings a job to rest: no call of its processes passes to the driver, and no work of theirs is left on a
// GPU. The memory stays where it is.
//
// One attempt after the other, for each job by itself. An attempt orders all shims of the job to hold, when
// those that were ordered to run have taken that up, and reads their answers when they notify, and at times.
// Processes that wait for each other on their GPUs do not come to rest by that alone: share::Cut then says
// which of them makes a few calls more. Processes that join during an attempt are held as well.
//
// In a job of several processes the hold ends by itself some time after the attempt, and is made to last when
// all are at rest: a daemon that dies in between leaves no process behind its gate.
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
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/units.h"
#include "daemon/shims/answer_poll.h"
#include "daemon/shims/rest_view.h"
#include "daemon/shims/shim_channel.h"
#include "share/cut.h"

namespace gpuman::daemon {

class JobRest {
 public:
  struct Result {
    bool rested = false;
    bool late = false;  // the limit is over; nothing else was in the way
    // Not rested: which processes did not come to rest, and why. It goes on where a sentence has said "the
    // job did not come to rest: ".
    std::string why{};
    unsigned steps = 0;  // calls that had to be let through to bring all to rest
    base::Millis took{0};
  };
  using Done = std::function<void(const Result&)>;
  // The name of a GPU for people ("GPU 0"), by its UUID.
  using NameOfGpu = std::function<std::string(const std::string& uuid)>;
  using AttemptId = std::uint64_t;

  // All must outlive this object.
  JobRest(boost::asio::io_context& loop, const base::Clock& clock, ShimChannel& shims, NameOfGpu name_of_gpu);
  ~JobRest();
  JobRest(const JobRest&) = delete;
  JobRest& operator=(const JobRest&) = delete;

  // Begins an attempt that ends after `limit`, or a few seconds later if a shim does not take up its order.
  // An earlier attempt of the job is void: its `done` is not called any more. `done` is called once, later,
  // from the loop. Rested: all are held until the caller orders something else. Not rested: what the shims do
  // is not known, and the caller orders all of them to run.
  AttemptId Begin(base::JobId job, base::Millis limit, Done done);
  // Ends the attempt, if there is one, without an answer. The caller orders what follows.
  void Cancel(base::JobId job);
  // As above, unless another attempt has begun since.
  void Cancel(base::JobId job, AttemptId attempt);

  // Call when a process of the job has sent a notification.
  void OnNotify(base::JobId job);

 private:
  struct Attempt {
    AttemptId id = 0;
    base::MonoTime began, deadline;
    Done done;
    AnswerPoll poll;
    share::Cut cut;
    OpenGrants grants;
    base::MonoTime ordered = began;  // when the hold was ordered
    base::MonoTime look_at = base::MonoTime::max();
    std::unique_ptr<boost::asio::steady_timer> timer{};
    bool opening = false;     // processes take up their order to run first
    bool several = false;     // processes: they may wait for each other
    bool confirming = false;  // all were at rest; the hold is made to last
    bool ended = false;       // the answer is on its way
  };

  ledger::Command Hold(const Attempt& attempt) const;
  void OrderHold(base::JobId job, Attempt& attempt);
  void Check(base::JobId job);
  void Bring(base::JobId job, Attempt& attempt, const std::vector<ledger::SlotStatus>& slots);
  void Grant(base::JobId job, Attempt& attempt, const share::StepOrder& order);
  std::string WhyNot(base::JobId job, const std::vector<ledger::SlotStatus>& slots) const;
  void End(base::JobId job, Attempt& attempt, Result result);
  void SetTimer(base::JobId job, Attempt& attempt);

  boost::asio::io_context& loop_;
  const base::Clock& clock_;
  ShimChannel& shims_;
  NameOfGpu name_of_gpu_;
  std::map<base::JobId, Attempt> attempts_;
  std::map<base::JobId, share::CutMemory> memory_;  // of jobs of several processes
  AttemptId last_ = 0;
  // Callbacks that outlive this object find nullptr.
  std::shared_ptr<JobRest*> self_;
};

}  // namespace gpuman::daemon
