// The submission of a job of the queue, without its command: the queue's request, and the parts on which the
// job's start and end depend. Plain values, shared between jobs (shared.h).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuman::jobs {

// A failed run is repeated.
struct Retries {
  int count = 0;  // runs after the first
  base::Millis delay{0};
  std::vector<int> on_exit_codes{};  // empty: after any failure
  friend bool operator==(const Retries&, const Retries&) = default;
};

struct QueueSpec {
  std::string request;  // as queue/record.h writes it; nothing in src/jobs reads it
  std::string script;   // its text, if the command runs one; empty: it does not
  std::string project;
  Retries retries;
  std::optional<base::Millis> time_limit;  // for a run, without the time it is suspended
  int warn_signal = 0;                     // sent `warn_before` the time limit; 0: none
  base::Millis warn_before{0};
  std::optional<base::Bytes> host_memory;  // for all its processes together
  int cpus = 0;                            // 0: no limit
  std::string standard_input;              // file; empty: none
  std::string standard_output;             // file; empty: the job's log
  std::string standard_error;              // file; empty: where standard output goes
  friend bool operator==(const QueueSpec&, const QueueSpec&) = default;
};

struct QueueSpecHash {
  std::size_t operator()(const QueueSpec& queue_spec) const {
    return std::hash<std::string>()(queue_spec.request) ^ std::hash<std::string>()(queue_spec.script);
  }
};

}  // namespace gpuman::jobs
