// Numbers events, keeps them, and hands them to followers. The newest are kept in memory, so that a reader
// never waits for the disk. The store keeps all events for as long as the configuration says.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "jobs/event.h"

namespace gpuman::daemon {

struct EventLogSettings {
  std::size_t in_memory = 10'000;
  std::size_t keep_count = 100'000;
  std::chrono::milliseconds keep{30LL * 86'400'000};
};

class EventLog {
 public:
  // Writes an event to the store. Events before `first_kept` may be deleted.
  using Write = std::function<void(const jobs::Event& event, std::optional<std::int64_t> first_kept)>;
  using Filter = std::function<bool(const jobs::Event&)>;
  using Follower = std::function<void(const jobs::Event&)>;

  // `stored`: the events of the store, by id; `last_id`: the highest id ever given.
  EventLog(EventLogSettings settings, std::vector<jobs::Event> stored, std::int64_t last_id, Write write);

  // The settings hold from the next event on.
  void SetSettings(EventLogSettings settings) { settings_ = settings; }

  // Gives the event its number.
  void Add(jobs::Event event);

  // The first event after `id`; nullptr: there is none.
  const jobs::Event* After(std::int64_t id) const;
  // The id just before the newest `limit` events after `since` that `is_wanted`.
  std::int64_t Before(std::int64_t since, std::size_t limit, const Filter& is_wanted = {}) const;
  // The id of the newest event that is older than this; 0: none of those that are kept is.
  std::int64_t LastOlderThan(base::WallTime time) const;

  // Calls `follower` with every event from now on, until Unfollow. It may unfollow from within the call.
  std::uint64_t Follow(Follower follower);
  void Unfollow(std::uint64_t number) { followers_.erase(number); }

  std::int64_t last_id() const { return last_id_; }

 private:
  std::optional<std::int64_t> FirstKept(const jobs::Event& newest);

  EventLogSettings settings_;
  std::deque<jobs::Event> recent_;
  std::int64_t last_id_;
  std::int64_t first_kept_ = 0;
  Write write_;
  std::map<std::uint64_t, Follower> followers_;
  std::uint64_t next_follower_ = 1;
};

}  // namespace gpuman::daemon
