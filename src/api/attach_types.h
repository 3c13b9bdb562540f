// Jobs that another program has started and that gpuman supervises too: a step of Slurm, a shell. Values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/job_options.h"

namespace gpuman::api {

// POST /v1/attachments
struct AttachRequest : spec::AttachOptions {
  int pid = 0;                         // the processes that `pid` starts are the job; `pid` is no part of it
  std::string tag;                     // unique among the jobs that have not ended
  std::optional<std::int64_t> uid;     // the job's owner; absent: the caller. Only root may name another user
  std::vector<std::string> command;    // shown to people; empty: the command of `pid`
  std::vector<std::string> gpus;       // index, UUID or UUID prefix; empty: every GPU
  std::optional<base::Bytes> at_most;  // what was allotted: the limit is never above it, whatever `memory` is
};

struct AttachAnswer {
  std::int64_t id = 0;
  std::string tag;
  std::vector<std::string> gpus;  // UUIDs; empty: every GPU
  // Variables that the starter of the job's processes must set for them. Each replaces a variable of the same
  // name, except LD_PRELOAD: its value goes before the value that is there.
  std::map<std::string, std::string> environment;
};

}  // namespace gpuman::api
