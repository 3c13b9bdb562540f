// Where a device that is an instance (MIG) belongs. Values.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace gpuman::api {

struct InstancePart {
  std::string parent;  // UUID of the GPU
  unsigned gpu_instance = 0, compute_instance = 0;
  std::string profile;  // "1g.18gb"
};

// The name of a device in lists: "0"; "0:1" for an instance; "-" if it has no number.
template <typename Device>
std::string NumberOf(const Device& device) {
  if (device.number) return *device.number;
  return device.index ? std::to_string(*device.index) : std::string("-");
}

// The names of the devices with these UUIDs, with commas between them: "0,1:2". Where `devices` has no such
// device, the first characters of its UUID stand for it.
template <typename Device>
std::string NumbersOf(const std::vector<std::string>& uuids, const std::vector<Device>& devices,
                      std::size_t characters = 12) {
  std::string text;
  for (const auto& uuid : uuids) {
    const auto it = std::find_if(devices.begin(), devices.end(),
                                 [&](const Device& device) { return device.uuid == uuid; });
    if (!text.empty()) text += ',';
    text += it != devices.end() ? NumberOf(*it) : uuid.substr(0, characters);
  }
  return text;
}

}  // namespace gpuman::api
