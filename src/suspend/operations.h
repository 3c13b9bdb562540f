// The driver's checkpoint calls as gpuman-checkpoint makes them: each request ends in a state that is known,
// and a process that could not be taken off the device runs on.
//
// Blocks for as long as the driver does. Not thread-safe.
#pragma once

#include <optional>

#include "base/result.h"
#include "driver/cuda.h"
#include "suspend/request.h"

namespace gpuman::suspend {

class Operations {
 public:
  // `driver`: initialised, or why not.
  explicit Operations(base::Result<driver::CudaDriver> driver) : driver_(std::move(driver)) {}
  // Loads and initialises the driver; where it has no checkpoint calls, without initialising it.
  static Operations WithDriver();

  Answer Carry(const Request& request) const;

 private:
  Answer Can() const;
  Answer Checkpoint(const Request& request) const;
  Answer Restore(const Request& request) const;
  Answer Unlock(const Request& request) const;
  // The process is the one that was meant, has CUDA in it and this state; else the answer to give.
  tl::expected<Saved, Answer> StateOf(const base::ProcessId& process) const;
  Answer AnswerOf(const base::ProcessId& process) const;
  // After a step failed: lets the process run on where that can be done, and says where it ended.
  Answer LetRunOn(const Request& request, const base::Error& error) const;
  Answer Failure(const base::ProcessId& process, const base::Error& error) const;

  base::Result<driver::CudaDriver> driver_;
};

}  // namespace gpuman::suspend
