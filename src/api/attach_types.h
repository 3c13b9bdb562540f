// Jobs that another program has started and that gpuman supervises too: a step of Slurm, a shell. Values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuman::api {

// POST /v1/attachments
struct AttachRequest {
  int pid = 0;                       // processes that it starts are the job; it is not part of the job itself
  std::string tag;                   // unique among the jobs that have not ended
  std::optional<std::int64_t> uid;   // the job's owner; absent: the caller. Another user: only for root
  std::vector<std::string> command;  // shown to people; empty: the command of `pid`
  std::vector<std::string> gpus;     // index, UUID or UUID prefix; empty: every GPU
  std::optional<base::SizeSpec> memory;  // hard limit on each of its GPUs
  std::optional<base::Bytes> at_most;    // what was allotted: the limit is never more, whatever `memory` says
  std::optional<base::SizeSpec> soft;
  bool preload = true;  // false: only the guard
  bool share = false;   // its memory may leave the GPU and come back, while it runs
};

struct Attached {
  std::int64_t id = 0;
  std::string tag;
  std::vector<std::string> gpus;  // UUIDs; empty: every GPU
  // The variables that its processes have to start with, laid over their own; LD_PRELOAD goes before theirs.
  std::map<std::string, std::string> environment;
};

}  // namespace gpuman::api
