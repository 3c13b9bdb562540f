// top, metrics: the state of the machine, for people who watch and for Prometheus.
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/ask.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/take.h"
#include "cli/top_frame.h"
#include "cli/top_screen.h"

namespace gpuman::cli {
namespace {

constexpr base::Millis kShortestInterval{100};
constexpr std::size_t kPage = 10;

struct TopOptions {
  bool once = false;
  TopOrder order = TopOrder::kMemory;
  base::Millis interval = std::chrono::seconds(1);
};

// The caller of `take` has checked the word.
base::Result<TopOrder> ParseOrder(const std::string& word) {
  return TopOrderFromString(word).value_or(TopOrder::kMemory);
}

// Changes the view for a key; false: close the view.
bool Obey(TopKey key, TopView& view) {
  const auto back = [&](std::size_t rows) { view.skip -= std::min(view.skip, rows); };
  if (view.help && key != TopKey::kNone) {
    view.help = false;
    return true;
  }
  switch (key) {
    case TopKey::kQuit:
      return false;
    case TopKey::kHelp:
      view.help = true;
      break;
    case TopKey::kMemory:
      view.order = TopOrder::kMemory;
      break;
    case TopKey::kUser:
      view.order = TopOrder::kUser;
      break;
    case TopKey::kJob:
      view.order = TopOrder::kJob;
      break;
    case TopKey::kPid:
      view.order = TopOrder::kPid;
      break;
    case TopKey::kUp:
      back(1);
      break;
    case TopKey::kPageUp:
      back(kPage);
      break;
    case TopKey::kDown:
      ++view.skip;
      break;
    case TopKey::kPageDown:
      view.skip += kPage;
      break;
    case TopKey::kNone:
    case TopKey::kOther:
    case TopKey::kRefresh:
      break;
  }
  return true;
}

void LookAgain(const api::Client& daemon, TopView& view) {
  auto status = daemon.Status(false);
  view.problem = status ? std::string() : "These are old figures: " + status.error().message;
  if (!status) return;
  view.status = std::move(*status);
  view.now = base::SystemClock().Wall();
}

base::Result<int> Watch(Session& session, const api::Client& daemon, TopView view, base::Millis interval) {
  const base::SystemClock clock;
  GPUMAN_ASSIGN(const auto screen, TopScreen::Open(session.style().color));
  auto next = clock.Mono() + interval;
  for (;;) {
    view.skip = std::min(view.skip, LastPage(view, screen->size()));
    screen->Show(TopLines(view, screen->size()));
    const auto key = screen->Wait(next);
    if (screen->signal() != 0 || !Obey(key, view)) break;
    if (key != TopKey::kRefresh && clock.Mono() < next) continue;
    LookAgain(daemon, view);
    next = clock.Mono() + interval;
  }
  return screen->signal() == 0 ? kExitDone : 128 + screen->signal();
}

base::Result<int> Top(Session& session, const TopOptions& o) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  TopView view;
  view.order = o.order;
  GPUMAN_ASSIGN(view.status, daemon.Status(false));
  view.now = base::SystemClock().Wall();
  if (session.json) {
    session.PrintJson(api::ToJson(view.status));
    return kExitDone;
  }
  constexpr std::size_t kWide = 160;  // for files and pipes
  if (!o.once && session.style().terminal)
    return Watch(session, daemon, std::move(view), std::max(o.interval, kShortestInterval));
  for (const auto& line : TopLines(view, {session.style().width.value_or(kWide), {}}))
    session.Print(Paint(session.style(), line.color, line.text) + "\n");
  return kExitDone;
}

base::Result<int> Metrics(Session& session, bool own) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  api::Query query;
  if (own) query.Add("dcgm", "0");
  GPUMAN_ASSIGN(const auto answer, daemon.AskRaw(api::RequestFor(api::routes::kMetrics, {{}, query})));
  if (session.json)
    session.PrintJson({{"format", "prometheus 0.0.4"}, {"text", answer.body}});
  else
    session.Print(answer.body);
  return kExitDone;
}

}  // namespace

Command TopCommand() {
  const auto o = std::make_shared<TopOptions>();  // shared by the options and the action
  return {"top",
          "Watch GPUs, processes and jobs\n\n"
          "Keys: q quits; m, u, j and p sort by memory, user, job and pid; space refreshes at once; "
          "arrow and page keys scroll; h or ? shows the keys.",
          "gpuman top --sort user",
          {},
          {{"--once", "", "Print one picture and exit, as without a terminal", take::Flag(o->once)},
           {"--sort", kTopOrderValue, "Sort processes by memory, user, job or pid (default: memory)",
            take::Into(o->order, ParseOrder)},
           {"--interval", kTimeValue, "Time between two pictures (default 1s, at least 100ms)",
            take::Duration(o->interval)}},
          [o](Session& session, const CommandLine&) { return Top(session, *o); }};
}

Command MetricsCommand() {
  const auto own = std::make_shared<bool>(false);  // shared by the options and the action
  return {"metrics",
          "Print the metrics of the daemon, in the format of Prometheus",
          "gpuman metrics | grep gpuman_gpu_memory",
          {},
          {{"--own", "", "Leave out the metrics that have the names of dcgm-exporter", take::Flag(*own)}},
          [own](Session& session, const CommandLine&) { return Metrics(session, *own); }};
}

}  // namespace gpuman::cli
