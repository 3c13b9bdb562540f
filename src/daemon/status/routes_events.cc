// Events, as a list and as they happen.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "api/json.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "daemon/core/requests.h"
#include "daemon/core/views.h"
#include "daemon/status/module.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;

constexpr std::uint64_t kEventsShown = 1000;

// Which events are asked for.
struct Selection {
  std::int64_t since = 0;  // only later ones, by id
  std::size_t limit = kEventsShown;
  std::set<std::int64_t> jobs{};  // only of these; empty: all events

  EventLog::Filter Filter() const {
    if (jobs.empty()) return {};
    return [wanted = jobs](const jobs::Event& event) { return event.job && wanted.contains(*event.job); };
  }
};

// The first event after `id` that is wanted.
const jobs::Event* Next(const EventLog& events, std::int64_t id, const EventLog::Filter& is_wanted) {
  const auto* event = events.After(id);
  while (event && is_wanted && !is_wanted(*event)) event = events.After(event->id);
  return event;
}

// Sends existing events in slices, as fast as the client reads them, and then each new event as it happens.
struct Following {
  ExchangePtr exchange;
  EventLog::Filter is_wanted;
  std::int64_t at = 0;
  bool gone = false;
  std::uint64_t follower = 0;  // 0: older events are still being sent
};

void CatchUp(StatusModule& module, const std::shared_ptr<Following>& following);

bool SendSome(StatusModule& module, const std::shared_ptr<Following>& following,
              const base::TimeSlice& turn) {
  Core& core = module.core();
  if (following->gone) return false;
  std::string text;
  const jobs::Event* event = nullptr;
  while (text.size() < ListAnswerStreamer::kPiece && !turn.IsOver() &&
         (event = Next(core.events(), following->at, following->is_wanted))) {
    text += EventFrame(*event);
    following->at = event->id;
  }
  following->exchange->Write(std::move(text));
  if (following->gone) return false;
  if (Next(core.events(), following->at, following->is_wanted)) {
    if (following->exchange->Unsent() <= ListAnswerStreamer::kAhead) return true;
    following->exchange->WhenSent([&module, following] { CatchUp(module, following); });
    return false;
  }
  following->follower = core.events().Follow(
      [&module, exchange = following->exchange, is_wanted = following->is_wanted](const jobs::Event& newest) {
        if (!is_wanted || is_wanted(newest)) exchange->Write(module.followers().FrameOf(newest));
      });
  return false;
}

void CatchUp(StatusModule& module, const std::shared_ptr<Following>& following) {
  module.core().slices().Add(
      following->exchange->request().party,
      [&module, following](const base::TimeSlice& turn) { return SendSome(module, following, turn); });
}

void RefuseFollower(const ExchangePtr& exchange) {
  auto refusal = http::ErrorResponse(
      {base::ErrorCode::kExhausted,
       fmt::format("{} requests of yours follow the events already, as many as a user may have",
                   EventFollowers::kOfParty),
       "end some of them: each `gpuman events --follow` and each open page is one"});
  refusal.status = 429;
  exchange->Send(std::move(refusal));
}

void Follow(StatusModule& module, const ExchangePtr& exchange, const Selection& selection) {
  Core& core = module.core();
  const auto who = exchange->request().party;
  if (!module.followers().Enter(who)) return RefuseFollower(exchange);
  exchange->BeginStream("text/event-stream");
  exchange->Write(": gpuman events\n\n");
  const auto is_wanted = selection.Filter();
  const auto following = std::make_shared<Following>(
      Following{exchange, is_wanted, core.events().Before(selection.since, selection.limit, is_wanted)});
  // This callback keeps the exchange until its client goes.
  exchange->OnGone([&module, following, who] {
    following->gone = true;
    module.followers().Leave(who);
    if (following->follower != 0) module.core().events().Unfollow(following->follower);
  });
  CatchUp(module, following);
}

void List(StatusModule& module, const ExchangePtr& exchange, const Selection& selection) {
  Core& core = module.core();
  core.lists().Answer(exchange, "application/json", [&core, selection](const auto& then) {
    const auto is_wanted = selection.Filter();
    then([&core, is_wanted, at = core.events().Before(selection.since, selection.limit, is_wanted),
          last = core.events().last_id(),
          list = JsonListWriter(R"({"events":[)")](std::string& text) mutable {
      const auto* const event = Next(core.events(), at, is_wanted);
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

// "7,9".
base::Result<std::set<std::int64_t>> JobsParameter(const http::Request& request) {
  std::set<std::int64_t> jobs;
  const auto text = request.Query("jobs").value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    const auto word = base::TakeUntil(rest, ',');
    const auto id = base::ParseNumber<std::int64_t>(word);
    if (!id)
      return base::Fail(base::ErrorCode::kInvalidArgument,
                        fmt::format("jobs: '{}' is not the id of a job", word), "write ids with commas: 7,9");
    jobs.insert(*id);
  }
  return jobs;
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
  GPUMAN_ASSIGN(auto jobs, JobsParameter(request));
  (follow ? Follow : List)(module, call.exchange(),
                           {static_cast<std::int64_t>(since), limit, std::move(jobs)});
  return {};
}

}  // namespace

void StatusModule::AddEventRoutes(http::Router& router) {
  RouteRegistrar(*this, router)(api::routes::kEvents, ShowEvents);
}

}  // namespace gpuman::daemon
