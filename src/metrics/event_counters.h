// Counts events since the daemon started. Pure.
//
// The set of labels is bounded: kinds and states are fixed words of the program. The first `kMaxOwners`
// owners (a user with a project) are counted separately, later owners together as "other".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/histogram.h"

namespace gpuman::metrics {

struct CountedOwner {
  std::string user{}, project{};
  friend auto operator<=>(const CountedOwner&, const CountedOwner&) = default;
};

// An event of the daemon, with the known data of its job.
struct Event {
  std::string kind{};
  std::optional<CountedOwner> owner{};  // of the job; nullopt: the event has no job, or the job is gone
  std::map<std::string, std::int64_t> data{};
  std::optional<double> waited_seconds{};  // the time in the queue, if a job of the queue started
};

class EventCounters {
 public:
  static constexpr std::size_t kMaxOwners = 1000;

  void On(const Event& event);
  void OnXid(const std::string& uuid, unsigned xid);

  struct Xids {
    unsigned last = 0;
    std::map<unsigned, std::uint64_t> by_number{};
  };
  const std::map<std::string, std::uint64_t>& events() const { return events_; }  // by kind
  // By owner and by "soft" or "hard".
  const std::map<std::pair<CountedOwner, std::string>, std::uint64_t>& limit_hits() const {
    return limit_hits_;
  }
  const std::map<CountedOwner, std::uint64_t>& started() const { return started_; }
  // By state.
  const std::map<std::pair<CountedOwner, std::string>, std::uint64_t>& ended() const { return ended_; }
  const std::map<std::string, std::uint64_t>& suspensions() const { return suspensions_; }  // by direction
  std::uint64_t suspended_bytes() const { return suspended_bytes_; }
  const base::Histogram& waits() const { return waits_; }
  // nullptr: no Xid was seen.
  const Xids* XidsOf(const std::string& uuid) const;

 private:
  CountedOwner Known(const std::optional<CountedOwner>& owner);

  std::set<CountedOwner> owners_;
  std::map<std::string, std::uint64_t> events_;
  std::map<std::pair<CountedOwner, std::string>, std::uint64_t> limit_hits_, ended_;
  std::map<CountedOwner, std::uint64_t> started_;
  std::map<std::string, std::uint64_t> suspensions_;
  std::uint64_t suspended_bytes_ = 0;
  base::Histogram waits_{{1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 259200}};
  std::map<std::string, Xids> xids_;  // by UUID
};

}  // namespace gpuman::metrics
