// Reads one GPU through NVML and says whether anything is new. No thread, no clock: the sampler has those.
//
// Of an instance it reads memory and processes: the rest the driver tells of whole GPUs alone.
//
// One thread at a time. A call may hang: that is the sampler's business.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "driver/nvml.h"
#include "gpu/detail_reader.h"
#include "gpu/health_reader.h"
#include "gpu/inventory.h"
#include "gpu/listing.h"
#include "gpu/sample.h"

namespace gpuman::gpu {

// The driver's devices, with the instances of those in MIG mode. A device that does not even say its name is
// left out, and `problem` says so.
Inventory ReadInventory(const driver::Nvml& nvml);

// What each GPU is split into, by its index. ReadDivision leaves out those that cannot be asked now; it takes
// some microseconds where none is split, so that it can be asked for often.
struct Division {
  bool split = false;
  std::vector<std::string> instances{};  // UUIDs
  friend bool operator==(const Division&, const Division&) = default;
};
using Divisions = std::map<unsigned, Division>;
Divisions ReadDivisions(const driver::Nvml& nvml);
Divisions DivisionsOf(const Inventory& inventory);
// Whether something of `seen` is not as it was; what is not in it is not known.
bool IsDividedAnew(const Divisions& before, const Divisions& seen);

enum class Depth {
  kMemory,     // processes only when the memory in use changed, and now and then (listing.h)
  kProcesses,  // memory and processes
  kReadings,   // as kMemory, and the slow readings; always news
  kAll,        // everything; always news
};

class Reader {
 public:
  explicit Reader(std::string uuid) { last_.uuid = std::move(uuid); }

  const std::string& uuid() const { return last_.uuid; }
  // The driver to ask; after it was loaded anew, another one. nullptr: there is none.
  void SetNvml(std::shared_ptr<const driver::Nvml> nvml);

  // The sample when it differs from the last one in more than its time, or is always news. `details`:
  // somebody wants those.
  std::optional<Sample> Read(base::MonoTime now, Depth depth, DetailsWanted details);

  // Of the last Read: it failed, and why.
  bool failed() const { return failure_.has_value(); }
  bool driver_gone() const { return failure_ == driver::NvmlFailure::kNoDriver; }
  bool device_gone() const {
    return failure_ == driver::NvmlFailure::kGpuLost || failure_ == driver::NvmlFailure::kNotFound;
  }

 private:
  std::optional<Sample> Fail(base::MonoTime now, const driver::NvmlError& error);
  // False and `error` set when the GPU cannot be talked to.
  bool ReadProcesses(base::MonoTime now, std::optional<std::vector<GpuProcess>>& processes,
                     driver::NvmlError& error);
  SlowReadings ReadSlow(base::MonoTime now) const;
  std::optional<std::vector<pid_t>> ReadBusy();

  std::shared_ptr<const driver::Nvml> nvml_;
  driver::NvmlDevice device_ = nullptr;  // nullptr: to be asked for
  Sample last_;
  std::optional<driver::NvmlFailure> failure_;
  Listing listing_;
  unsigned slow_reads_ = 0;
  std::uint64_t busy_since_us_ = 0;  // the newest of the driver's samples that was read
  HealthReader health_;
  DetailReader details_;
};

}  // namespace gpuman::gpu
