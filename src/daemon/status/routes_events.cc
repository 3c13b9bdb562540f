// Events, as a list and as they happen.
#include <algorithm>
#include <memory>

#include "api/json.h"
#include "daemon/core/requests.h"
#include "daemon/core/views.h"
#include "daemon/status/module.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;

constexpr std::uint64_t kEventsShown = 1000;

// One event of a text/event-stream.
std::string Frame(const jobs::Event& event) {
  return "id: " + std::to_string(event.id) + "\nevent: " + event.kind +
         "\ndata: " + api::Encode(EventViewOf(event)) + "\n\n";
}

// Sends existing events in slices, as fast as the client reads them, and then each new event as it happens.
struct Following {
  ExchangePtr exchange;
  std::int64_t at = 0;
  bool gone = false;
  std::uint64_t follower = 0;  // 0: older events are still being sent
};

void CatchUp(Core& core, const std::shared_ptr<Following>& following);

bool SendSome(Core& core, const std::shared_ptr<Following>& following, const base::Turn& turn) {
  if (following->gone) return false;
  std::string text;
  const jobs::Event* event = nullptr;
  while (text.size() < ListAnswers::kPiece && !turn.IsOver() &&
         (event = core.events().After(following->at))) {
    text += Frame(*event);
    following->at = event->id;
  }
  following->exchange->Write(std::move(text));
  if (following->gone) return false;
  if (core.events().After(following->at)) {
    if (following->exchange->Unsent() <= ListAnswers::kAhead) return true;
    following->exchange->WhenSent([&core, following] { CatchUp(core, following); });
    return false;
  }
  following->follower = core.events().Follow(
      [exchange = following->exchange](const jobs::Event& newest) { exchange->Write(Frame(newest)); });
  return false;
}

void CatchUp(Core& core, const std::shared_ptr<Following>& following) {
  core.slices().Add(following->exchange->request().peer.uid,
                    [&core, following](const base::Turn& turn) { return SendSome(core, following, turn); });
}

void Follow(Core& core, const ExchangePtr& exchange, std::int64_t since, std::uint64_t limit) {
  exchange->BeginStream("text/event-stream");
  exchange->Write(": gpuman events\n\n");
  const auto following = std::make_shared<Following>(Following{exchange, core.events().Before(since, limit)});
  // This callback keeps the exchange until its client goes.
  exchange->OnGone([&core, following] {
    following->gone = true;
    if (following->follower != 0) core.events().Unfollow(following->follower);
  });
  CatchUp(core, following);
}

void List(Core& core, const ExchangePtr& exchange, std::int64_t since, std::uint64_t limit) {
  core.lists().Answer(exchange, "application/json", [&core, since, limit](const auto& then) {
    then([&core, at = core.events().Before(since, limit), last = core.events().last_id(),
          list = JsonList(R"({"events":[)")](std::string& text) mutable {
      const auto* const event = core.events().After(at);
      if (!event || event->id > last) {
        list.End(text);
        return false;
      }
      list.Add(text, api::Encode(EventViewOf(*event)));
      at = event->id;
      return true;
    });
  });
}

base::Result<> ShowEvents(StatusModule& module, const Call<api::NoBody, api::EventList>& call) {
  Core& core = module.core();
  const auto& request = call.request();
  const bool follow = FlagParameter(request, "follow");
  GPUMAN_ASSIGN(const auto from, MomentParameter(request, "from", core.clock().Wall()));
  // Without a starting point, following begins now.
  const auto start = follow && !from ? static_cast<std::uint64_t>(core.events().last_id()) : 0;
  GPUMAN_ASSIGN(auto since, NumberParameter(request, "since", start));
  if (from) since = std::max(since, static_cast<std::uint64_t>(core.events().LastOlderThan(*from)));
  GPUMAN_ASSIGN(const auto limit, NumberParameter(request, "limit", kEventsShown));
  (follow ? Follow : List)(core, call.exchange(), static_cast<std::int64_t>(since), limit);
  return {};
}

}  // namespace

void StatusModule::AddEventRoutes(http::Router& router) {
  ServeBy(*this, router)(api::routes::kEvents, ShowEvents);
}

}  // namespace gpuman::daemon
