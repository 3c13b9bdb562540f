// Jobs that somebody else started and gpuman holds all the same: a step of Slurm, a shell. Values.
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
  int pid = 0;                           // what it starts is the job; itself it is none of it
  std::string tag;                       // unique among the jobs that have not ended
  std::optional<std::int64_t> uid;       // whose the job is; absent: the caller's. Somebody else's: for root
  std::vector<std::string> command;      // shown to people; empty: that of `pid`
  std::vector<std::string> gpus;         // index, UUID or UUID prefix; empty: every GPU
  std::optional<base::SizeSpec> memory;  // hard limit on each of its GPUs
  std::optional<base::Bytes> at_most;    // what was allotted: the limit is no more, whatever `memory` says
  std::optional<base::SizeSpec> soft;
  bool preload = true;  // false: the guard alone
  bool share = false;   // its memory may leave the GPU and come back, while it runs
};

struct Attached {
  std::int64_t id = 0;
  std::string tag;
  std::vector<std::string> gpus;  // UUIDs; empty: every GPU
  // What its processes are to be started with, laid over what they have; LD_PRELOAD goes before theirs.
  std::map<std::string, std::string> environment;
};

}  // namespace gpuman::api
