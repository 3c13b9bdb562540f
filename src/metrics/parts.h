// The parts of an answer. Internal to src/metrics.
#pragma once

#include "metrics/exposition.h"
#include "metrics/snapshot.h"

namespace gpuman::metrics {

inline Labels LabelsOf(unsigned index, const std::string& uuid) {
  return Labels("gpu", std::to_string(index)).Add("uuid", uuid);
}

void AddDevices(const Snapshot& snapshot, Exposition& out);
void AddDcgm(const Snapshot& snapshot, Exposition& out);
void AddJobs(const Snapshot& snapshot, Exposition& out);

}  // namespace gpuman::metrics
