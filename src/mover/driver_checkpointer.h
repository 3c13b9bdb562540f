// The driver's checkpoint calls as gpuman-mover makes them: each request ends in a known state, and a process
// that could not be taken off the device runs on.
//
// Each call blocks for as long as the driver does. Not thread-safe.
#pragma once

#include <optional>

#include "base/result.h"
#include "driver/cuda.h"
#include "suspend/request.h"

namespace gpuman::mover {

class DriverCheckpointer {
 public:
  // `driver`: initialised, or the reason why there is none.
  explicit DriverCheckpointer(base::Result<driver::CudaDriver> driver) : driver_(std::move(driver)) {}
  // Loads and initialises the driver.
  static DriverCheckpointer WithDriver();

  bool HasDriver() const { return driver_.has_value(); }
  const driver::CudaDriver& driver() const { return *driver_; }

  suspend::MoverAnswer Perform(const suspend::MoverRequest& request) const;

 private:
  suspend::MoverAnswer Can() const;
  suspend::MoverAnswer Checkpoint(const suspend::MoverRequest& request) const;
  suspend::MoverAnswer Restore(const suspend::MoverRequest& request) const;
  suspend::MoverAnswer Unlock(const suspend::MoverRequest& request) const;
  // Checks that the process is the right one and uses CUDA, and returns its state; otherwise returns the
  // answer for the daemon.
  tl::expected<suspend::DriverState, suspend::MoverAnswer> StateOf(const base::ProcessId& process) const;
  suspend::MoverAnswer AnswerOf(const base::ProcessId& process) const;
  // After a step failed: lets the process run on where that is possible, and tells its state.
  suspend::MoverAnswer LetRunOn(const suspend::MoverRequest& request, const base::Error& error) const;
  suspend::MoverAnswer Failure(const base::ProcessId& process, const base::Error& error) const;

  base::Result<driver::CudaDriver> driver_;
};

}  // namespace gpuman::mover
