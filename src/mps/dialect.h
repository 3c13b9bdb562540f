// How a GPU's control daemon is spoken to: the commands of one protocol of nvidia-cuda-mps-control.
//
//   protocol 2  lines to its standard input; servers are known by pid, and serve one user at a time
//   protocol 3  its arguments (driver 615 and later); servers and namespaces have names (placement.h)
//
// Every call blocks, and runs the program one or more times. Thread-safe, one call for a GPU at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "mps/control_program.h"
#include "mps/placement.h"
#include "mps/status.h"

namespace gpuman::mps {

// What could not be made or limited.
struct LimitProblem {
  std::string server;
  std::string name_space;  // empty: the server
  std::string message;
};

// What became of ApplyLimits.
struct AppliedLimits {
  std::vector<MpsServerStatus> servers{};  // as they are now, without clients; protocol 3
  std::vector<std::string> deleted{};      // names of servers
  std::vector<LimitProblem> problems{};
};

// All of them as one text; empty: there is none.
std::string Describe(const std::vector<LimitProblem>& problems);
// Why programs with this placement do not find their namespace, or not its limits; empty: they do.
std::string WhyNotThere(const AppliedLimits& applied, const MpsNamespacePlacement& placement);

class Dialect {
 public:
  virtual ~Dialect() = default;

  // For a control daemon in the background.
  virtual std::vector<std::string> StartArguments() const = 0;
  virtual base::Result<std::vector<MpsServerStatus>> Servers() const = 0;
  // Makes the servers, the namespaces and the limits as they are wanted, as far as the protocol has them. An
  // absent limit of the GPU stays as it is. Limits apply to new clients. An error: nothing can be said of
  // any.
  virtual base::Result<AppliedLimits> ApplyLimits(const WantedOnGpu& wanted) const = 0;
  virtual base::Result<> Terminate(pid_t server, pid_t client) const = 0;
  // Tells the daemon to end. `force`: whatever clients it has.
  virtual base::Result<> Quit(bool force) const = 0;
  // Whether servers can have parts of the GPU's time (ClientJob::time_slice).
  virtual bool HasTimeSlices() const = 0;
};

// `table` must outlive the result. `protocol`: 2 or 3.
std::unique_ptr<Dialect> MakeDialect(int protocol, ControlProgram program, const base::ProcessTable& table);

// A client as the process table shows it.
MpsClient ClientOf(pid_t pid, const base::ProcessTable& table);

}  // namespace gpuman::mps
