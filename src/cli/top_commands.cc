// top, metrics: the state of the machine, for people who watch and for Prometheus.
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/ask.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/plot.h"
#include "cli/take.h"
#include "cli/top/watch.h"
#include "cli/top_frame.h"

namespace gpuman::cli {
namespace {

constexpr base::Millis kShortestInterval{100};

struct TopOptions {
  bool once = false;
  bool ascii = false;
  bool no_mouse = false;
  TopOrder order = TopOrder::kMemory;
  std::string filter;
  base::Millis interval = std::chrono::seconds(1);
};

// The caller of `take` has checked the word.
base::Result<TopOrder> ParseOrder(const std::string& word) {
  return TopOrderFromString(word).value_or(TopOrder::kMemory);
}

// The console of Linux has no braille, whatever the locale.
bool DrawsUnicode(const CommandContext& session) {
  const auto terminal = session.environment()("TERM").value_or("");
  return ShowsUnicode(session.environment()) && !terminal.starts_with("linux");
}

base::Result<int> Watch(CommandContext& session, const api::Client& daemon, api::StatusView status,
                        const TopOptions& o) {
  top::State state;
  state.order = o.order;
  state.filter = o.filter;
  state.interval = std::max(o.interval, kShortestInterval);
  state.unicode = !o.ascii && DrawsUnicode(session);
  top::Snapshot first;
  first.status = std::move(status);
  first.at = base::SystemClock().Wall();
  return top::Watch(daemon.socket(), std::move(state), std::move(first),
                    {.color = session.style().color, .mouse = !o.no_mouse});
}

base::Result<int> Top(CommandContext& session, const TopOptions& o) {
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
  if (!o.once && session.style().terminal) return Watch(session, daemon, std::move(view.status), o);
  for (const auto& line : TopLines(view, session.style().width.value_or(kWide)))
    session.Print(Paint(session.style(), line.color, line.text) + "\n");
  return kExitDone;
}

base::Result<int> Metrics(CommandContext& session, bool own) {
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
          "Watch GPUs, jobs, the queue and processes, and act on them\n\n"
          "Keys: q quits; arrows, page keys and the mouse choose; Enter shows all of a job; / filters; Tab "
          "shows the next page; s, r, c and e suspend, resume, cancel and end the chosen job, and ask first; "
          "h or ? shows all keys.",
          "gpuman top --sort user",
          {},
          {{"--once", "", "Print one picture and exit, as without a terminal", take::Flag(o->once)},
           {"--sort", kTopOrderValue, "Sort jobs and processes by this (default: memory)",
            take::Into(o->order, ParseOrder)},
           {"--interval", kTimeValue, "Time between two pictures (default 1s, at least 100ms)",
            take::Duration(o->interval)},
           {"--filter", "WORDS", "Begin with this filter, as the key / takes it: gpu:0 user:ann",
            take::Text(o->filter)},
           {"--ascii", "", "Draw with ASCII alone (default: where the locale is not UTF-8)",
            take::Flag(o->ascii)},
           {"--no-mouse", "", "Leave the mouse to the terminal", take::Flag(o->no_mouse)}},
          [o](CommandContext& session, const CommandLine&) { return Top(session, *o); }};
}

Command MetricsCommand() {
  const auto own = std::make_shared<bool>(false);  // shared by the options and the action
  return {"metrics",
          "Print the metrics of the daemon, in the format of Prometheus",
          "gpuman metrics | grep gpuman_gpu_memory",
          {},
          {{"--own", "", "Leave out the metrics that have the names of dcgm-exporter", take::Flag(*own)}},
          [own](CommandContext& session, const CommandLine&) { return Metrics(session, *own); }};
}

}  // namespace gpuman::cli
