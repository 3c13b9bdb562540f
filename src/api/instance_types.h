// Where a device that is an instance (MIG) belongs. Values.
#pragma once

#include <optional>
#include <string>

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

}  // namespace gpuman::api
