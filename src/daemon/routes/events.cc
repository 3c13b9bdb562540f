#include "api/json.h"
#include "daemon/routes/routes.h"
#include "daemon/views.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;

constexpr std::uint64_t kEventsShown = 1000;

// One event of a text/event-stream.
std::string Frame(const jobs::Event& event) {
  return "id: " + std::to_string(event.id) + "\nevent: " + event.kind +
         "\ndata: " + api::Encode(EventViewOf(event)) + "\n\n";
}

void Follow(Service& service, const ExchangePtr& exchange, std::uint64_t since, std::uint64_t limit) {
  exchange->BeginStream("text/event-stream");
  exchange->Write(": gpuman events\n\n");
  for (const auto& event : service.events().Since(static_cast<std::int64_t>(since), limit))
    exchange->Write(Frame(event));
  // The exchange is kept by the follower until its client goes.
  const auto number =
      service.events().Follow([exchange](const jobs::Event& event) { exchange->Write(Frame(event)); });
  exchange->OnGone([&service, number] { service.events().Unfollow(number); });
}

void ShowEvents(Service& service, const ExchangePtr& exchange) {
  const auto& request = exchange->request();
  if (auto may = service.Check(request.peer, Act::kSee); !may) return SendError(exchange, may.error());
  const bool follow = FlagParameter(request, "follow");
  // Without a starting point, following begins now.
  const auto start = follow ? static_cast<std::uint64_t>(service.events().last_id()) : 0;
  const auto since = NumberParameter(request, "since", start);
  const auto limit = NumberParameter(request, "limit", kEventsShown);
  if (!since) return SendError(exchange, since.error());
  if (!limit) return SendError(exchange, limit.error());
  if (follow) return Follow(service, exchange, *since, *limit);
  api::EventList list;
  for (const auto& event : service.events().Since(static_cast<std::int64_t>(*since), *limit))
    list.events.push_back(EventViewOf(event));
  SendJson(exchange, api::Encode(list));
}

}  // namespace

void AddEventRoutes(http::Router& router, Service& service) {
  router.Add("GET", "/v1/events", [&service](const ExchangePtr& exchange, const http::PathParameters&) {
    ShowEvents(service, exchange);
  });
}

}  // namespace gpuman::daemon
