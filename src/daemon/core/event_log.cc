#include "daemon/core/event_log.h"

#include <algorithm>
#include <utility>

namespace gpuman::daemon {

// Old events are deleted this many at a time, so that not every event costs a delete.
constexpr std::int64_t kPruneStep = 500;

EventLog::EventLog(EventLogSettings settings, std::vector<jobs::Event> stored, std::int64_t last_id,
                   Write write)
    : settings_(settings), last_id_(last_id), write_(std::move(write)) {
  for (auto& event : stored) recent_.push_back(std::move(event));
  while (recent_.size() > settings_.in_memory) recent_.pop_front();
  first_kept_ = recent_.empty() ? last_id + 1 : recent_.front().id;
}

void EventLog::Add(jobs::Event event) {
  event.id = ++last_id_;
  const auto first_kept = FirstKept(event);
  recent_.push_back(event);
  if (recent_.size() > settings_.in_memory) recent_.pop_front();
  write_(event, first_kept);
  const auto followers = followers_;
  for (const auto& [number, follower] : followers) {
    if (followers_.contains(number)) follower(event);
  }
}

std::optional<std::int64_t> EventLog::FirstKept(const jobs::Event& newest) {
  auto first = std::max<std::int64_t>(1, newest.id - static_cast<std::int64_t>(settings_.keep_count) + 1);
  for (const auto& event : recent_) {
    if (newest.at - event.at <= settings_.keep) break;
    first = std::max(first, event.id + 1);
  }
  if (first < first_kept_ + kPruneStep) return std::nullopt;
  first_kept_ = first;
  return first;
}

const jobs::Event* EventLog::After(std::int64_t id) const {
  const auto next = std::upper_bound(recent_.begin(), recent_.end(), id,
                                     [](std::int64_t at, const jobs::Event& event) { return at < event.id; });
  return next == recent_.end() ? nullptr : &*next;
}

std::int64_t EventLog::Before(std::int64_t since, std::size_t limit, const Filter& is_wanted) const {
  const auto first =
      std::upper_bound(recent_.begin(), recent_.end(), since,
                       [](std::int64_t id, const jobs::Event& event) { return id < event.id; });
  if (is_wanted && limit > 0) {
    for (auto event = recent_.end(); event != first;)
      if (is_wanted(*--event) && --limit == 0) return event->id - 1;
    return since;
  }
  const auto available = static_cast<std::size_t>(recent_.end() - first);
  if (available <= limit) return since;
  return limit == 0 ? last_id_ : (first + static_cast<std::ptrdiff_t>(available - limit))->id - 1;
}

// From the newest back: the clock may have been set, so times need not rise.
std::int64_t EventLog::LastOlderThan(base::WallTime time) const {
  const auto older =
      std::find_if(recent_.rbegin(), recent_.rend(), [&](const auto& event) { return event.at < time; });
  return older == recent_.rend() ? 0 : older->id;
}

std::uint64_t EventLog::Follow(Follower follower) {
  followers_.emplace(next_follower_, std::move(follower));
  return next_follower_++;
}

}  // namespace gpuman::daemon
