// The parts of an answer of /metrics. Internal to src/metrics.
#pragma once

#include "metrics/exposition.h"
#include "metrics/snapshot.h"

namespace gpuman::metrics {

inline Labels LabelsOf(const std::string& gpu, const std::string& uuid) {
  return Labels("gpu", gpu).Add("uuid", uuid);
}

void AddDevices(const Snapshot& snapshot, Exposition& out);
void AddDcgm(const Snapshot& snapshot, Exposition& out);
void AddJobs(const Snapshot& snapshot, Exposition& out);

}  // namespace gpuman::metrics
