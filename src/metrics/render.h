// An answer of /metrics from what is known. Pure.
#pragma once

#include <string>

#include "metrics/snapshot.h"

namespace gpuman::metrics {

// `with_dcgm` false: without the families under dcgm-exporter's names.
std::string Render(const Snapshot& snapshot, bool with_dcgm);

}  // namespace gpuman::metrics
