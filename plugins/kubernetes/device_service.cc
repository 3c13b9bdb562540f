#include "plugins/kubernetes/device_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "plugins/kubernetes/container_allocate_response.h"
#include "plugins/kubernetes/messages.h"
#include "plugins/kubernetes/packing.h"

namespace gpuman::kubernetes {
namespace {

auto NotUnderstood() {
  return base::Fail(base::ErrorCode::kInvalidArgument, "the request is not understood");
}

void Answer(ServerCall& call, const base::Result<std::string>& answer) {
  if (answer) call.Send(*answer);
  call.Finish(answer ? RpcStatus{} : StatusOf(answer.error()));
}

}  // namespace

void DeviceService::Set(const Config& config, ResourcePool pool,
                        const std::optional<api::ContainerMounts>& files, bool away) {
  config_ = config;
  pool_ = std::move(pool);
  files_ = files;
  away_ = away;
  auto devices = EncodeDevices(DevicesOf(pool_, away_));
  std::erase_if(watchers_, [](const auto& call) { return call->over(); });
  if (devices == devices_) return;
  devices_ = std::move(devices);
  for (const auto& call : watchers_) call->Send(devices_);
}

bool DeviceService::IsWatched() const {
  return std::any_of(watchers_.begin(), watchers_.end(), [](const auto& call) { return !call->over(); });
}

void DeviceService::Handle(std::shared_ptr<ServerCall> call) {
  constexpr std::string_view kService = "/v1beta1.DevicePlugin/";
  std::string_view method = call->method();
  if (method.starts_with(kService)) method.remove_prefix(kService.size());
  if (method == "ListAndWatch") return Watch(std::move(call));
  if (method == "GetDevicePluginOptions") return Answer(*call, EncodeOptions(config_.limits));
  if (method == "GetPreferredAllocation") return Answer(*call, Prefer(call->request()));
  if (method == "PreStartContainer") return BeforeContainerStarts(std::move(call));
  if (method == "Allocate") {
    const auto grants = Allocate(call->request());
    if (!grants) spdlog::warn("{}: allocation refused: {}", pool_.resource.name, grants.error().message);
    return Answer(*call, grants);
  }
  call->Finish({RpcCode::kUnimplemented, "there is no method " + call->method()});
}

void DeviceService::BeforeContainerStarts(std::shared_ptr<ServerCall> call) {
  if (!config_.limits) return Answer(*call, std::string());
  before_start_([call, required = config_.required](const base::Result<>& told) {
    if (told || !required) return Answer(*call, std::string());
    Answer(*call, base::Fail(told.error()));
  });
}

void DeviceService::Watch(std::shared_ptr<ServerCall> call) {
  call->Send(devices_);
  watchers_.push_back(std::move(call));
}

base::Result<std::string> DeviceService::Prefer(const std::string& request) const {
  const auto containers = DecodePreferences(request);
  if (!containers) return NotUnderstood();
  std::vector<std::vector<std::string>> preferred;
  for (const auto& container : *containers)
    preferred.push_back(
        kubernetes::Prefer(pool_, container.available, container.must_include, container.size));
  return EncodePreferred(preferred);
}

base::Result<std::string> DeviceService::Allocate(const std::string& request) const {
  const auto containers = DecodeAllocation(request);
  if (!containers) return NotUnderstood();
  std::vector<ContainerAllocateResponse> grants;
  for (const auto& ids : *containers) {
    GPUMAN_ASSIGN(auto grant, MakeGrant(config_, pool_, files_, away_, ids, root_));
    grants.push_back(std::move(grant));
  }
  return EncodeGrants(grants);
}

}  // namespace gpuman::kubernetes
