#include "daemon/containers/allocation_match.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/job_requests/attach_request.h"
#include "daemon/job_requests/job_request.h"

namespace gpuman::daemon {
namespace {

constexpr std::size_t kIdInTag = 12;  // digits, as runtimes abbreviate ids
// A container that asked for all that it uses has the highest priority, so that it leaves last when a GPU's
// memory runs out.
constexpr int kGuaranteed = 160, kBurstable = 128, kBestEffort = 96;

int PriorityOf(std::optional<base::PodClass> pod_class) {
  switch (pod_class.value_or(base::PodClass::kBurstable)) {
    case base::PodClass::kGuaranteed:
      return kGuaranteed;
    case base::PodClass::kBurstable:
      return kBurstable;
    case base::PodClass::kBestEffort:
      return kBestEffort;
  }
  return kBurstable;
}

bool IsOf(const api::ContainerAllocation& given, const PodName& pod) {
  return given.name_space == pod.name_space && given.pod == pod.pod;
}

// A container without a limit has the most memory.
bool HasLess(const api::ContainerAllocation& a, const api::ContainerAllocation& b) {
  if (!a.memory || !b.memory) return a.memory.has_value() && !b.memory;
  return *a.memory < *b.memory;
}

}  // namespace

AllocationMatch MatchContainer(const std::vector<api::ContainerAllocation>& table,
                               const ContainerNameState& container,
                               const std::function<bool(const api::ContainerAllocation&)>& is_held) {
  if (container.name) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const auto& given) {
      return IsOf(given, container.name->pod) && given.container == container.name->container;
    });
    return {false, found == table.end() ? nullptr : &*found};
  }
  const auto is_candidate = [&](const auto& given) {
    return container.pod && IsOf(given, *container.pod) && !is_held(given);
  };
  const auto is_of_pod = [&](const auto& given) { return IsOf(given, *container.pod); };
  if (container.names_may_come && (!container.pod || std::any_of(table.begin(), table.end(), is_of_pod)))
    return {true, nullptr};
  const api::ContainerAllocation* least = nullptr;
  for (const auto& given : table)
    if (is_candidate(given) && (!least || HasLess(given, *least))) least = &given;
  return {false, least};
}

std::string TagOfContainer(const api::ContainerAllocation& given, const std::string& id, bool taken) {
  auto tag = fmt::format("kube:{}:{}:{}", given.name_space, given.pod, given.container);
  if (!taken && tag.size() <= kLongestTag) return tag;
  return tag.substr(0, kLongestTag - kIdInTag - 1) + "@" + id.substr(0, kIdInTag);
}

base::Result<jobs::Job> JobOfContainer(const api::ContainerAllocation& given,
                                       const base::ProcessContainer& container, std::string tag,
                                       std::vector<std::string> command, const gpu::Inventory& inventory) {
  api::AttachRequest request;
  request.tag = std::move(tag);
  request.gpus = given.gpus;
  request.at_most = given.memory;
  request.share = given.share;
  if (given.share) request.compute = given.compute;
  const Caller root{0, 0, {}, "root"};
  if (command.empty()) command = {given.container};
  GPUMAN_ASSIGN(auto job, JobFromAttachRequest(request, root, {0, std::move(command)}, inventory));
  job.spec.Change([&](spec::JobSpec& spec) {
    spec.priority = std::clamp(given.priority.value_or(PriorityOf(container.group.pod_class)),
                               spec::kLowestPriority, spec::kHighestPriority);
  });
  job.cgroup = container.directory.string();
  job.container = std::make_shared<const jobs::Container>(
      jobs::Container{given.name_space, given.pod, given.container, container.group.id});
  return job;
}

}  // namespace gpuman::daemon
