#include "daemon/job_requests/job_request.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "api/queue_json.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "daemon/compat/nvshare.h"
#include "jobs/bounds.h"
#include "mps/limits.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

// Limits of a job's process, by their names in /proc/PID/limits.
constexpr std::array<std::pair<std::string_view, int>, 14> kLimitNames{
    {{"Max cpu time", RLIMIT_CPU},
     {"Max file size", RLIMIT_FSIZE},
     {"Max data size", RLIMIT_DATA},
     {"Max stack size", RLIMIT_STACK},
     {"Max core file size", RLIMIT_CORE},
     {"Max resident set", RLIMIT_RSS},
     {"Max processes", RLIMIT_NPROC},
     {"Max open files", RLIMIT_NOFILE},
     {"Max locked memory", RLIMIT_MEMLOCK},
     {"Max address space", RLIMIT_AS},
     {"Max file locks", RLIMIT_LOCKS},
     {"Max nice priority", RLIMIT_NICE},
     {"Max realtime priority", RLIMIT_RTPRIO},
     {"Max msgqueue size", RLIMIT_MSGQUEUE}}};

// The smallest of the GPUs the job may use; nullopt where none is known.
std::optional<gpu::Gpu> SmallestOf(const std::vector<std::string>& uuids, const gpu::Inventory& inventory) {
  std::optional<gpu::Gpu> smallest;
  for (const auto& gpu : uuids.empty() ? gpu::VisibleByDefault(inventory.gpus) : inventory.gpus) {
    const bool used = uuids.empty() || std::find(uuids.begin(), uuids.end(), gpu.uuid) != uuids.end();
    if (used && (!smallest || gpu.memory < smallest->memory)) smallest = gpu;
  }
  return smallest;
}

Result<> CheckSizes(const spec::JobSpec& spec, const std::vector<std::string>& gpus,
                    const gpu::Inventory& inventory) {
  if (!spec.memory && !spec.soft) return {};
  const auto smallest = SmallestOf(gpus, inventory);
  if (!smallest)
    return Fail(ErrorCode::kNotSupported,
                "a memory limit cannot be held here: " +
                    (inventory.problem.empty() ? std::string("no GPU is known yet") : inventory.problem),
                "gpuman gpu list shows what the driver says; run without --memory to go without a limit");
  for (const auto& [name, size] :
       {std::pair("memory limit", spec.memory), std::pair("soft limit", spec.soft)}) {
    if (size && size->Of(smallest->memory) > smallest->memory && !spec.oversubscribe)
      return Fail(
          ErrorCode::kUnsatisfiable,
          fmt::format("the {} of {} is more than GPU {} has: {}", name, base::FormatBytes(size->bytes),
                      gpu::NumberOf(*smallest), base::FormatBytes(smallest->memory)),
          "give at most that, choose another GPU with --gpu, or add --oversubscribe");
  }
  if (spec.memory && spec.soft && spec.soft->Of(smallest->memory) > spec.memory->Of(smallest->memory))
    return Fail(ErrorCode::kInvalidArgument, "the soft limit is above the hard one",
                "the soft limit warns before the hard one ends the job");
  return {};
}

// Programs get their gate when they start.
Result<> CheckGate(const jobs::Job& job) {
  if (jobs::IsEnded(job) || jobs::IsWaiting(job) || jobs::HasGate(job)) return {};
  return Fail(
      ErrorCode::kConflict,
      fmt::format("idle_suspend_s: job {} was started with neither --idle-suspend nor --share, so its "
                  "calls are not seen",
                  job.id.value),
      "start it again with --idle-suspend");
}

}  // namespace

Result<> CheckTag(const std::string& tag) {
  constexpr const char* kHint = "use letters, digits and . _ - + : @, such as train-7";
  if (tag.empty()) return Fail(ErrorCode::kInvalidArgument, "the tag is empty", kHint);
  if (const auto wrong = api::WrongWithName(tag))
    return Fail(ErrorCode::kInvalidArgument, "the tag " + *wrong, kHint);
  return {};
}

Result<> CheckLibrary(const spec::RunOptions& options) {
  const bool needed =
      options.share || options.oversubscribe || options.idle_suspend || options.trace_allocations;
  if (options.preload || !needed) return {};
  const auto* const field = options.share           ? "share"
                            : options.oversubscribe ? "oversubscribe"
                            : options.idle_suspend  ? "idle_suspend_s"
                                                    : "trace_allocations";
  const auto* const option = options.share           ? "share"
                             : options.oversubscribe ? "oversubscribe"
                             : options.idle_suspend  ? "idle-suspend"
                                                     : "trace-allocations";
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: the library does that, and it is not to be preloaded", field),
              fmt::format("leave out --no-preload or --{}", option));
}

Result<> CheckMps(const spec::RunOptions& options) {
  if (options.mps_threads && !options.mps)
    return Fail(ErrorCode::kInvalidArgument, "mps_threads: the job does not ask for MPS", "add --mps");
  if (options.idle_suspend && options.mps)
    return Fail(ErrorCode::kInvalidArgument, "idle_suspend_s: a client of MPS cannot leave its GPU",
                "leave out --mps or --idle-suspend");
  return options.mps_threads ? mps::ValidateThreads(*options.mps_threads) : Result<>{};
}

Result<> CheckTurnOptions(const spec::RunOptions& options) {
  if (options.latency && options.mps)
    return Fail(ErrorCode::kInvalidArgument,
                "latency: clients of MPS run at the same time, and hold nobody back",
                "leave out --mps or --latency");
  if (options.latency && !options.share)
    return Fail(ErrorCode::kInvalidArgument, "latency: a job that does not share its GPUs holds nobody back",
                "add --share, or leave out --latency");
  if (!options.compute || options.mps || options.share) return {};
  return Fail(ErrorCode::kInvalidArgument, "compute: a job that does not share its GPUs has no turns",
              "add --share, or leave out --compute");
}

Result<> CheckSharing(bool share, const std::vector<std::string>& gpus, const gpu::Inventory& inventory) {
  if (!share) return {};
  const auto candidates = gpus.empty() ? gpu::VisibleByDefault(inventory.gpus) : inventory.gpus;
  const auto part = std::find_if(candidates.begin(), candidates.end(), [&](const gpu::Gpu& gpu) {
    const bool used = gpus.empty() || std::find(gpus.begin(), gpus.end(), gpu.uuid) != gpus.end();
    return used && gpu.mig && gpu::IsPartOfInstance(gpu.mig->profile);
  });
  if (part == candidates.end()) return {};
  return Fail(ErrorCode::kNotSupported,
              fmt::format("share: {} ({}) has its memory together with other compute instances, so gpuman "
                          "cannot know how much of it jobs may have in turns",
                          gpu::NumberOf(*part), part->mig->profile),
              "share an instance that is whole, such as 3g.71gb, or leave --share out");
}

Result<jobs::Job> JobFromRequest(const api::RunRequest& request, const Caller& caller,
                                 const gpu::Inventory& inventory,
                                 const std::map<std::string, std::string>& driver_environment) {
  GPUMAN_TRY(CheckTag(request.tag));
  if (request.command.empty() || request.command[0].empty())
    return Fail(ErrorCode::kInvalidArgument, "there is no command to run",
                "give one behind --, or with --command");
  if (request.directory.empty()) return Fail(ErrorCode::kInvalidArgument, "'' is not an absolute path");
  GPUMAN_ASSIGN(const auto gpus, gpu::SelectAll(inventory.gpus, request.gpus));
  GPUMAN_TRY(gpu::CanBeHad(inventory.gpus, gpus));

  jobs::Job job;
  job.tag = request.tag;
  job.owner = jobs::JobOwner{caller.uid, caller.gid, caller.groups, caller.user};
  job.command = request.command;
  job.directory = request.directory;
  auto variables = request.environment;
  AddDriverEnvironment(driver_environment, variables);
  job.environment = jobs::Environment(std::move(variables));
  job.umask = request.umask & 0777;
  for (const auto& gpu : gpus) job.gpus.push_back(gpu.uuid);

  GPUMAN_TRY(CheckSharing(request.share, job.gpus, inventory));
  GPUMAN_TRY(CheckLibrary(request));
  GPUMAN_TRY(CheckMps(request));
  GPUMAN_TRY(CheckTurnOptions(request));
  spec::JobSpec spec;
  static_cast<spec::RunOptions&>(spec) = request;
  if (spec.device_profile && spec.device_profile->empty()) spec.device_profile.reset();
  spec.oversubscribe = request.oversubscribe || nvshare::AsksForOversubscription(request);
  GPUMAN_TRY(CheckSizes(spec, job.gpus, inventory));
  job.spec = std::move(spec);
  GPUMAN_TRY(jobs::CheckExecutable(job.command, *job.environment));
  return job;
}

Result<> MayChangeCompute(const api::RunOptionsPatch& update, const jobs::Job& job) {
  if (!job.spec->mps || update.Find("compute") == nullptr) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("compute: job {} is a client of MPS, which has its share of the time from its start",
                  job.id.value),
      "start it anew with another --compute");
}

Result<> ApplyUpdate(const api::RunOptionsPatch& update, const gpu::Inventory& inventory, jobs::Job& job) {
  GPUMAN_TRY(MayChangeCompute(update, job));
  spec::JobSpec spec = *job.spec;
  GPUMAN_TRY(api::SetOptions(update, spec));
  GPUMAN_TRY(CheckSizes(spec, job.gpus, inventory));
  if (update.Find("compute") != nullptr || update.Find("latency") != nullptr)
    GPUMAN_TRY(CheckTurnOptions(spec));
  if (update.Find("idle_suspend_s") != nullptr && spec.idle_suspend) {
    GPUMAN_TRY(CheckLibrary(spec));
    GPUMAN_TRY(CheckMps(spec));
    GPUMAN_TRY(CheckGate(job));
  }
  job.spec = std::move(spec);
  return {};
}

void AddDriverEnvironment(const std::map<std::string, std::string>& driver,
                          std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : driver) {
    auto& mine = environment[name];
    if (mine.empty())
      mine = value;
    else if (name == "LD_LIBRARY_PATH" && mine.find(value) == std::string::npos)
      mine.insert(0, value + ":");
  }
}

std::map<std::string, std::string> DriverEnvironment() {
  const char* simulated = std::getenv("GPUMAN_SIM_DIR");
  if (!simulated || !*simulated) return {};
  std::map<std::string, std::string> environment{{"GPUMAN_SIM_DIR", simulated}};
  if (const char* path = std::getenv("LD_LIBRARY_PATH"); path && *path) environment["LD_LIBRARY_PATH"] = path;
  return environment;
}

jobs::ResourceLimits ParseResourceLimits(std::string_view text) {
  const auto value = [](const std::string& word) -> std::uint64_t {
    return word == "unlimited" ? RLIM_INFINITY : base::ParseNumber<std::uint64_t>(word).value_or(0);
  };
  jobs::ResourceLimits limits;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    for (const auto& [name, resource] : kLimitNames) {
      if (!line.starts_with(name)) continue;
      std::istringstream words(line.substr(name.size()));
      std::string soft, hard;
      if (words >> soft >> hard) limits[resource] = {value(soft), value(hard)};
    }
  }
  return limits;
}

jobs::ResourceLimits ResourceLimitsOf(pid_t pid) {
  jobs::ResourceLimits limits;
  for (const auto& [name, resource] : kLimitNames) {
    rlimit64 limit{};
    const auto which = static_cast<__rlimit_resource>(resource);
    if (::prlimit64(pid, which, nullptr, &limit) == 0) limits[resource] = {limit.rlim_cur, limit.rlim_max};
  }
  if (limits.size() == kLimitNames.size()) return limits;
  // For another user's process prlimit(2) may be refused, so this reads the text in /proc.
  const auto text = base::ReadFile(fmt::format("/proc/{}/limits", pid));
  return text ? ParseResourceLimits(*text) : jobs::ResourceLimits{};
}

Result<jobs::ResourceLimits> ResourceLimitsOf(const http::Peer& peer, const Result<base::Peer>& process) {
  // A pid of 0: the process is in a pid namespace that the daemon does not see.
  if (::geteuid() != 0 || peer.uid == 0 || peer.pid == 0) return ResourceLimitsOf(peer.pid);
  if (!process && process.error().code != ErrorCode::kNotFound) return Fail(process.error());
  if (process) {
    const pid_t pid = process->process().pid;
    auto limits = ResourceLimitsOf(pid);
    // A program with a set-user-ID bit has two users. If the process still lives, the limits that were read
    // are its own.
    const auto users = base::UsersOf(pid);
    if (std::find(users.begin(), users.end(), peer.uid) != users.end() && process->Lives()) return limits;
  }
  return Fail(
      ErrorCode::kConflict,
      fmt::format("process {}, which asked, has ended: a job has the resource limits of who submits it",
                  peer.pid),
      "submit from a process that waits for the answer");
}

}  // namespace gpuman::daemon
