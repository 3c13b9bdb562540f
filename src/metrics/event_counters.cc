#include "metrics/event_counters.h"

#include <algorithm>
#include <string_view>

namespace gpuman::metrics {
namespace {

std::uint64_t Number(const std::map<std::string, std::int64_t>& data, const char* name) {
  const auto it = data.find(name);
  return it == data.end() ? 0 : static_cast<std::uint64_t>(std::max<std::int64_t>(it->second, 0));
}

// The state of an ended job that this kind of event reports; empty: it reports no end.
std::string_view EndOf(std::string_view kind) {
  for (const std::string_view state : {"finished", "failed", "cancelled", "timeout", "killed"})
    if (kind.starts_with("job_") && kind.substr(4) == state) return state;
  return {};
}

// The direction of a suspension or move; empty: the event is neither.
std::string_view DirectionOf(std::string_view kind) {
  if (kind == "job_suspended") return "out";
  if (kind == "job_resumed") return "back";
  return kind == "job_moved" ? "moved" : std::string_view();
}

}  // namespace

CountedOwner EventCounters::Known(const std::optional<CountedOwner>& owner) {
  if (!owner) return {};
  if (owners_.contains(*owner)) return *owner;
  if (owners_.size() >= kMaxOwners) return {"other", "other"};
  owners_.insert(*owner);
  return *owner;
}

void EventCounters::On(const Event& event) {
  const std::string_view kind = event.kind;
  ++events_[event.kind];
  if (kind == "soft_limit" || kind == "hard_limit")
    ++limit_hits_[{Known(event.owner), kind == "soft_limit" ? "soft" : "hard"}];
  if (kind == "job_started" || kind == "job_restarted") ++started_[Known(event.owner)];
  if (const auto state = EndOf(kind); !state.empty()) ++ended_[{Known(event.owner), std::string(state)}];
  if (const auto direction = DirectionOf(kind); !direction.empty()) ++suspensions_[std::string(direction)];
  if (kind == "job_suspended")
    suspended_bytes_ += Number(event.data, "evicted") + Number(event.data, "checkpointed");
  if (event.waited_seconds) waits_.Observe(*event.waited_seconds);
}

void EventCounters::OnXid(const std::string& uuid, unsigned xid) {
  auto& xids = xids_[uuid];
  xids.last = xid;
  ++xids.by_number[xid];
}

const EventCounters::Xids* EventCounters::XidsOf(const std::string& uuid) const {
  const auto it = xids_.find(uuid);
  return it == xids_.end() ? nullptr : &it->second;
}

}  // namespace gpuman::metrics
