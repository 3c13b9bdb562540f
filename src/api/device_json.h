// The JSON of device_types.h, and the calls about devices. As in json.h and client.h.
#pragma once

#include "api/client.h"
#include "api/device_types.h"
#include "api/json.h"

namespace gpuman::api {

Json ToJson(const DeviceList& value);
Json ToJson(const DeviceView& value);
Json ToJson(const DeviceChange& value);
Json ToJson(const DeviceProfileChange& value);
Json ToJson(const DeviceReport& value);
Json ToJson(const DeviceProfileList& value);
Json ToJson(const DeviceProfile& value);

// Empty `gpu`: all GPUs.
base::Result<DeviceList> Devices(const Client& daemon, const std::string& gpu);
base::Result<DeviceReport> ChangeDevices(const Client& daemon, const DeviceChange& change);
base::Result<DeviceReport> ChangeDeviceProfile(const Client& daemon, const DeviceProfileChange& change);
base::Result<DeviceProfileList> DeviceProfiles(const Client& daemon);

}  // namespace gpuman::api
