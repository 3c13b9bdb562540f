// The messages that are not delivered yet: which message is sent next, and what happens after each attempt.
//
//   Add --Stored--> waits --TakeDue--> in flight --RecordAttempt--> gone | waits again | failed and kept
//
// Messages of one user to one receiver are sent in the order of their numbers, one at a time. Messages of
// different users, or to different receivers, do not wait for each other. At most half of the messages in
// flight are of one user.
//
// Pure: the time is an argument, and the caller stores the messages that the outbox returns. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "notify/outbox_message.h"
#include "notify/retry.h"
#include "notify/settings.h"

namespace gpuman::notify {

class Outbox {
 public:
  explicit Outbox(OutboxSettings settings) : settings_(settings) {}

  void SetSettings(OutboxSettings settings) { settings_ = settings; }

  // Whether the outbox accepts one more message of this user. All users together have ten times the room of
  // one user.
  bool HasRoom(const std::string& user) const;
  // A message is not sent before it is stored. To add a number again is no error.
  void Add(OutboxMessage message, bool stored);
  void Stored(std::int64_t number);

  // Returns the messages that are due and may be sent now. They are in flight until RecordAttempt.
  std::vector<OutboxMessage> TakeDue(base::WallTime now);
  // When to call TakeDue again; nullopt: not before the next Add, Stored or RecordAttempt.
  std::optional<base::WallTime> NextDue(base::WallTime now) const;

  struct AttemptResult {
    OutboxMessage message;
    DeliveryOutcome outcome = DeliveryOutcome::kDelivered;
  };
  // nullopt: the message is not in flight. The caller must store a message again if it was not delivered.
  std::optional<AttemptResult> RecordAttempt(std::int64_t number, const Attempt& attempt, base::WallTime now);

  // Drops failed messages that are too old, and the oldest if there are too many. Returns their numbers.
  std::vector<std::int64_t> Prune(base::WallTime now);

  std::vector<std::int64_t> InFlight() const { return {in_flight_.begin(), in_flight_.end()}; }
  // The job's messages that wait, are in flight or have failed, by number.
  std::vector<const OutboxMessage*> OfJob(std::int64_t job) const;
  std::size_t size() const { return entries_.size(); }
  std::size_t failed() const { return failed_.size(); }

 private:
  using Receiver = std::tuple<std::string, ChannelKind, std::string>;  // user, channel, target
  struct Entry {
    OutboxMessage message;
    bool stored = false;
  };
  static Receiver ReceiverOf(const OutboxMessage& message) {
    return {message.user, message.channel, message.target};
  }
  // When a message is due. If the clock was set back, no message waits longer than the longest delay of a
  // retry.
  base::WallTime DueOf(const OutboxMessage& message, base::WallTime now) const;
  bool MayGo(const std::set<std::int64_t>& queue) const;
  void Leave(const OutboxMessage& message);

  OutboxSettings settings_;
  std::map<std::int64_t, Entry> entries_;
  std::map<Receiver, std::set<std::int64_t>> receivers_;  // numbers that wait or are in flight
  std::map<std::string, std::size_t> of_user_;            // the number of these by user
  std::map<std::int64_t, std::set<std::int64_t>> of_job_;
  std::set<std::int64_t> in_flight_;
  std::set<std::int64_t> failed_;
};

}  // namespace gpuman::notify
