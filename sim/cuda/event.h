// The object behind a CUevent: a place in a stream, and the time when the stream reached it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "sim/cuda/context.h"

namespace gpuman::sim::cuda {

struct Event {
  unsigned flags = 0;
  std::shared_ptr<Context> context;

  std::mutex mutex;  // guards the members below
  bool recorded = false;
  Mark mark;
  std::shared_ptr<std::atomic<std::uint64_t>> reached_ns;  // CLOCK_MONOTONIC; 0: not yet
  std::shared_ptr<Capture> capture;                        // recorded in a capturing stream
};

}  // namespace gpuman::sim::cuda
