// What a device is a part of, where it is an instance of a GPU (MIG). Values.
#pragma once

#include <optional>
#include <string>

namespace gpuman::api {

struct InstancePart {
  std::string parent;  // UUID of the GPU
  unsigned gpu_instance = 0, compute_instance = 0;
  std::string profile;  // "1g.18gb"
};

// What people call a device in a list: "0"; "0:1" of an instance; "-": it has no number.
template <typename Device>
std::string NumberOf(const Device& device) {
  if (device.number) return *device.number;
  return device.index ? std::to_string(*device.index) : std::string("-");
}

}  // namespace gpuman::api
