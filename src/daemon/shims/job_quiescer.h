// Brings a job to rest: no call of its processes passes to the driver, and no work of theirs is left on a
// GPU. The memory stays where it is.
//
// One attempt after the other, for each job by itself. An attempt orders all shims of the job to hold, when
// those that were ordered to run have taken that up, and reads their answers when they notify, and at times.
// Processes that wait for each other on their GPUs do not come to rest by that alone: share::QuiescePlanner
// then says which of them makes a few calls more. Processes that join during an attempt are held as well.
//
// In a job of several units (a unit is a process on one of its GPUs) the hold ends by itself some time after
// the attempt, and is made to last when all are at rest: a daemon that dies in between leaves no process
// behind its gate.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "base/units.h"
#include "base/weak_self.h"
#include "daemon/shims/answer_poll_schedule.h"
#include "daemon/shims/hold_answers.h"
#include "daemon/shims/quiesce_view.h"
#include "daemon/shims/shim_channel.h"
#include "share/quiesce_planner.h"

namespace gpuman::daemon {

class JobQuiescer {
 public:
  struct Result {
    bool rested = false;
    bool late = false;  // the limit is over; nothing else was in the way
    // Not rested: which processes did not come to rest, and why. It goes on where a sentence has said "the
    // job did not come to rest: ".
    std::string why{};
    unsigned calls = 0;  // calls that had to be let through to bring all to rest
    base::Millis took{0};
    QuiesceCount count{};  // at the end of the attempt
  };
  // An attempt that is under way.
  struct Progress {
    QuiesceCount count{};
    unsigned calls = 0;
    base::Millis took{0};
    std::string why{};  // as in Result, as things are now
  };
  // Of all attempts since this object was made.
  struct Totals {
    // From the order until the job rested, in seconds.
    base::Histogram rested{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}};
    std::uint64_t late = 0, failed = 0, cancelled = 0;  // attempts that ended otherwise
    std::uint64_t calls = 0;
  };
  using Done = std::function<void(const Result&)>;
  // The name of a GPU for people ("GPU 0"), by its UUID.
  using NameOfGpu = std::function<std::string(const std::string& uuid)>;
  using AttemptId = std::uint64_t;

  // All must outlive this object.
  JobQuiescer(boost::asio::io_context& loop, const base::Clock& clock, ShimChannel& shims,
              NameOfGpu name_of_gpu);
  JobQuiescer(const JobQuiescer&) = delete;
  JobQuiescer& operator=(const JobQuiescer&) = delete;

  // Begins an attempt that ends after `limit` at the latest. An earlier attempt of the job is void: its
  // `done` is not called any more. `done` is called once, later, from the loop. Rested: all are held until
  // the caller orders something else. Not rested: what the shims do is not known, and the caller orders all
  // of them to run.
  AttemptId Begin(base::JobId job, base::Millis limit, Done done);
  // The same for the processes that wait for room, where there are any: only these are held, and count for
  // the answer.
  AttemptId BeginInPart(base::JobId job, base::Millis limit, Done done);
  // Ends the attempt without an answer, unless it is over or another has begun since. The caller orders what
  // follows.
  void Cancel(base::JobId job, AttemptId attempt);

  std::optional<Progress> ProgressOf(base::JobId job) const;  // nullopt: there is no attempt
  // Of jobs of several units, or of one.
  const Totals& TotalsOf(bool several) const { return totals_[several ? 1 : 0]; }

  // Whether units that wait for each other make single calls, so that all come to rest (share.step). It holds
  // for attempts that begin from now on.
  void SetCallGrants(bool on) { call_grants_ = on; }

  // Call when a process of the job has sent a notification.
  void OnNotify(base::JobId job);

 private:
  using Slots = std::vector<ledger::SlotStatus>;
  using Processes = std::set<base::ProcessId>;
  struct Attempt {
    AttemptId id = 0;
    std::optional<Processes> only;  // nullopt: all, with those that join
    base::MonoTime began, deadline;
    Done done;
    AnswerPollSchedule poll;
    share::QuiescePlanner planner;
    QuiesceAttemptState state{};
    base::MonoTime ordered = began;                  // when the hold was ordered first
    unsigned calls = 0;                              // of earlier cuts, which did not hold
    base::MonoTime look_at = base::MonoTime::max();  // when the planner wants to decide again
    base::MonoTime stopped_at{}, again_at{};  // when to look again for stopped processes; to repeat the order
    std::unique_ptr<boost::asio::steady_timer> timer{};
    bool opening = false;  // processes take up their order to run first
    bool several = false;  // units: they may wait for each other
    // All were at rest, and the hold is made to last: since when.
    std::optional<base::MonoTime> confirmed{};
    bool ended = false;  // the answer is on its way
  };

  AttemptId Begin(base::JobId job, base::Millis limit, std::optional<Processes> only, Done done);
  Slots SlotsOf(base::JobId job, const Attempt& attempt) const;
  void Check(base::JobId job);
  void Decide(base::JobId job, Attempt& attempt, const Slots& slots, const HoldAnswers& answers);
  void Confirm(base::JobId job, Attempt& attempt, const Slots& slots, const HoldAnswers& answers);
  void GrantCalls(base::JobId job, Attempt& attempt, const share::GateCallGrant& order);
  using Attempts = std::map<base::JobId, Attempt>;

  share::QuiescePlanner NewPlanner(share::QuiesceHistory history, base::MonoTime began,
                                   base::MonoTime deadline) const;
  ledger::ProcessOrder Hold(const Attempt& attempt) const;
  void Drop(Attempts::iterator attempt);
  unsigned CallsOf(const Attempt& attempt) const { return attempt.calls + attempt.planner.figures().calls; }
  std::string WhyNot(base::JobId job, const Slots& slots) const;
  void OrderHold(base::JobId job, Attempt& attempt);
  void AwaitOpening(base::JobId job, Attempt& attempt, const Slots& slots);
  // The cut was not found.
  void EndWithout(base::JobId job, Attempt& attempt, const Slots& slots);
  void End(base::JobId job, Attempt& attempt, Result result);
  void SetTimer(base::JobId job, Attempt& attempt);

  boost::asio::io_context& loop_;
  const base::Clock& clock_;
  ShimChannel& shims_;
  NameOfGpu name_of_gpu_;
  Attempts attempts_;
  std::map<base::JobId, share::QuiesceHistory> history_;  // of jobs of several units
  AttemptId last_ = 0;
  bool call_grants_ = true;
  std::array<Totals, 2> totals_{};
  base::WeakSelf<JobQuiescer> self_{this};
};

}  // namespace gpuman::daemon
