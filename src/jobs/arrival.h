// Many new jobs of one submission, which the store writes in several commits: how a start recognizes the half
// of one, and how that half is taken back where the disk has no room for anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// Jobs with all numbers from `first` to `last`.
struct JobRange {
  JobId first, last;
  bool Has(JobId id) const { return first <= id && id <= last; }
};

// The setting that stands in the store until the last of them is written, or the first of them taken back.
// Where Load finds it, the daemon ended in between.
inline constexpr std::string_view kArrivals = "arrival/";
std::string KeyOfArrival(const JobRange& jobs);
std::optional<JobRange> ArrivalOfKey(std::string_view key);

// Takes back jobs of an arrival that are written, the last ones first. A deletion writes each page that it
// changes to the log before it frees any, so on a full disk only few can be deleted at a time; each failure
// lets the store empty its log, and then the same number is tried once more, then half of it.
//
//   while (!removal.IsOver()) removal.Take(store.Write(removal.Next()));
class ArrivalRemoval {
 public:
  // Those below `end` are written, or may be.
  ArrivalRemoval(JobRange jobs, JobId end) : jobs_(jobs), end_(end) {}

  // The jobs to erase; with the first ones goes the setting.
  struct Step {
    std::vector<JobId> erase;
    std::optional<std::string> unset;
  };
  Step Next() const;
  // What became of that step.
  void Take(const base::Result<>& written);
  // Nothing is left, or not even one job can be deleted: the next start tries again.
  bool IsOver() const { return done_ || failed_; }
  bool failed() const { return failed_; }

 private:
  JobId Begin() const;

  JobRange jobs_;
  JobId end_;
  std::int64_t together_ = 500;
  bool went_ = false;  // since the last failure
  bool done_ = false, failed_ = false;
};

}  // namespace gpuman::jobs
