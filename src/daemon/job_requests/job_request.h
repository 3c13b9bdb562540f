// Makes a job from a client's request, or gives the reason why not. Pure, but for the functions that read the
// limits of a process.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/queue_types.h"
#include "base/peer.h"
#include "base/result.h"
#include "daemon/core/authorization.h"
#include "gpu/inventory.h"
#include "jobs/job.h"

namespace gpuman::daemon {

inline constexpr std::size_t kLongestTag = 64;  // characters

// A tag names a job beside its number, in commands, file names and labels: 1 to 64 of letters, digits and
// . _ - + : @, and nothing that a command takes for an id (api::WrongWithName).
base::Result<> CheckTag(const std::string& tag);

// The request is one that the codec has read, and so checked (api/json.h), or that the daemon made.
// `driver_environment`: variables by which the daemon itself reached its driver. A job without such variables
// of its own gets them, so that it runs on the driver that the daemon watches.
base::Result<jobs::Job> JobFromRequest(const api::RunRequest& request, const Caller& caller,
                                       const gpu::Inventory& inventory,
                                       const std::map<std::string, std::string>& driver_environment);

// Checks what a job asks of MPS. kInvalidArgument: a share of threads without MPS, or out of range.
base::Result<> CheckMps(const spec::RunOptions& options);
// Checks what a job asks of its turns: a share of the time, or that its work goes first. kInvalidArgument: it
// does not share its GPUs and is no client of MPS. A client holds nobody back.
base::Result<> CheckTurnOptions(const spec::RunOptions& options);
// kInvalidArgument: an option needs the library, which is not to be preloaded.
base::Result<> CheckLibrary(const spec::RunOptions& options);

// kNotSupported: the jobs would share a part of an instance (MIG), whose memory other programs use as well.
// `gpus`: UUIDs; empty: the GPUs of a program that names none.
base::Result<> CheckSharing(bool share, const std::vector<std::string>& gpus,
                            const gpu::Inventory& inventory);

// kInvalidArgument: the update changes the share of the GPU's time of a client of MPS.
base::Result<> MayChangeCompute(const api::RunOptionsPatch& update, const jobs::Job& job);
// Applies an update to a job, with the same rules for sizes.
base::Result<> ApplyUpdate(const api::RunOptionsPatch& update, const gpu::Inventory& inventory,
                           jobs::Job& job);

// GPUMAN_SIM_DIR and, where that is set, LD_LIBRARY_PATH of this process; empty on a real driver.
std::map<std::string, std::string> DriverEnvironment();
// Adds them to a job's `environment`. The job's own variables win; of LD_LIBRARY_PATH both values are kept.
void AddDriverEnvironment(const std::map<std::string, std::string>& driver,
                          std::map<std::string, std::string>& environment);

// The limits of a process, from /proc. Limits that cannot be read are left out.
jobs::ResourceLimits ResourceLimitsOf(pid_t pid);
// The limits of the process that sent the request. `process`: the same process as the connection knows it
// (http::Exchange::Process). kConflict: the process has ended, or is another user's by now. A job without
// limits of its own would have the daemon's, which are wider.
base::Result<jobs::ResourceLimits> ResourceLimitsOf(const http::Peer& peer,
                                                    const base::Result<base::Peer>& process);
jobs::ResourceLimits ParseResourceLimits(std::string_view text);  // of /proc/PID/limits

}  // namespace gpuman::daemon
