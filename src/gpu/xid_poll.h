// Asks the driver from time to time for its errors (Xids); the driver keeps them meanwhile.
//
// One thread at a time. Keeps its driver loaded.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/nvml.h"

namespace gpuman::gpu {

struct XidEvent {
  std::string uuid;
  unsigned xid = 0;
  friend bool operator==(const XidEvent&, const XidEvent&) = default;
};

class XidPoll {
 public:
  // For those of the GPUs that can report errors. nullptr: none can now, or the driver has no events.
  static std::shared_ptr<XidPoll> Make(std::shared_ptr<const driver::Nvml> nvml,
                                       const std::vector<std::string>& uuids);

  // The errors since the last call, in order. nullopt: the driver cannot report any more, and this object is
  // of no use.
  std::optional<std::vector<XidEvent>> Take();

 private:
  XidPoll(std::shared_ptr<const driver::Nvml> nvml, driver::NvmlEventSet events)
      : nvml_(std::move(nvml)), events_(std::move(events)) {}

  std::shared_ptr<const driver::Nvml> nvml_;
  driver::NvmlEventSet events_;
  std::map<driver::NvmlDevice, std::string> uuids_;
};

}  // namespace gpuman::gpu
