// Containers of Kubernetes as jobs: seen, held, and given the shim.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "daemon/containers/containers.h"
#include "daemon/containers/match.h"
#include "daemon/service/service.h"

namespace gpuman::daemon {
namespace {

// The shims' socket by another name, in a directory that has nothing else: containers must not come to the
// daemon's own. A second name of a socket, unlike one that is mounted, is made anew with it.
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

void Service::BeginContainers() {
  Containers::Callbacks callbacks;
  callbacks.container_of = [](pid_t pid) { return base::ReadContainer(pid); };
  callbacks.hold = [this](const auto& container, const auto& given, pid_t pid) {
    HoldContainer(container, given, pid);
  };
  callbacks.is_held = [this](const api::GivenContainer& given) {
    const auto active = core_.jobs().Active();
    return std::any_of(active.begin(), active.end(), [&](const jobs::Job* job) {
      return job->container && job->container->name_space == given.name_space &&
             job->container->pod == given.pod && job->container->name == given.container;
    });
  };
  containers_ = std::make_unique<Containers>(core_.config().kubernetes.logs, std::move(callbacks));
  if (!shims_ || !core_.config().shim.preload) return;
  api::ContainerFiles files{core_.options().shim_library.string(),
                            (core_.config().state_dir / "ld.so.preload").string(),
                            ShimSocket().string() + ".d"};
  auto ready = base::ReplaceFile(files.preload, files.shim_library + "\n", 0644);
  if (ready) ready = LinkSocket(ShimSocket(), files.socket_directory);
  if (!ready) return spdlog::warn("containers get no shim: {}", ready.error().message);
  container_files_ = std::move(files);
}

void Service::SetContainers(std::vector<api::GivenContainer> given) {
  containers_->SetTable(std::move(given));
  for (const auto& [uuid, status] : core_.guard().Statuses()) LookForContainers(status);
  if (shims_) shims_->AskAgain();
}

api::ContainersView Service::ContainersNow() const { return {containers_->table(), container_files_}; }

void Service::LookForContainers(const guard::GpuStatus& status) {
  for (const auto& process : status.processes)
    if (!process.job && !process.ours && process.uid) (void)ContainerIsComing(process.id);
  if (containers_->TakeWaits() && shims_) shims_->AskAgain();
}

bool Service::ContainerIsComing(base::ProcessId process) const {
  return containers_ && containers_->IsComing(process, core_.clock().Mono());
}

void Service::HoldContainer(const base::ProcessContainer& container, const api::GivenContainer& given,
                            pid_t pid) {
  const auto named = core_.jobs().Resolve(TagOfContainer(given, container.group.id, false));
  const auto* const other = named ? core_.jobs().Find(*named) : nullptr;
  const bool taken = other && !jobs::IsEnded(*other);
  auto job = JobOfContainer(given, container, TagOfContainer(given, container.group.id, taken),
                            core_.processes().CommandLine(pid), core_.inventory());
  const auto fail = [this, given, id = container.group.id](const base::Error& error) {
    spdlog::error("container {} of pod {} in {} is not held: {}", given.container, given.pod,
                  given.name_space, error.message);
    containers_->Drop(id);
  };
  if (!job) return fail(job.error());
  core_.jobs().AttachContainer(std::move(*job), [fail](const base::Result<jobs::Job>& held) {
    if (!held) fail(held.error());
  });
}

}  // namespace gpuman::daemon
