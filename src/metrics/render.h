// Makes an answer of /metrics from a snapshot. Pure.
#pragma once

#include <string>

#include "metrics/snapshot.h"

namespace gpuman::metrics {

// `with_dcgm` false: leaves out the families with dcgm-exporter's names.
std::string Render(const Snapshot& snapshot, bool with_dcgm);

}  // namespace gpuman::metrics
