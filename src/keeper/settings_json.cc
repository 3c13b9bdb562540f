#include "keeper/settings_json.h"

namespace gpuman::keeper {

Json PolicyToJson(const RestartPolicy& policy) {
  Json json = {{"mode", ToString(policy.mode)},
               {"initial_delay_ms", ToJson(policy.initial_delay)},
               {"max_delay_ms", ToJson(policy.max_delay)},
               {"reset_after_ms", ToJson(policy.reset_after)}};
  Put(json, "max_restarts", policy.max_restarts);
  return json;
}

void TakePolicy(Fields& fields, const char* name, RestartPolicy& policy) {
  const Json* object = fields.Find(name);
  if (!object) return;
  Fields inner(*object);
  inner.NeedWord("mode", policy.mode, [](const std::string& word) { return ParseRestartMode(word); });
  inner.Take("initial_delay_ms", policy.initial_delay);
  inner.Take("max_delay_ms", policy.max_delay);
  inner.Take("reset_after_ms", policy.reset_after);
  inner.Take("max_restarts", policy.max_restarts);
  if (auto done = inner.Finish(name); !done) return fields.Complain(done.error().message);
  if (auto checked = CheckPolicy(policy); !checked) fields.Complain(checked.error().message);
}

base::Result<> CheckPolicy(const RestartPolicy& policy) {
  GPUMAN_TRY(CheckTime(policy.initial_delay, "the first restart delay"));
  GPUMAN_TRY(CheckTime(policy.max_delay, "the longest restart delay"));
  return CheckTime(policy.reset_after, "the time after which restarts count anew");
}

base::Result<> CheckRotations(std::uint32_t rotations) {
  if (rotations <= 1000) return {};
  return base::Fail(base::ErrorCode::kInvalidArgument, "at most 1000 older log files can be kept");
}

base::Result<> CheckTime(base::Millis time, std::string_view what) {
  constexpr auto kLongest = std::chrono::hours(24 * 3650);  // additions to a clock stay far from overflow
  if (time.count() >= 0 && time <= kLongest) return {};
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    std::string(what) + " must lie between 0 and ten years");
}

}  // namespace gpuman::keeper
