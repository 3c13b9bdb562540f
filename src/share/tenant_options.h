// What the user of a job asks of its turns. Values.
//
// The daemon fills them at one place (TenantOptionsOf in daemon/sharing/shared_job.h) from the job's options
// (spec/job_options.h); the scheduler holds, compares and replaces them as a whole. An option that is added
// is added to the job's options, here, there, and where it is used.
#pragma once

#include <optional>

namespace gpuman::share {

// The part of its GPUs' time that a tenant has asked for.
struct ComputeShare {
  double part = 1;          // above 0, at most 1
  bool may_exceed = false;  // it may use what others leave; false: it never has more than its part
  friend bool operator==(const ComputeShare&, const ComputeShare&) = default;
};

struct TenantOptions {
  double weight = 1;  // above 0; of two without a share the one with twice the weight has twice the time
  int priority = 0;   // the higher is more important; it counts under PolicyKind::kPriority (settings.h)
  bool interactive = false;  // it works in short bursts, and somebody waits for each of them (policy.h)
  std::optional<ComputeShare> compute{};  // none: it has what is left, by its weight (compute_share.h)
  bool latency = false;                   // its work goes first (latency.h)
  friend bool operator==(const TenantOptions&, const TenantOptions&) = default;
};

}  // namespace gpuman::share
