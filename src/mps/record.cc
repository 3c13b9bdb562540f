#include "mps/record.h"

#include "base/json.h"

namespace gpuman::mps {
namespace {

constexpr base::json::JsonFormat kFormat{.strict = true};

}  // namespace

template <typename V, base::json::Of<GpuRecord> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  Fields(v, x.control);
  v.Required("boot", x.boot);
  v("changed", x.changed);
  v("protocol", x.protocol);
  v("time_slices", x.time_slices);
  v.Required("threads", x.limits.threads);
  v.Required("memory", x.limits.memory);
  v.Required("since", x.since);
}

std::string SerializeRecord(const GpuRecord& record) { return base::json::ToText(record, kFormat); }

base::Result<GpuRecord> ParseRecord(std::string_view text) {
  return base::json::FromText<GpuRecord>(text, kFormat, "the stored state of a GPU's MPS");
}

}  // namespace gpuman::mps
