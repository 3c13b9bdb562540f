#include "daemon/status/event_followers.h"

#include "api/json.h"
#include "daemon/core/views.h"

namespace gpuman::daemon {

std::string EventFrame(const jobs::Event& event) {
  return "id: " + std::to_string(event.id) + "\nevent: " + event.kind +
         "\ndata: " + api::Encode(EventViewOf(event)) + "\n\n";
}

bool EventFollowers::Enter(http::Party who) {
  auto& count = followers_[who];
  if (count == kOfParty) return false;
  ++count;
  return true;
}

void EventFollowers::Leave(http::Party who) {
  const auto mine = followers_.find(who);
  if (--mine->second == 0) followers_.erase(mine);
}

const std::string& EventFollowers::FrameOf(const jobs::Event& event) {
  if (event.id != framed_) frame_ = EventFrame(event);
  framed_ = event.id;
  return frame_;
}

}  // namespace gpuman::daemon
