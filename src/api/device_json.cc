#include <fmt/format.h>

#include "api/json_codec.h"
#include "api/json_device.h"

namespace gpuman::api {

constexpr bool IsRequest(const DeviceSettingsRequest*) { return true; }
constexpr bool IsRequest(const DeviceProfileRequest*) { return true; }

static void Check(base::json::ParseState& r, const DeviceSettingsRequest& change) {
  if (change.set.empty() && change.reset.empty() && !change.clear_ecc)
    r.Fail("", "it changes nothing: there is neither set, nor reset, nor clear_ecc");
  if (change.clear_ecc && *change.clear_ecc != "volatile" && *change.clear_ecc != "aggregate")
    r.Fail("clear_ecc", fmt::format("'{}' is neither volatile nor aggregate", *change.clear_ecc));
}
static void Check(base::json::ParseState& r, const DeviceProfileRequest& change) {
  if (change.duration && !change.name) r.Fail("for", "there is no profile that it could be for");
  if (change.duration && change.duration->count() <= 0)
    r.Fail("for", "a profile is put on for longer than no time");
}

GPUMAN_CODEC(DeviceList);
GPUMAN_CODEC(DeviceView);
GPUMAN_CODEC(DeviceSettingsRequest);
GPUMAN_CODEC(DeviceProfileRequest);
GPUMAN_CODEC(DeviceSettingsResult);
GPUMAN_CODEC(DeviceProfileList);
GPUMAN_CODEC(DeviceProfile);

}  // namespace gpuman::api
