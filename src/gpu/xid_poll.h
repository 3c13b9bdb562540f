// The driver's errors (Xids) as they come, asked for from time to time: the driver keeps them meanwhile.
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

struct XidSeen {
  std::string uuid;
  unsigned xid = 0;
  friend bool operator==(const XidSeen&, const XidSeen&) = default;
};

class XidPoll {
 public:
  // Of those GPUs that can report them; nullptr: none can now, or the driver has no events.
  static std::shared_ptr<XidPoll> Make(std::shared_ptr<const driver::Nvml> nvml,
                                       const std::vector<std::string>& uuids);

  // What came since, in order; nullopt: the driver cannot say any more, and this one is of no use.
  std::optional<std::vector<XidSeen>> Take();

 private:
  XidPoll(std::shared_ptr<const driver::Nvml> nvml, driver::NvmlEventSet events)
      : nvml_(std::move(nvml)), events_(std::move(events)) {}

  std::shared_ptr<const driver::Nvml> nvml_;
  driver::NvmlEventSet events_;
  std::map<driver::NvmlDevice, std::string> uuids_;
};

}  // namespace gpuman::gpu
