// Internal to the codec: the fields of device_types.h.
#pragma once

#include "api/device_types.h"
#include "api/json_types.h"
#include "base/json.h"

namespace gpuman::api {

template <typename V, base::json::Of<SettingRange> T>
void Fields(V& v, T& x) {
  v.Required("min", x.least);
  v.Required("max", x.most);
}

template <typename V, base::json::Of<DeviceSetting> T>
void Fields(V& v, T& x) {
  v.Required("name", x.name);
  v("supported", x.supported);
  v("why", x.why);
  v("now", x.now);
  v("pending", x.pending);
  v("wanted", x.wanted);
  v("because", x.because);
  v("default", x.usual);
  v("range", x.range);
  v("choices", x.choices);
  v("drift", x.drift);
  v("since", x.since);
}

template <typename V, base::json::Of<DeviceProfileInForce> T>
void Fields(V& v, T& x) {
  v.Required("name", x.name);
  v("until", x.until);
  v("job", x.job);
}

template <typename V, base::json::Of<DeviceView> T>
void Fields(V& v, T& x) {
  v.Required("index", x.index);
  v.Required("uuid", x.uuid);
  v("name", x.name);
  v("problem", x.problem);
  v.Group("clocks_mhz", [&](auto& group) {
    group("graphics", x.graphics_mhz);
    group("memory", x.memory_mhz);
  });
  v("profiles", x.profiles);
  v("settings", x.settings);
}

template <typename V, base::json::Of<DeviceList> T>
void Fields(V& v, T& x) {
  v.Required("devices", x.devices);
}

template <typename V, base::json::Of<DeviceSettingsRequest> T>
void Fields(V& v, T& x) {
  v("gpus", x.gpus);
  v("set", x.set);
  v("reset", x.reset);
  v.Option("clear_ecc", x.clear_ecc);
  v.Changed("dry_run", x.dry_run, false);
}

template <typename V, base::json::Of<DeviceProfileRequest> T>
void Fields(V& v, T& x) {
  v("gpus", x.gpus);
  v("name", x.name);
  v.Option("for", x.duration);
  v.Changed("dry_run", x.dry_run, false);
}

template <typename V, base::json::Of<DeviceStep> T>
void Fields(V& v, T& x) {
  v.Required("index", x.index);
  v.Required("uuid", x.uuid);
  v.Required("setting", x.setting);
  v("from", x.from);
  v.Required("to", x.to);
}

template <typename V, base::json::Of<DeviceSettingsResult> T>
void Fields(V& v, T& x) {
  v("dry_run", x.dry_run);
  v.Required("steps", x.steps);
  v("notes", x.notes);
}

template <typename V, base::json::Of<DeviceProfile> T>
void Fields(V& v, T& x) {
  v.Required("name", x.name);
  v("summary", x.summary);
  v("built_in", x.built_in);
  v.Required("settings", x.settings);
}

template <typename V, base::json::Of<DeviceProfileList> T>
void Fields(V& v, T& x) {
  v.Required("profiles", x.profiles);
}

}  // namespace gpuman::api
