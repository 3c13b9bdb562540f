// Internal to api/json.cc: the fields of history_types.h.
#pragma once

#include "api/history_types.h"
#include "base/json.h"

namespace gpuman::api {

template <typename V, base::json::Of<HistoryBytes> T>
void Fields(V& v, T& x) {
  v.Required("mean", x.mean);
  v.Required("min", x.min);
  v.Required("max", x.max);
}

template <typename V, base::json::Of<HistoryFigures> T>
void Fields(V& v, T& x) {
  v.Required("mean", x.mean);
  v.Required("min", x.min);
  v.Required("max", x.max);
}

template <typename V, base::json::Of<HistoryStateFractions> T>
void Fields(V& v, T& x) {
  v.Required("running", x.running);
  v.Required("waiting", x.waiting);
  v.Required("suspended", x.suspended);
}

template <typename V, base::json::Of<HistoryView> T>
void Fields(V& v, T& x) {
  v("gpu", x.gpu);
  v("gpu_number", x.gpu_number);
  v("job", x.job);
  v("tag", x.tag);
  v.Required("since", x.since);
  v.Required("until", x.until);
  v.Required("step", x.step);
  v("resolution", x.resolution);
  v("memory_limit", x.memory_limit);
  v.Required("recorded", x.recorded);
  v.Required("memory", x.memory);
  v("utilization", x.utilization);
  v("power_w", x.power_w);
  v("temperature_c", x.temperature_c);
  v("states", x.states);
}

}  // namespace gpuman::api
