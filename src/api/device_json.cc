#include "api/device_json.h"

#include <fmt/format.h>

#include "api/ask.h"
#include "api/json_codec.h"
#include "api/json_device.h"

namespace gpuman::api {

constexpr bool IsRequest(const DeviceChange*) { return true; }
constexpr bool IsRequest(const DeviceProfileChange*) { return true; }

static void Check(base::json::Reading& r, const DeviceChange& change) {
  if (change.set.empty() && change.reset.empty() && !change.clear_ecc)
    r.Fail("", "it changes nothing: there is neither set, nor reset, nor clear_ecc");
  if (change.clear_ecc && *change.clear_ecc != "volatile" && *change.clear_ecc != "aggregate")
    r.Fail("clear_ecc", fmt::format("'{}' is neither volatile nor aggregate", *change.clear_ecc));
}
static void Check(base::json::Reading& r, const DeviceProfileChange& change) {
  if (change.duration && !change.name) r.Fail("for", "there is no profile that it could be for");
  if (change.duration && change.duration->count() <= 0)
    r.Fail("for", "a profile is put on for longer than no time");
}

#define GPUMAN_DEVICE_CODEC(T)                                              \
  Json ToJson(const T& value) { return base::json::Write(kFormat, value); } \
  GPUMAN_CODEC(T)
GPUMAN_DEVICE_CODEC(DeviceList);
GPUMAN_DEVICE_CODEC(DeviceView);
GPUMAN_DEVICE_CODEC(DeviceChange);
GPUMAN_DEVICE_CODEC(DeviceProfileChange);
GPUMAN_DEVICE_CODEC(DeviceReport);
GPUMAN_DEVICE_CODEC(DeviceProfileList);
GPUMAN_DEVICE_CODEC(DeviceProfile);
#undef GPUMAN_DEVICE_CODEC

base::Result<DeviceList> Devices(const Client& daemon, const std::string& gpu) {
  Query query;
  if (!gpu.empty()) query.Add("gpu", gpu);
  return AskPatiently(daemon, routes::kDevices, {{}, query});
}

base::Result<DeviceReport> ChangeDevices(const Client& daemon, const DeviceChange& change) {
  return AskPatiently(daemon, routes::kChangeDevices, {}, change);
}

base::Result<DeviceReport> ChangeDeviceProfile(const Client& daemon, const DeviceProfileChange& change) {
  return AskPatiently(daemon, routes::kChangeDeviceProfile, {}, change);
}

base::Result<DeviceProfileList> DeviceProfiles(const Client& daemon) {
  return AskPatiently(daemon, routes::kDeviceProfiles);
}

}  // namespace gpuman::api
