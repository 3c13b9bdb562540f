// Jobs that leave their GPUs when they make no call, and come back with their next one: reads what the shims
// tell of calls, asks suspend/idle.h, and carries its decisions to the suspend controller.
//
//   slots (notifications, samples) --+                +--> Suspend, reason idle ---> SuspendController
//   settings of jobs, configuration -+--> DecideIdle -+--> Resume -----------------> the queue, or the same
//   suspension records --------------+                +--> idle jobs --------------> guard, queue
//
// A daemon that comes back reads the record's reason, and the slot in which a thread waits.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/weak_self.h"
#include "daemon/core/signal.h"
#include "daemon/suspension/suspend_controller.h"
#include "jobs/job.h"
#include "suspend/idle.h"

namespace gpuman::daemon {

class IdleJobController {
 public:
  // All must outlive this object.
  IdleJobController(Core& core, const ShimsModule& shims, SuspendController& controller);
  IdleJobController(const IdleJobController&) = delete;
  IdleJobController& operator=(const IdleJobController&) = delete;

  // Sets the function that brings back a job of the queue when its turn comes; false: the queue does not have
  // it. Registered once.
  void SetResume(std::function<bool(base::JobId)> resume) { resume_ = std::move(resume); }
  // A job has become idle and may leave its GPU when others need its room, or it is not idle any more.
  Signal<base::JobId> on_idle;
  bool IsIdle(base::JobId job) const { return idle_.contains(job); }

  // The setting that is in force for the job: its own, its user's, or that for all; nullopt: none.
  std::optional<base::Millis> AfterOf(const jobs::Job& job) const;
  // Whether a job that does not share is to start with a gate.
  bool WantsGate(const jobs::Job& job) const;

  // Takes an idle job off its GPU before its time, since others need the room. `why` as a sentence.
  void MakeWay(base::JobId job, const std::string& why, const SuspendController::Done& done);

  void OnJobRuns(const jobs::Job& job);
  void OnJobLeft(base::JobId job);
  void OnNotify();
  // Call after samples and when settings have changed.
  void Evaluate();
  // A sentence where the job has a setting and is not suspended all the same; nullopt: nothing to tell.
  std::optional<std::string> NoteOn(const jobs::Job& job) const;

 private:
  std::optional<suspend::IdleJob> ViewOf(const jobs::Job& job) const;
  std::vector<suspend::IdleProcess> ProcessesOf(base::JobId job) const;
  void OpenIfLeftShut(const jobs::Job& job);
  void Leave(base::JobId job, base::Millis idle);
  void Refused(base::JobId job, const std::string& why);
  void Wake(base::JobId job);
  void SetTimer(std::optional<base::MonoTime> due);

  Core& core_;
  const ShimsModule& shims_;
  SuspendController& controller_;
  const suspend::IdleSettings settings_{};
  std::function<bool(base::JobId)> resume_;
  std::map<base::JobId, suspend::IdleBackoff> history_;
  std::map<base::JobId, base::MonoTime> idle_;   // since their last call
  std::map<base::JobId, base::Millis> watched_;  // as the ledgers were told
  std::map<base::JobId, std::string> refused_;   // why, as it was told last
  std::set<base::JobId> woken_;                  // the queue was asked to bring these back
  std::set<base::JobId> leaving_;                // were asked to leave, and the answer is not there yet
  bool evaluates_soon_ = false;
  boost::asio::steady_timer timer_;
  base::WeakSelf<IdleJobController> self_{this};
};

}  // namespace gpuman::daemon
