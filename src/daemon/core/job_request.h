// From what a client asks for to a job, or the reason why not. Pure, but for what reads the limits of a
// process.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/types.h"
#include "base/peer.h"
#include "base/result.h"
#include "daemon/core/authorization.h"
#include "gpu/inventory.h"
#include "jobs/job.h"

namespace gpuman::daemon {

inline constexpr std::size_t kLongestTag = 64;  // characters

// A tag names a job beside its number, in commands, file names and labels: 1 to 64 of letters, digits and
// . _ - + : @, and not a number.
base::Result<> CheckTag(const std::string& tag);

// `driver_environment`: variables by which the daemon itself reached its driver; a job that has none of its
// own gets them, so that it runs on the driver that is watched.
base::Result<jobs::Job> JobFromRequest(const api::RunRequest& request, const Caller& caller,
                                       const gpu::Inventory& inventory,
                                       const std::map<std::string, std::string>& driver_environment);

// What a job asks of MPS. kInvalidArgument: threads without it, or out of range.
base::Result<> CheckMps(const spec::RunOptions& options);

// kNotSupported: jobs that share were to be in a part of an instance (MIG), whose memory is others' as well.
// `gpus`: UUIDs; none: those of a program that names none.
base::Result<> CheckSharing(bool share, const std::vector<std::string>& gpus,
                            const gpu::Inventory& inventory);

// What an update makes of a job; the same rules for sizes and priority.
base::Result<> ApplyUpdate(const api::UpdateRequest& update, const gpu::Inventory& inventory, jobs::Job& job);

// GPUMAN_SIM_DIR and, with it, LD_LIBRARY_PATH of this process; nothing on a real driver.
std::map<std::string, std::string> DriverEnvironment();
// To a job's `environment`: its own variables win; of LD_LIBRARY_PATH both parts count.
void AddDriverEnvironment(const std::map<std::string, std::string>& driver,
                          std::map<std::string, std::string>& environment);

// Of a process, from /proc; what cannot be read is left out.
jobs::ResourceLimits ResourceLimitsOf(pid_t pid);
// Those of the process that asks; `process`: the same by the connection (http::Exchange::Process). kConflict:
// it has ended, or is another user's by now. A job without limits of its own would have the daemon's, which
// are wider.
base::Result<jobs::ResourceLimits> ResourceLimitsOf(const http::Peer& peer,
                                                    const base::Result<base::Peer>& process);
jobs::ResourceLimits ParseResourceLimits(std::string_view text);  // of /proc/PID/limits

}  // namespace gpuman::daemon
