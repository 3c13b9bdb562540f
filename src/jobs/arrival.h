// Many new jobs of one submission, which the store writes in several commits. After a restart the store
// recognizes an incomplete arrival here, and takes it back even if the disk is full.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// Jobs with all numbers from `first` to `last`.
struct JobIdRange {
  JobId first, last;
  bool Has(JobId id) const { return first <= id && id <= last; }
};

// The setting row that is in the store until the last of the jobs is written, or the first is taken back. If
// Load finds it, the daemon ended in between.
inline constexpr std::string_view kArrivals = "arrival/";
std::string KeyOfArrival(const JobIdRange& jobs);
std::optional<JobIdRange> ArrivalOfKey(std::string_view key);

// Takes back the jobs of an arrival that are written, the last ones first. A deletion writes each page that
// it changes to the log before it frees any, so on a full disk only few jobs can be deleted at once. Each
// failure lets the store empty its log; then the same number of jobs is tried once more, and after that half
// of the number.
//
//   while (!removal.IsOver()) removal.Take(store.Write(removal.Next()));
class ArrivalRemover {
 public:
  // Jobs with ids below `end` are written, or may be written.
  ArrivalRemover(JobIdRange jobs, JobId end) : jobs_(jobs), end_(end) {}

  // The jobs to erase; the step with the first ones also erases the setting row.
  struct Step {
    std::vector<JobId> erase;
    std::optional<std::string> unset;
  };
  Step Next() const;
  // Takes the result of that step.
  void Take(const base::Result<>& written);
  // True: nothing is left, or not even one job can be deleted, and the next start tries again.
  bool IsOver() const { return done_ || failed_; }
  bool failed() const { return failed_; }

 private:
  JobId Begin() const;

  JobIdRange jobs_;
  JobId end_;
  std::int64_t together_ = 500;
  bool went_ = false;  // a step succeeded since the last failure
  bool done_ = false, failed_ = false;
};

}  // namespace gpuman::jobs
