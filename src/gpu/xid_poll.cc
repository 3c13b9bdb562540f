#include "gpu/xid_poll.h"

#include <utility>

#include "gpu/inventory.h"

namespace gpuman::gpu {
namespace {

constexpr std::uint64_t kXid = driver::abi::nvmlEventTypeXidCriticalError;
constexpr int kAtOnce = 256;  // limits the time of one call for a GPU that reports errors without end

}  // namespace

std::shared_ptr<XidPoll> XidPoll::Make(std::shared_ptr<const driver::Nvml> nvml,
                                       const std::vector<std::string>& uuids) {
  auto events = nvml->CreateEventSet();
  if (!events) return nullptr;
  const std::shared_ptr<XidPoll> poll(new XidPoll(nvml, std::move(*events)));
  for (const auto& uuid : uuids) {
    if (IsInstance(uuid)) continue;  // its errors are reported for its GPU
    const auto device = nvml->DeviceByUuid(uuid);
    const auto types = device ? nvml->SupportedEvents(*device) : tl::unexpected(device.error());
    if (types && (*types & kXid) != 0 && poll->events_.Add(*device, kXid)) poll->uuids_[*device] = uuid;
  }
  return poll->uuids_.empty() ? nullptr : poll;
}

std::optional<std::vector<XidEvent>> XidPoll::Take() {
  std::vector<XidEvent> seen;
  for (int i = 0; i < kAtOnce; ++i) {
    const auto event = events_.Wait(base::Millis(0));
    if (!event) return seen.empty() ? std::nullopt : std::optional(std::move(seen));
    if (!*event) break;
    const auto uuid = uuids_.find((*event)->device);
    if ((*event)->type == kXid && uuid != uuids_.end())
      seen.push_back({uuid->second, static_cast<unsigned>((*event)->data)});
  }
  return seen;
}

}  // namespace gpuman::gpu
