// share status, share set: the order of turns on each GPU.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/json.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/share_views.h"

namespace gpuman::cli {
namespace {

struct SetOptions {
  std::optional<std::string> policy, quantum_min, quantum_max, idle, compute, compute_quantum, capacity;
  std::optional<std::string> on_no_yield, yield_limit, on_no_answer, answer_limit;
  std::optional<std::string> pause, memory, managed_turns;
  std::optional<double> overhead;
};

base::Result<int> Status(Session& session) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::ShareView view, daemon.Share());
  if (session.json)
    session.PrintJson(api::ToJson(view));
  else
    session.Print(RenderShare(view, session.style()));
  return kExitDone;
}

base::Result<> TakeTime(const std::optional<std::string>& text, std::optional<base::Millis>& out) {
  if (!text) return {};
  GPUMAN_ASSIGN(out, base::ParseDuration(*text));
  return {};
}

base::Result<int> Set(Session& session, const SetOptions& o) {
  api::ShareUpdate update;
  update.policy = o.policy;
  update.compute = o.compute;
  update.memory = o.memory;
  update.on_no_yield = o.on_no_yield;
  update.on_no_answer = o.on_no_answer;
  if (o.overhead) update.overhead = *o.overhead / 100;
  if (o.pause) update.pause = *o.pause == "on";
  if (o.managed_turns) update.managed_turns = *o.managed_turns == "on";
  GPUMAN_TRY(TakeTime(o.quantum_min, update.quantum_min));
  GPUMAN_TRY(TakeTime(o.quantum_max, update.quantum_max));
  GPUMAN_TRY(TakeTime(o.idle, update.idle));
  GPUMAN_TRY(TakeTime(o.compute_quantum, update.compute_quantum));
  GPUMAN_TRY(TakeTime(o.yield_limit, update.yield_limit));
  GPUMAN_TRY(TakeTime(o.answer_limit, update.answer_limit));
  if (o.capacity == "none") {
    update.clear_capacity = true;
  } else if (o.capacity) {
    GPUMAN_ASSIGN(update.capacity, base::ParseSize(*o.capacity));
  }
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::ShareView view, daemon.SetShare(update));
  if (session.json)
    session.PrintJson(api::ToJson(view));
  else
    session.Print(RenderShareSettings(view.settings));
  return kExitDone;
}

}  // namespace

void AddShare(const Registry& registry) {
  auto* share = registry.Add("share", "Show and change how jobs with --share share GPUs",
                             "gpuman share status", nullptr);
  share->require_subcommand(1);
  registry.Add("status", "Show for each GPU which jobs run, which wait for what, and what is being moved",
               "gpuman share status", Status, share);
  const auto o = std::make_shared<SetOptions>();  // shared by the parser's bindings and the action
  auto* set = registry.Add(
      "set", "Change settings until the daemon is restarted; the configuration file has the lasting ones",
      "gpuman share set --policy priority --overhead 2", [o](Session& session) { return Set(session, *o); },
      share);
  const auto word = [&](const char* name, auto& target, const char* words, std::vector<std::string> allowed,
                        const char* what) {
    set->add_option(name, target, what)
        ->type_name(words)
        ->check(CLI::IsMember(std::move(allowed)).description(""));
  };
  word("--policy", o->policy, "fair|priority|fcfs", {"fair", "priority", "fcfs"},
       "Which job has the next turn");
  set->add_option("--quantum-min", o->quantum_min, "Shortest turn while other jobs wait")
      ->type_name(kTimeValue);
  set->add_option("--quantum-max", o->quantum_max, "Longest turn while other jobs wait")
      ->type_name(kTimeValue);
  set->add_option("--overhead", o->overhead, "Percent of the time that may be spent on moving memory")
      ->type_name("N")
      ->check(CLI::Range(0.1, 100.0).description(""));
  set->add_option("--idle", o->idle,
                  "A turn ends when the job has not used the GPU for this time and others wait")
      ->type_name(kTimeValue);
  set->add_option("--capacity", o->capacity,
                  "Memory of each GPU for the jobs that share it; none: all that is free")
      ->type_name(kSizeValue);
  word("--compute", o->compute, "concurrent|exclusive|auto", {"concurrent", "exclusive", "auto"},
       "Jobs that fit together run at once, one after the other, or whichever is faster");
  set->add_option("--compute-quantum", o->compute_quantum, "Length of a turn among jobs that fit together")
      ->type_name(kTimeValue);
  word("--memory", o->memory, "auto|vmm|managed", {"auto", "vmm", "managed"},
       "Kind of memory of jobs started from now on; managed memory is moved by the driver");
  word("--managed-turns", o->managed_turns, "on|off", {"on", "off"},
       "on: jobs with managed memory that do not fit take turns; off: they run at once, and the driver moves "
       "memory");
  word("--pause", o->pause, "on|off", {"on", "off"}, "No turn ends while it is on");
  word("--on-no-yield", o->on_no_yield, "wait|suspend|end", {"wait", "suspend", "end"},
       "What to do with a job whose work on the GPU does not stop at the end of its turn");
  set->add_option("--yield-limit", o->yield_limit,
                  "Time that a job has to stop its work at the end of its turn")
      ->type_name(kTimeValue);
  word("--on-no-answer", o->on_no_answer, "wait|suspend|end", {"wait", "suspend", "end"},
       "What to do with a job whose processes are stopped while another user's job waits for its place");
  set->add_option("--answer-limit", o->answer_limit, "Time that a stopped job has before this is done")
      ->type_name(kTimeValue);
}

}  // namespace gpuman::cli
