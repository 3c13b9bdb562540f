// What a job of the queue was submitted with beside its command: the queue's request, and of that what
// starting and ending the job depends on. Plain values, shared between jobs (shared.h).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuman::jobs {

// A failed run is followed by another.
struct Retries {
  int count = 0;  // runs after the first
  base::Millis delay{0};
  std::vector<int> on_exit_codes{};  // empty: however it failed
  friend bool operator==(const Retries&, const Retries&) = default;
};

struct QueueSpec {
  std::string request;  // as queue/record.h writes it; nothing here reads it
  std::string script;   // its text, where the command runs one; empty: it does not
  std::string project;
  Retries retries;
  std::optional<base::Millis> time_limit;  // of a run, without the time it is suspended
  int warn_signal = 0;                     // sent `warn_before` the time limit; 0: none
  base::Millis warn_before{0};
  std::optional<base::Bytes> host_memory;  // of all its processes together
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
