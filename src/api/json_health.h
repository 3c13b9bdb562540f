// Internal to api/json.cc: the fields of health_types.h.
#pragma once

#include "api/health_types.h"
#include "api/json_types.h"
#include "base/json.h"

namespace gpuman::api {

template <typename V, base::json::Of<FaultView> T>
void Fields(V& v, T& x) {
  v.Required("code", x.code);
  v.Required("state", x.state);
  v("action", x.action);
  v("text", x.text);
  v("since", x.since);
  v("last", x.last);
  v("count", x.count);
  v("acknowledged", x.acknowledged);
}

template <typename V, base::json::Of<GpuHealth> T>
void Fields(V& v, T& x) {
  v("index", x.index);
  v.Required("uuid", x.uuid);
  v("name", x.name);
  v.Required("health", x.health);
  v("action", x.action);
  v("advice", x.advice);
  v("faults", x.faults);
}

template <typename V, base::json::Of<HealthReport> T>
void Fields(V& v, T& x) {
  v.Required("gpus", x.gpus);
}

template <typename V, base::json::Of<HealthAcknowledgement> T>
void Fields(V& v, T& x) {
  v.Required("gpu", x.gpu);
  v("code", x.code);
}

}  // namespace gpuman::api
