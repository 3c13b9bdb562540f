#include "energy/gpu_energy_record.h"

#include "base/json.h"

namespace gpuman::energy {
namespace {

constexpr base::json::JsonFormat kRecordFormat{};

}  // namespace

template <typename V, base::json::Of<EnergyHolder> T>
void Fields(V& v, T& x) {
  v.Required("job", x.job);
  v.Required("weight", x.weight);
  v.Changed("moves", x.moves);
  v.Check(x.weight > 0, "weight", "is not above 0");
}

template <typename V, base::json::Of<GpuEnergyRecord> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  v.Required("boot", x.boot);
  v.Required("counter", x.counter);
  v.Required("at_ns", x.at_ns);
  v.Required("holders", x.holders);
  v.Option("rest_watts", x.rest_watts);
  v.Required("counted", x.counted);
  v.Required("idle", x.idle);
  v.Required("others", x.others);
  v.Required("ended", x.ended);
  v.Required("jobs", x.jobs);
}

std::string SerializeRecord(const GpuEnergyRecord& record) {
  return base::json::ToText(record, kRecordFormat);
}

base::Result<GpuEnergyRecord> ParseRecord(std::string_view text) {
  return base::json::FromText<GpuEnergyRecord>(text, kRecordFormat, "the stored account of a GPU's energy");
}

}  // namespace gpuman::energy
