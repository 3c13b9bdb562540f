// The messages between kubelet and a device plugin, as values and as bytes (device_plugin.proto).
//
// Pure functions; thread-safe. nullopt: the bytes are not such a message.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/kubernetes/container_allocate_response.h"
#include "plugins/kubernetes/pools.h"
#include "plugins/kubernetes/table.h"

namespace gpuman::kubernetes {

inline constexpr const char* kProtocolVersion = "v1beta1";
inline constexpr const char* kPodResourcesMethod = "/v1.PodResourcesLister/List";
inline constexpr const char* kRegisterMethod = "/v1beta1.Registration/Register";

struct Preference {
  std::vector<std::string> available, must_include;
  std::size_t size = 0;
};

std::string EncodeRegistration(const std::string& endpoint, const std::string& resource, bool pre_start);
// `pre_start`: kubelet calls the plugin when a container is about to start.
std::string EncodeOptions(bool pre_start);
std::string EncodeDevices(const std::vector<Device>& devices);
std::optional<std::vector<Preference>> DecodePreferences(std::string_view bytes);
std::string EncodePreferred(const std::vector<std::vector<std::string>>& containers);
// The ids of the devices of each container.
std::optional<std::vector<std::vector<std::string>>> DecodeAllocation(std::string_view bytes);
std::string EncodeGrants(const std::vector<ContainerAllocateResponse>& containers);
// Reads the answer of kubelet's pod-resources socket.
std::optional<std::vector<ContainerDeviceIds>> DecodePodResources(std::string_view bytes);

}  // namespace gpuman::kubernetes
