// Counts the followers of each party, and writes the text of an event once for all of them.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "daemon/http/party.h"
#include "jobs/event.h"

namespace gpuman::daemon {

// One event of a text/event-stream.
std::string EventFrame(const jobs::Event& event);

class EventFollowers {
 public:
  static constexpr std::size_t kOfParty = 64;  // at a time

  // False: the party has as many as it may have. Each that has entered has to leave.
  bool Enter(http::Party who);
  void Leave(http::Party who);
  // Returns EventFrame(event); the reference is valid until the next call.
  const std::string& FrameOf(const jobs::Event& event);

 private:
  std::map<http::Party, std::size_t> followers_;  // no entry is 0
  std::int64_t framed_ = 0;                       // the event of `frame_`
  std::string frame_;
};

}  // namespace gpuman::daemon
