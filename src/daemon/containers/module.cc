#include "daemon/containers/module.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "daemon/containers/allocation_match.h"
#include "daemon/shims/module.h"

namespace gpuman::daemon {
namespace {

// Makes a second name of the shims' socket in a directory with nothing else, because containers must not
// reach the daemon's own socket. Unlike a mounted socket, a second name can be made anew whenever the socket
// is.
base::Result<> LinkSocket(const std::filesystem::path& socket, const std::filesystem::path& directory) {
  GPUMAN_TRY(base::MakeDirectories(directory, 0755));
  const auto link = directory / ledger::wire::kSocketName;
  std::error_code error;
  std::filesystem::remove(link, error);
  std::filesystem::create_hard_link(socket, link, error);
  if (error) return base::FailSystem(error.value(), "linking " + link.string());
  return {};
}

}  // namespace

ContainersModule::ContainersModule(Core& core, ShimsModule& shims)
    : core_(core), shims_(shims), containers_(core.config().kubernetes.logs, MakeCallbacks()) {
  shims_.SetIsComing([this](base::ProcessId process) { return IsComing(process); });
  OfferShim();
}

Containers::Callbacks ContainersModule::MakeCallbacks() {
  Containers::Callbacks callbacks;
  callbacks.container_of = [](pid_t pid) { return base::ReadContainer(pid); };
  callbacks.hold = [this](const auto& container, const auto& given, pid_t pid) {
    Hold(container, given, pid);
  };
  callbacks.is_held = [this](const api::ContainerAllocation& given) { return IsHeld(given); };
  return callbacks;
}

void ContainersModule::OfferShim() {
  if (!shims_.channel() || !core_.config().shim.preload) return;
  const auto socket = shims_.Socket();
  api::ContainerMounts files{core_.options().shim_library.string(),
                             (core_.config().state_dir / "ld.so.preload").string(), socket.string() + ".d"};
  auto ready = base::ReplaceFile(files.preload, files.shim_library + "\n", 0644);
  if (ready) ready = LinkSocket(socket, files.socket_directory);
  if (!ready) return spdlog::warn("containers get no shim: {}", ready.error().message);
  files_ = std::move(files);
}

void ContainersModule::SetTable(std::vector<api::ContainerAllocation> given) {
  containers_.SetTable(std::move(given));
  for (const auto& [uuid, status] : core_.guard().Statuses()) TakeProcesses(status);
  shims_.AskAgain();
}

void ContainersModule::OnSample(const gpu::GpuSample& sample) {
  if (const auto* const status = core_.guard().Find(sample.uuid)) TakeProcesses(*status);
}

void ContainersModule::TakeProcesses(const guard::GpuStatus& status) {
  for (const auto& process : status.processes)
    if (!process.job && !process.ours && process.uid) (void)IsComing(process.id);
  if (containers_.TakeWaits()) shims_.AskAgain();
}

bool ContainersModule::IsHeld(const api::ContainerAllocation& given) const {
  const auto active = core_.jobs().Active();
  return std::any_of(active.begin(), active.end(), [&](const jobs::Job* job) {
    return job->container && job->container->name_space == given.name_space &&
           job->container->pod == given.pod && job->container->name == given.container;
  });
}

void ContainersModule::Hold(const base::ProcessContainer& container, const api::ContainerAllocation& given,
                            pid_t pid) {
  const auto named = core_.jobs().index().Resolve(TagOfContainer(given, container.group.id, /*taken=*/false));
  const auto* const other = named ? core_.jobs().Find(*named) : nullptr;
  const bool taken = other && !jobs::IsEnded(*other);
  auto job = JobOfContainer(given, container, TagOfContainer(given, container.group.id, taken),
                            core_.processes().CommandLine(pid), core_.inventory());
  const auto fail = [this, given, id = container.group.id](const base::Error& error) {
    spdlog::error("container {} of pod {} in {} is not held: {}", given.container, given.pod,
                  given.name_space, error.message);
    containers_.Drop(id);
  };
  if (!job) return fail(job.error());
  core_.jobs().AttachContainer(std::move(*job), [fail](const base::Result<jobs::Job>& held) {
    if (!held) fail(held.error());
  });
}

}  // namespace gpuman::daemon
