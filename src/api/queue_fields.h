// The queue's part of one job, as the API shows it: part of a JobView.
//
// Values. Durations are seconds in JSON, under names that end in _s; times are ISO 8601 UTC; an absent
// optional is null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "spec/job_options.h"
#include "spec/job_spec.h"

namespace gpuman::api {

// How far ahead a waiting job is, each part in seconds of waiting time; below 0 it is behind.
struct Advantage {
  double priority = 0, fair_share = 0, short_job = 0;
  friend bool operator==(const Advantage&, const Advantage&) = default;
};

// A message about a job that gpuman has not delivered yet.
struct PendingNotificationView {
  std::string delivery;  // the id that the receiver sees
  std::string event;     // started, finished, …
  std::string to;        // a mail address, or a URL without its path
  std::string state;     // waiting failed
  int attempts = 0;
  std::optional<base::WallTime> next_attempt;  // null: as soon as possible, or no attempt
  std::optional<std::string> problem;          // of the last attempt
  friend bool operator==(const PendingNotificationView&, const PendingNotificationView&) = default;
};

// `queue` of a job in the API's answers; null for a job of `gpuman run` that never was in the queue.
struct JobQueueView {
  spec::JobRequest asked;  // of URLs of `notify` without the parts that may be secret
  spec::GpuRequest gpus;
  std::optional<std::int64_t> array_id;
  std::optional<int> array_task;
  int attempts = 0;  // runs so far, including the current one
  // For a job that waits; null if it is not known.
  std::optional<base::WallTime> estimated_start;
  bool estimate_presumed = false;               // it uses queue.presumed_time for a job without a time limit
  std::optional<int> position;                  // 1 is the next one
  std::optional<Advantage> advantage;           // null also in lists
  std::optional<std::int64_t> redo_of;          // the job that this one does again
  std::optional<base::Millis> suspended_total;  // does not count towards the time limit
  std::vector<PendingNotificationView>
      notifications;  // only where the request names one job; left out if empty
};

}  // namespace gpuman::api
