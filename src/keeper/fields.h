// Internal: the fields of the keeper's files and messages, as base/json.h reads and writes them.
// docs/keeper.md lists them. Unknown fields are ignored: the daemon may be newer or older than a keeper.
#pragma once

#include "base/json.h"
#include "keeper/checks.h"
#include "keeper/journal.h"
#include "keeper/restart_policy.h"

namespace gpuman::keeper {

// Strings of argv, environment and paths may hold any bytes.
inline constexpr base::json::JsonFormat kFormat{.times = base::json::TimeForm::kMillis, .any_bytes = true};

template <typename V, base::json::Of<RestartPolicy> T>
void Fields(V& v, T& x) {
  v.Required("mode", x.mode);
  v("initial_delay_ms", x.initial_delay);
  v("max_delay_ms", x.max_delay);
  v("reset_after_ms", x.reset_after);
  v.Option("max_restarts", x.max_restarts);
  v.Valid(CheckPolicy(x));
}

template <typename V, base::json::Of<EndReason> T>
void Fields(V& v, T& x) {
  v.Required("word", x.word);
  v("detail", x.detail);
}

// The records of the journal; lines of the journal and packets of the protocol share them.

constexpr std::string_view NameOf(const KeeperStarted&) { return "keeper"; }
template <typename V, base::json::Of<KeeperStarted> T>
void Fields(V& v, T& x) {
  v.Required("process", x.keeper);
  v.Required("boot", x.boot_id);
  v("cgroup", x.cgroup);
  v.Required("key", x.key);
  v("program", x.program_version);
}

constexpr std::string_view NameOf(const RunStarted&) { return "run"; }
template <typename V, base::json::Of<RunStarted> T>
void Fields(V& v, T& x) {
  v.Required("run", x.run);
  v.Required("process", x.process);
  v.Changed("notes", x.notes);
}

constexpr std::string_view NameOf(const StartFailed&) { return "start_failed"; }
template <typename V, base::json::Of<StartFailed> T>
void Fields(V& v, T& x) {
  v.Required("run", x.run);
  v.Required("stage", x.stage);
  v.Required("errno", x.error_number);
  v.Required("message", x.message);
}

constexpr auto WordsOf(EndKind) {
  using enum EndKind;
  return base::Words<EndKind, 3>{{{kExited, "exited"}, {kSignalled, "signalled"}, {kUnknown, "unknown"}}};
}
constexpr std::string_view NameOf(const RunEnded&) { return "exit"; }
template <typename V, base::json::Of<RunEnded> T>
void Fields(V& v, T& x) {
  v.Required("run", x.run);
  v.Required("kind", x.kind);
  v.Required("code", x.code);
  v.Changed("core", x.core_dumped);
  v.Required("lasted_ms", x.lasted);
  v("user_us", x.usage.user_cpu);
  v("system_us", x.usage.system_cpu);
  v("max_rss", x.usage.max_rss);
  v.Option("reason", x.ordered);
}

constexpr std::string_view NameOf(const StopOrdered&) { return "stop"; }
template <typename V, base::json::Of<StopOrdered> T>
void Fields(V& v, T& x) {
  v.Required("reason", x.reason);
}

constexpr std::string_view NameOf(const RestartOrdered&) { return "restart_ordered"; }
template <typename V, base::json::Of<RestartOrdered> T>
void Fields(V& v, T& x) {
  v.Required("reason", x.reason);
}

constexpr std::string_view NameOf(const RestartScheduled&) { return "restart"; }
template <typename V, base::json::Of<RestartScheduled> T>
void Fields(V& v, T& x) {
  v.Required("run", x.run);
  v.Required("delay_ms", x.delay);
  v.Required("in_a_row", x.in_a_row);
  v.Option("reason", x.ordered);
}

constexpr std::string_view NameOf(const JobSettingsChanged&) { return "settings"; }
template <typename V, base::json::Of<JobSettingsChanged> T>
void Fields(V& v, T& x) {
  v.Required("settings", x.settings);
}

constexpr std::string_view NameOf(const ClockPauseChanged&) { return "clock"; }
template <typename V, base::json::Of<ClockPauseChanged> T>
void Fields(V& v, T& x) {
  v.Required("paused", x.paused);
}

constexpr std::string_view NameOf(const JobEnded&) { return "end"; }
template <typename V, base::json::Of<JobEnded> T>
void Fields(V& v, T& x) {
  v.Required("last_run", x.last_run);
  v.Required("why", x.why);
}

template <typename V, base::json::Of<JournalRecord> T>
void Fields(V& v, T& x) {
  v.Required("seq", x.seq);
  v.Required("wall_ms", x.wall);
  v.Required("mono_ms", x.mono);
  v.Variant("t", x.body);
}

}  // namespace gpuman::keeper
