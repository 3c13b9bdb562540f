#include "plugins/kubernetes/messages.h"

#include <device_plugin.pb.h>
#include <pod_resources.pb.h>

#include <algorithm>

namespace gpuman::kubernetes {
namespace {

template <typename Message>
std::optional<Message> Parse(std::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  return message;
}

void SetOptions(v1beta1::DevicePluginOptions& options, bool pre_start) {
  options.set_prefers(true);
  options.set_pre_start_required(pre_start);
}

}  // namespace

std::string EncodeRegistration(const std::string& endpoint, const std::string& resource, bool pre_start) {
  v1beta1::RegisterRequest request;
  request.set_version(kProtocolVersion);
  request.set_endpoint(endpoint);
  request.set_resource_name(resource);
  SetOptions(*request.mutable_options(), pre_start);
  return request.SerializeAsString();
}

std::string EncodeOptions(bool pre_start) {
  v1beta1::DevicePluginOptions options;
  SetOptions(options, pre_start);
  return options.SerializeAsString();
}

std::string EncodeDevices(const std::vector<Device>& devices) {
  v1beta1::DeviceList list;
  for (const auto& device : devices) {
    auto& entry = *list.add_devices();
    entry.set_id(device.id);
    entry.set_health(device.healthy ? "Healthy" : "Unhealthy");
    if (device.memory_node) entry.mutable_topology()->add_nodes()->set_id(*device.memory_node);
  }
  return list.SerializeAsString();
}

std::optional<std::vector<Preference>> DecodePreferences(std::string_view bytes) {
  const auto request = Parse<v1beta1::PreferenceRequest>(bytes);
  if (!request) return std::nullopt;
  std::vector<Preference> preferences;
  for (const auto& container : request->containers()) {
    Preference preference;
    preference.available.assign(container.available().begin(), container.available().end());
    preference.must_include.assign(container.must_include().begin(), container.must_include().end());
    preference.size = static_cast<std::size_t>(std::max(0, container.size()));
    preferences.push_back(std::move(preference));
  }
  return preferences;
}

std::string EncodePreferred(const std::vector<std::vector<std::string>>& containers) {
  v1beta1::PreferenceAnswer answer;
  for (const auto& ids : containers) answer.add_containers()->mutable_devices()->Add(ids.begin(), ids.end());
  return answer.SerializeAsString();
}

std::optional<std::vector<std::vector<std::string>>> DecodeAllocation(std::string_view bytes) {
  const auto request = Parse<v1beta1::AllocateRequest>(bytes);
  if (!request) return std::nullopt;
  std::vector<std::vector<std::string>> containers;
  for (const auto& container : request->containers())
    containers.emplace_back(container.devices().begin(), container.devices().end());
  return containers;
}

std::string EncodeGrants(const std::vector<ContainerAllocateResponse>& containers) {
  v1beta1::AllocateAnswer answer;
  for (const auto& grant : containers) {
    auto& entry = *answer.add_containers();
    for (const auto& [name, value] : grant.environment) (*entry.mutable_environment())[name] = value;
    for (const auto& rule : grant.mounts) {
      auto& mount = *entry.add_mounts();
      mount.set_host_path(rule.host);
      mount.set_container_path(rule.container);
      mount.set_read_only(!rule.writable);
    }
    for (const auto& path : grant.nodes) {
      auto& node = *entry.add_devices();
      node.set_host_path(path);
      node.set_container_path(path);
      node.set_permissions("rw");
    }
    for (const auto& name : grant.cdi) entry.add_cdi_devices()->set_name(name);
  }
  return answer.SerializeAsString();
}

std::optional<std::vector<ContainerDeviceIds>> DecodePodResources(std::string_view bytes) {
  const auto answer = Parse<v1::ListAnswer>(bytes);
  if (!answer) return std::nullopt;
  std::vector<ContainerDeviceIds> allocations;
  for (const auto& pod : answer->pods())
    for (const auto& container : pod.containers())
      for (const auto& devices : container.devices())
        allocations.push_back({pod.name_space(),
                               pod.name(),
                               container.name(),
                               devices.resource(),
                               {devices.ids().begin(), devices.ids().end()}});
  return allocations;
}

}  // namespace gpuman::kubernetes
