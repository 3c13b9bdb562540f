#include "doctor/host_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gpuman::doctor {
namespace {

using enum Severity;

constexpr unsigned kUsualShare = 50;  // percent of the host's memory; default of suspend.host_memory
constexpr base::Bytes kMinShm = base::MiB(512);
constexpr base::Bytes kMinDisk = base::MiB(512);
constexpr base::Bytes kMinMemlock = base::MiB(64);

base::Bytes LargestOf(const Facts& facts) {
  base::Bytes largest{};
  for (const auto& gpu : facts.gpus) largest = std::max(largest, gpu.memory);
  return largest;
}

}  // namespace

Findings CheckDaemon(const Facts& facts) {
  const auto& daemon = facts.daemon;
  const auto& caller = facts.caller;
  if (!daemon.problem.empty() && !caller.root && caller.group_exists && !caller.in_group)
    return OneFinding(kError, "the daemon cannot be asked: " + daemon.problem,
                      fmt::format("where it runs: usermod -aG gpuman {}, as root, then log out and in again; "
                                  "or for yourself: gpumand --user",
                                  caller.user));
  if (!daemon.problem.empty())
    return OneFinding(
        kError, "the daemon cannot be asked: " + daemon.problem,
        "systemctl start gpumand; without systemd: gpumand, as root; or for yourself: gpumand --user");
  if (daemon.version != daemon.own_version)
    return OneFinding(kWarning,
                      fmt::format("the daemon is {}, this program is {}", daemon.version, daemon.own_version),
                      "systemctl restart gpumand: jobs keep running");
  return OneFinding(kFine, "the daemon answers: version " + daemon.version);
}

Findings CheckAccess(const Facts& facts) {
  const auto& caller = facts.caller;
  if (caller.user_daemon) return OneFinding(kFine, "the daemon is your own");
  if (!facts.daemon.problem.empty()) return OneFinding(kUnknown, "n/a without the daemon");
  if (caller.root) return OneFinding(kFine, "root may do everything");
  if (!caller.group_exists)
    return OneFinding(kWarning, "there is no group gpuman: only root may submit",
                      "groupadd --system gpuman, or set access.submit_group");
  if (!caller.in_group)
    return OneFinding(kWarning, fmt::format("{} is not in the group gpuman and may not submit", caller.user),
                      fmt::format("as root: usermod -aG gpuman {}; then log out and in again", caller.user));
  return OneFinding(kFine, fmt::format("{} may submit", caller.user));
}

Findings CheckConfig(const Facts& facts) {
  if (!facts.config_problem) return OneFinding(kUnknown, "n/a: gpumand is not found to check it");
  if (!facts.config_problem->empty())
    return OneFinding(kError, "the configuration is wrong: " + *facts.config_problem, "gpuman config check");
  return OneFinding(kFine, "the configuration is valid");
}

Findings CheckShim(const Facts& facts) {
  const auto& shim = facts.shim;
  if (shim.path.empty())
    return OneFinding(kWarning,
                      "there is no libgpuman.so: only the daemon enforces limits, and GPUs cannot be shared",
                      "install the package again");
  if (!shim.problem.empty())
    return OneFinding(kError, fmt::format("{} cannot be preloaded: {}", shim.path, shim.problem),
                      "install the package again");
  if (!shim.system_preload.empty() && shim.system_preload.find("gpuman") == std::string::npos)
    return OneFinding(kNote,
                      fmt::format("/etc/ld.so.preload has {}: it comes before libgpuman.so in every program",
                                  shim.system_preload),
                      "if programs behave oddly under gpuman, try without it");
  return OneFinding(kFine, "libgpuman.so can be preloaded");
}

Findings CheckHostMemory(const Facts& facts) {
  const auto largest = LargestOf(facts);
  if (!facts.host.memory || largest == base::Bytes{})
    return OneFinding(kUnknown, "n/a: host or GPU memory is not known");
  const base::Bytes room = base::SizeSpec{{}, kUsualShare}.Of(*facts.host.memory);
  if (room >= largest)
    return OneFinding(kFine,
                      fmt::format("the host has {}: half of it can hold the memory of the largest GPU, {}",
                                  base::FormatBytes(*facts.host.memory), base::FormatBytes(largest)));
  return OneFinding(
      kNote,
      fmt::format("the host has {}: by default half of it may hold the data of suspended jobs, which is less "
                  "than the {} of the largest GPU, so not every job can be suspended or take turns",
                  base::FormatBytes(*facts.host.memory), base::FormatBytes(largest)),
      "more host memory, or a larger suspend.host_memory in gpumand.toml");
}

Findings CheckMemlock(const Facts& facts) {
  if (!facts.host.memlock) return OneFinding(kUnknown, "n/a");
  if (*facts.host.memlock >= kMinMemlock.count || facts.caller.root)
    return OneFinding(kFine, "enough memory may be locked");
  return OneFinding(
      kNote,
      fmt::format("you may lock {} of memory: RDMA and some libraries want more (gpuman itself does not)",
                  base::FormatBytes(base::Bytes{*facts.host.memlock})),
      "ulimit -l unlimited, or memlock in /etc/security/limits.conf");
}

Findings CheckShm(const Facts& facts) {
  if (!facts.host.shm) return OneFinding(kUnknown, "n/a: there is no /dev/shm");
  if (*facts.host.shm >= kMinShm)
    return OneFinding(kFine, fmt::format("/dev/shm has {}", base::FormatBytes(*facts.host.shm)));
  return OneFinding(
      kWarning,
      fmt::format("/dev/shm has {}: data loaders and NCCL run out of it", base::FormatBytes(*facts.host.shm)),
      "mount -o remount,size=50% /dev/shm; in a container: --shm-size or --ipc=host");
}

Findings CheckHugePages(const Facts& facts) {
  if (!facts.host.huge_pages) return OneFinding(kUnknown, "n/a: the kernel does not say");
  if (*facts.host.huge_pages != "never")
    return OneFinding(kFine, fmt::format("transparent huge pages: {}", *facts.host.huge_pages));
  return OneFinding(
      kNote,
      "transparent huge pages are off: pinning host memory for suspended jobs takes several times as long",
      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

Findings CheckCgroups(const Facts& facts) {
  if (!facts.host.cgroup2) return OneFinding(kUnknown, "n/a");
  if (!*facts.host.cgroup2)
    return OneFinding(
        kWarning,
        "there is no cgroup v2: gpuman knows a job's processes by their parents alone, and cannot "
        "limit host memory",
        "boot with systemd.unified_cgroup_hierarchy=1");
  const auto has = [&](const char* name) {
    const auto& all = facts.host.controllers;
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  if (!has("memory") || !has("cpu"))
    return OneFinding(
        kNote,
        fmt::format("cgroup v2 lacks {} (it has the controllers {}), so the kernel does not enforce "
                    "limits on host memory and CPUs",
                    has("memory") ? "cpu"
                    : has("cpu")  ? "memory"
                                  : "memory and cpu",
                    facts.host.controllers.empty()
                        ? std::string("(none)")
                        : fmt::format("{}", fmt::join(facts.host.controllers, " "))),
        "boot with systemd.unified_cgroup_hierarchy=1 and without cgroup_disable");
  return OneFinding(kFine, "cgroup v2 with memory and cpu");
}

Findings CheckDisk(const Facts& facts) {
  if (!facts.host.state_free) return OneFinding(kUnknown, "n/a: there is no " + facts.host.state_dir);
  if (*facts.host.state_free >= kMinDisk)
    return OneFinding(kFine, fmt::format("{} has {} left", facts.host.state_dir,
                                         base::FormatBytes(*facts.host.state_free)));
  return OneFinding(kWarning,
                    fmt::format("{} has {} left: without free space no job is accepted", facts.host.state_dir,
                                base::FormatBytes(*facts.host.state_free)),
                    "make room there, or lower jobs.keep_ended and jobs.log_size");
}

}  // namespace gpuman::doctor
