// Reads one GPU through NVML and says whether anything is new. Has no thread and no clock: the sampler has
// them.
//
// For an instance it reads only memory and processes: the driver reports everything else for whole GPUs only.
//
// One thread at a time. A call may hang; the sampler handles that.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "driver/nvml.h"
#include "gpu/detail_reader.h"
#include "gpu/gpu_sample.h"
#include "gpu/health_reader.h"
#include "gpu/inventory.h"
#include "gpu/process_list_schedule.h"
#include "gpu/process_percents.h"

namespace gpuman::gpu {

// The driver's devices, with the instances of those in MIG mode. A device that does not even report its name
// is left out, and `problem` says so.
Inventory ReadInventory(const driver::Nvml& nvml);

// How each GPU is split, by the GPU's index. ReadDivisions leaves out GPUs that cannot be asked now. It takes
// some microseconds if no GPU is split, so it can be called often.
struct Division {
  bool split = false;
  std::vector<std::string> instances{};  // UUIDs
  friend bool operator==(const Division&, const Division&) = default;
};
using Divisions = std::map<unsigned, Division>;
Divisions ReadDivisions(const driver::Nvml& nvml);
Divisions DivisionsOf(const Inventory& inventory);
// Whether a GPU of `seen` differs from `before`; a GPU that is not in `seen` is not known.
bool IsDividedAnew(const Divisions& before, const Divisions& seen);

enum class ReadDepth {
  kMemory,     // memory; processes only when the memory changed, and now and then (listing.h)
  kProcesses,  // memory and processes
  kReadings,   // like kMemory, with the slow readings; always a new sample
  kAll,        // everything; always a new sample
};

class Reader {
 public:
  explicit Reader(std::string uuid) { last_.uuid = std::move(uuid); }

  const std::string& uuid() const { return last_.uuid; }
  // The driver to ask: another one after it was loaded again, nullptr if there is none.
  void SetNvml(std::shared_ptr<const driver::Nvml> nvml);

  // Returns the sample if it differs from the last one in more than its time, or if `depth` always gives one.
  // `details`: which details are wanted.
  std::optional<GpuSample> Read(base::MonoTime now, ReadDepth depth, DetailsWanted details);

  // The energy counter alone, where it has moved on since the last call. nullopt: it has not, or it is not
  // known; only Read tells why.
  std::optional<EnergyReading> ReadEnergy(base::MonoTime now);

  // Whether the last Read failed, and why.
  bool failed() const { return failure_.has_value(); }
  bool driver_gone() const { return failure_ == driver::NvmlFailure::kNoDriver; }
  bool device_gone() const {
    return failure_ == driver::NvmlFailure::kGpuLost || failure_ == driver::NvmlFailure::kNotFound;
  }

 private:
  std::optional<GpuSample> Fail(base::MonoTime now, const driver::NvmlError& error);
  // False, with `error` set: the GPU does not answer.
  bool ReadProcesses(base::MonoTime now, std::optional<std::vector<GpuProcess>>& processes,
                     driver::NvmlError& error);
  SlowReadings ReadSlow(base::MonoTime now) const;
  void ReadBusy(base::MonoTime now);

  std::shared_ptr<const driver::Nvml> nvml_;
  driver::NvmlDevice device_ = nullptr;  // nullptr: the driver must be asked for it
  GpuSample last_;
  std::optional<driver::NvmlFailure> failure_;
  ProcessListSchedule listing_;
  unsigned slow_reads_ = 0;
  std::uint64_t last_energy_ = 0;    // that ReadEnergy returned
  std::uint64_t busy_since_us_ = 0;  // the newest of the driver's samples that has been read
  ProcessPercents percents_;
  HealthReader health_;
  DetailReader details_;
};

}  // namespace gpuman::gpu
