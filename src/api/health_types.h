// What is wrong with the GPUs, as the API shows it. Values; health/monitor.h says what the words mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"

namespace gpuman::api {

struct FaultView {
  std::string code;    // row_remap_failed, xid_79, …
  std::string state;   // degraded, unhealthy
  std::string action;  // reset, reboot, inspect_link, …
  std::string text;    // a sentence with the figures
  base::WallTime since{}, last{};
  std::uint64_t count = 1;
  bool acknowledged = false;
};

struct GpuHealth {
  std::optional<int> index;  // null: the driver does not list it any more
  std::string uuid;
  std::string name;
  HealthView health;
  std::string action;  // the first thing to do; "none"
  std::string advice;  // the same as a sentence; empty if none
  std::vector<FaultView> faults;
};

// GET /v1/health
struct HealthReport {
  std::vector<GpuHealth> gpus;
};

// POST /v1/health/acknowledge
struct HealthAcknowledgement {
  std::string gpu;                  // index, UUID or beginning of a UUID
  std::optional<std::string> code;  // null: every fault of the GPU
};

}  // namespace gpuman::api
