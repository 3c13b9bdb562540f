// The facts that the doctor examines: a snapshot of this machine. A value; an absent fact means unknown,
// never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuman::doctor {

struct GpuFacts {
  unsigned index = 0;
  std::string uuid{}, name{};
  std::string problem{};  // why the GPU does not answer; empty: it does
  base::Bytes memory{};
  std::optional<bool> persistence{};
  std::optional<bool> ecc{}, ecc_pending{};
  std::optional<std::uint64_t> clock_reasons{};              // NVML's clocks event reasons at present
  std::optional<std::uint64_t> thermal_ns{}, power_ns{};     // time with reduced clocks since the driver load
  std::optional<unsigned> app_clock{}, default_app_clock{};  // MHz
  std::optional<unsigned> power_limit{}, default_power_limit{};  // mW
  std::optional<unsigned> link_width{}, most_link_width{};       // lanes
  std::optional<unsigned> link_gen{}, most_link_gen{};
  std::optional<unsigned> utilization{};  // percent
  std::optional<bool> mig{}, mig_pending{};
  std::optional<unsigned> mig_instances{};
};

struct DriverFacts {
  std::string problem{};                // why NVML cannot be used; empty: it can be
  std::optional<std::string> nvml{};    // the driver's version, by the library
  std::optional<std::string> kernel{};  // the driver's version, by the kernel module
  std::optional<int> nvml_cuda{};       // the newest CUDA version, by NVML; 13000 is 13.0
  std::optional<int> libcuda{};         // the same, by libcuda
  std::string libcuda_problem{};
};

struct IdleGpuProcess {
  unsigned gpu = 0;
  int pid = 0;
  std::string user{}, name{};
  std::optional<base::Bytes> memory{};
  base::Millis idle{0};
};

struct ReportedFault {
  std::string gpu{}, code{}, text{};
  bool unhealthy = false;
};

struct MpsOfGpu {
  unsigned gpu = 0;
  std::string state{}, problem{};
  std::size_t outside = 0;
};

// A setting that the daemon keeps on a GPU, as text.
struct KeptSetting {
  unsigned gpu = 0;
  std::string name{}, wanted{}, because{};  // "graphics clocks", "1200,1400", "asked for"
  std::optional<std::string> now{};
  bool drift = false;   // the present value is not the wanted one
  bool locked = false;  // clocks that do not follow the load
};

struct DaemonFacts {
  std::string problem{};                 // why the daemon does not answer; empty: it does
  std::string version{}, own_version{};  // of the daemon, of this program
  std::optional<std::vector<IdleGpuProcess>> idle{};
  std::optional<std::vector<ReportedFault>> faults{};
  std::optional<std::vector<MpsOfGpu>> mps{};
  std::optional<std::vector<KeptSetting>> kept{};
};

struct CallingUser {
  std::string user{};
  bool root = false;
  bool user_daemon = false;  // the daemon runs with --user: groups do not matter
  bool group_exists = false, in_group = false;
};

struct ShimFacts {
  std::string path{};            // empty: not found
  std::string problem{};         // the message of the dynamic linker; empty: it loads
  std::string system_preload{};  // the text of /etc/ld.so.preload
};

struct MachineFacts {
  std::optional<base::Bytes> memory{};
  std::optional<base::Bytes> shm{};
  std::optional<base::Bytes> state_free{};
  std::string state_dir{};
  std::optional<std::uint64_t> memlock{};   // bytes; UINT64_MAX: no limit
  std::optional<std::string> huge_pages{};  // always, madvise, never
  std::optional<bool> cgroup2{};
  std::vector<std::string> controllers{};
};

// The time of a first CUDA call: `cold` on an idle GPU, `warm` beside a process that uses it.
struct ColdStart {
  unsigned gpu = 0;
  base::Millis cold{0}, warm{0};
  std::string problem{};
};

// Two GPUs of which one cannot access the other's memory, by their indices.
struct NoPeerAccess {
  unsigned gpu = 0, other = 0;
};

struct Facts {
  DriverFacts driver;
  std::vector<GpuFacts> gpus;
  std::optional<std::vector<NoPeerAccess>> apart{};  // of the GPUs that answer and are not split
  DaemonFacts daemon;
  CallingUser caller;
  ShimFacts shim;
  MachineFacts host;
  std::optional<std::string> config_problem{};  // empty: no problem; absent: not checked
  std::optional<ColdStart> cold_start{};
};

}  // namespace gpuman::doctor
