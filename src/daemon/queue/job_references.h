// Which jobs a user's words mean: a number, a task of an array, a name, or one of the user's last
// submissions.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "jobs/job.h"
#include "queue/dependencies.h"

namespace gpuman::jobs {
class JobManager;
}  // namespace gpuman::jobs

namespace gpuman::daemon {

class JobReferences {
 public:
  // `jobs` must outlive this object.
  explicit JobReferences(const jobs::JobManager& jobs) : jobs_(jobs) {}

  // The job is in the queue, or was: it counts among its user's last submissions.
  void Remember(const jobs::Job& job);

  // Valid as long as this object.
  queue::ReferenceLookup LookupFor(uid_t user) const;
  // The jobs that a reference names, of any user: a task, all tasks of an array, one job. kNotFound: there is
  // none.
  base::Result<std::vector<base::JobId>> JobsOf(const std::string& reference, uid_t user) const;
  // kConflict where a name means several jobs that have not ended: a user who ends or changes one has to say
  // which.
  base::Result<> IsOneJob(const std::string& reference, uid_t user) const;
  // A sentence for the user if the name means several jobs and one of them was taken; else empty.
  std::string NoteOnName(const std::string& reference, uid_t user) const;

 private:
  // The job that a name means, one of this user's jobs if there is one. A task has the name of its array.
  struct NamedJob {
    const jobs::Job* job;
    std::string name;
    std::optional<uid_t> among;  // the user whose jobs the name means; nullopt: jobs of any user
  };
  std::optional<NamedJob> FindName(const std::string& reference, uid_t user) const;
  std::optional<base::JobId> TaskNamed(const std::string& tag, std::int64_t task, uid_t user) const;

  const jobs::JobManager& jobs_;
  std::map<uid_t, std::deque<base::JobId>> recent_;  // submitted, the newest last; an array once
};

}  // namespace gpuman::daemon
