// Sharing of GPUs, as the API shows it. Values; share/scheduler.h says what the words mean.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/compute_share.h"

namespace gpuman::api {

struct ShareSettings {
  std::string policy;  // fair, priority, fcfs
  base::Millis quantum_min{}, quantum_max{};
  double overhead = 0;  // the part of the time that may go into moving memory, 0 to 1
  base::Millis idle{};
  base::Millis interactive_wait{};
  bool pause = false;
  std::string compute;  // concurrent, exclusive, auto
  std::string memory;   // auto, vmm, managed
  bool managed_turns = true;
  base::Millis compute_quantum{};
  std::optional<std::string> capacity;              // a size or a percentage; null: what is free
  std::map<std::string, std::string> gpu_capacity;  // by UUID
  std::string on_no_yield;                          // wait, suspend, end
  base::Millis yield_limit{}, retry{};
  bool step = true;          // processes that wait for each other make single calls, so that all come to rest
  std::string on_no_answer;  // between users: wait, suspend, end
  base::Millis answer_limit{};
  std::string unchanged;  // hash, compare, off: how memory is found that need not be copied
};

// PUT /v1/share: absent fields stay as they are. The change holds until the daemon restarts, or reads its
// configuration.
struct ShareUpdate {
  std::optional<std::string> policy;
  std::optional<base::Millis> quantum_min, quantum_max;
  std::optional<double> overhead;
  std::optional<base::Millis> idle;
  std::optional<base::Millis> interactive_wait;
  std::optional<bool> pause;
  std::optional<std::string> compute;
  std::optional<std::string> memory;
  std::optional<bool> managed_turns;
  std::optional<base::Millis> compute_quantum;
  std::optional<base::SizeSpec> capacity;
  bool clear_capacity = false;  // capacity becomes what is free
  std::optional<std::string> on_no_yield;
  std::optional<base::Millis> yield_limit, retry;
  std::optional<bool> step;
  std::optional<std::string> on_no_answer;
  std::optional<base::Millis> answer_limit;
  std::optional<std::string> unchanged;
};

// On one GPU, in bytes.
struct ShareMemory {
  base::Bytes resident, away, pinned, managed, wanted;
};

// The job is being brought to rest. A unit is a process on one of its GPUs.
struct ShareResting {
  unsigned units = 0, at_rest = 0;
  unsigned steps = 0;             // calls that were let through for it
  std::int64_t milliseconds = 0;  // so far
};

// How long a job waited for its turns.
struct ShareWaits {
  std::uint64_t count = 0;                          // since it began to share
  std::optional<base::Millis> median{}, longest{};  // of the last 50; null: it never waited
};

struct ShareJob {
  std::int64_t id = 0;
  std::string tag;
  bool in_run_set = false;
  std::string gate;      // open, closing, closed
  std::string activity;  // unknown, busy, idle, waiting
  bool suspended = false;
  std::optional<std::string> waits_for;  // latency, share, turn, room, return, yield, retry, too_large
  std::optional<std::string> detail;     // which job does not yield, or come to rest, and why
  std::optional<ShareResting> resting;
  base::Millis waiting{}, had_turn{};
  double weight = 1;
  int priority = 0;
  std::optional<std::string> interactive;     // asked, learned; null: it is not interactive
  std::optional<spec::ComputeShare> compute;  // as asked for; null: no share of the time
  bool latency = false;                       // its work goes first
  // While jobs have turns by shares of the time, from 0 to 1: its part, and what it had of the last ten
  // seconds.
  std::optional<double> compute_part, compute_had;
  // The longest time that its work needed to leave the GPU, of the last 50: null: its gate was not closed.
  std::optional<base::Millis> longest_unit;
  ShareWaits waits;
  ShareMemory memory;
};

struct ShareGpu {
  std::optional<int> index;           // null: an instance
  std::optional<std::string> number;  // "0", "0:1"
  std::string uuid;
  std::optional<base::Bytes> capacity;
  base::Bytes demand;
  bool contended = false, exclusive = false, by_share = false, handing_over = false;
  base::Millis quantum{};
  std::optional<base::Millis> quantum_left;
  base::Bytes moved_out, moved_in;
  base::Bytes copied_out, copied_in;  // of these, what had to be copied
  std::uint64_t hand_overs = 0;
  base::Millis moving{};  // spent in hand-overs
  double moving_share = 0;
  std::vector<ShareJob> jobs;
};

struct ShareView {
  ShareSettings settings;
  std::vector<ShareGpu> gpus;
};

}  // namespace gpuman::api
