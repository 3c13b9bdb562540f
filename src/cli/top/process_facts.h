// What the kernel knows of the host, and of processes on the GPUs: /proc has it for every user. What parses
// is pure.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/units.h"

namespace gpuman::cli::top {

struct ProcessFacts {
  base::ProcessId id;
  base::Millis used{};  // of processors, since its start
  std::optional<double>
      cpu{};  // processors in use since the reading before, 1.5: one and a half; null: first reading
  base::Bytes resident;  // host memory
  base::Millis age{};    // since its start
};

// The units of /proc/PID/stat.
struct ProcStatUnits {
  long ticks_per_second = 100;
  long page_bytes = 4096;
};

// From the text of /proc/PID/stat; `uptime`: of the machine. nullopt: it is no such text.
std::optional<ProcessFacts> ParseFacts(std::string_view stat, base::Millis uptime,
                                       const ProcStatUnits& units);

struct HostFacts {
  double load = 0;  // of the last minute: threads that run or wait to
  unsigned processors = 0;
  base::Bytes used, total;  // memory; what is used cannot be had without swapping
};
// From the texts of /proc/loadavg and /proc/meminfo; nullopt: they are no such texts.
std::optional<HostFacts> ParseHost(const std::string& load, const std::string& memory, unsigned processors);
std::optional<HostFacts> ReadHostFacts();

// Looks at processes again and again. Not thread-safe.
class ProcessReader {
 public:
  // The facts of those that are there.
  std::map<int, ProcessFacts> Read(const std::vector<int>& pids);

 private:
  std::map<int, ProcessFacts> before_;
  base::MonoTime before_at_{};
};

}  // namespace gpuman::cli::top
