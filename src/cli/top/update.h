// What happens to the State of `gpuman top`, and what follows from it. Pure: no clock, no terminal, no
// daemon.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/top/picture.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

struct Key {
  enum class Code {
    kCharacter,
    kUp,
    kDown,
    kLeft,
    kRight,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kEnter,
    kEscape,
    kTab,
    kBackTab,
    kBackspace,
    kOther,  // the screen knows no meaning of it
  };
  Code code = Code::kCharacter;
  std::string character{};  // of kCharacter: UTF-8
};
struct Click {
  ClickTarget target;
};
struct Wheel {
  int rows = 0;  // below 0: up
};
struct Resized {
  Size size;
};
// Time has passed. The caller sends a Tick at least as often as NextTick says.
struct Tick {
  base::MonoTime now;
};
// The daemon's answer to AskStatus.
struct Snapshot {
  api::StatusView status;
  std::optional<api::ShareView> share{};
  std::optional<std::vector<api::QueueRow>> queue{};
  std::map<int, ProcessFacts> facts{};
  std::optional<HostFacts> host{};
  base::WallTime at{};
};
struct StatusCame {
  base::Result<Snapshot> snapshot;
};
// The daemon's answer to AskJob.
struct JobCame {
  std::int64_t job = 0;
  base::Result<api::JobView> view;
  base::Result<api::JobStory> story;
  base::Result<std::string> log;
};
// The daemon's answer to AskHistory.
struct HistoryCame {
  base::Result<api::HistoryView> history;
};
// The result of PerformAction: a sentence for the user, or the refusal.
struct ActionResult {
  Question question;
  base::Result<std::string> sentence;
};
using Event = std::variant<Key, Click, Wheel, Resized, Tick, StatusCame, JobCame, HistoryCame, ActionResult>;

struct AskStatus {
  bool share = false;  // the sharing of GPUs as well
  bool queue = false;  // the jobs that wait as well
};
struct AskJob {
  std::int64_t job = 0;
};
// Asks for the history that was recorded before: kPointsKept points with `interval` between them.
struct AskHistory {
  HistoryOf of;
  base::Millis interval;
};
struct PerformAction {
  Question question;  // the user has answered it with yes
};
struct Quit {};
using Effect = std::variant<AskStatus, AskJob, AskHistory, PerformAction, Quit>;

// Changes the state as the event says, and returns what the caller has to do.
std::vector<Effect> Update(State& state, Event event);

// When the next Tick is due.
base::MonoTime NextTick(const State& state);

}  // namespace gpuman::cli::top
