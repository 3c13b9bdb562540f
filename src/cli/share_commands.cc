// share status, share set: the order of turns on each GPU.
#include <fmt/format.h>

#include "base/parse_number.h"
#include "cli/commands.h"
#include "cli/share_views.h"
#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

base::Result<int> ShowShare(CommandContext& session, const CommandLine&) {
  GPUMAN_ASSIGN(const auto view, AskDaemon(session, api::routes::kShare));
  return Show(session, view, RenderShare);
}

// "2": percent. The value is a part of 1.
base::Result<double> ParseOverhead(const std::string& text) {
  const auto percent = base::ParseNumber<double>(text);
  if (!percent || !(*percent >= 0.1 && *percent <= 100))
    return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("'{}' is not a number of percent", text),
                      "write a number from 0.1 to 100");
  return *percent / 100;
}

base::Result<int> SetShare(CommandContext& session, const api::ShareUpdate& update) {
  GPUMAN_ASSIGN(const auto view, AskDaemon(session, api::routes::kSetShare, {}, update));
  return Show(session, view, [&] { return RenderShareSettings(view.settings); });
}

Command SetShareCommand() {
  const auto o = std::make_shared<api::ShareUpdate>();  // shared by the options and the action
  return {
      "set",
      "Change settings until the daemon is restarted; the configuration file has the lasting ones",
      "gpuman share set --policy priority --overhead 2",
      {},
      {{"--policy", "fair|priority|fcfs", "Which job has the next turn", take::Text(o->policy)},
       {"--quantum-min", kTimeValue, "Shortest turn while other jobs wait", take::Duration(o->quantum_min)},
       {"--quantum-max", kTimeValue, "Longest turn while other jobs wait", take::Duration(o->quantum_max)},
       {"--overhead", "N", "Percent of the time that may be spent on moving memory",
        take::Into(o->overhead, ParseOverhead)},
       {"--idle", kTimeValue, "A turn ends when the job has not used the GPU for this time and others wait",
        take::Duration(o->idle)},
       {"--interactive-wait", kTimeValue, "Time after which an interactive job gets the GPU",
        take::Duration(o->interactive_wait)},
       {"--capacity", kSizeValue, "Memory of each GPU for the jobs that share it; none: all that is free",
        take::IntoOrNone(o->capacity, o->clear_capacity, base::ParseSize)},
       {"--compute", "concurrent|exclusive|auto",
        "Jobs that fit together run at once, one after the other, or whichever is faster",
        take::Text(o->compute)},
       {"--compute-quantum", kTimeValue, "Length of a turn among jobs that fit together",
        take::Duration(o->compute_quantum)},
       {"--memory", "auto|vmm|managed",
        "Kind of memory of jobs started from now on; managed memory is moved by the driver",
        take::Text(o->memory)},
       {"--managed-turns", "on|off",
        "on: jobs with managed memory that do not fit take turns; off: they run at once, and the driver "
        "moves memory",
        take::OnOff(o->managed_turns)},
       {"--pause", "on|off", "No turn ends while it is on", take::OnOff(o->pause)},
       {"--on-no-yield", "wait|suspend|end",
        "What to do with a job whose work on the GPU does not stop at the end of its turn",
        take::Text(o->on_no_yield)},
       {"--yield-limit", kTimeValue, "Time that a job has to stop its work at the end of its turn",
        take::Duration(o->yield_limit)},
       {"--step", "on|off",
        "on: processes of a job that wait for each other make single calls until all are at rest; off: such "
        "a job keeps its place",
        take::OnOff(o->step)},
       {"--on-no-answer", "wait|suspend|end",
        "What to do with a job whose processes are stopped while another user's job waits for its place",
        take::Text(o->on_no_answer)},
       {"--answer-limit", kTimeValue, "Time that a stopped job has before this is done",
        take::Duration(o->answer_limit)},
       {"--unchanged", "hash|compare|off",
        "hash: memory that has not changed since it was last in host memory is not copied again; compare: it "
        "is, and is compared; off: all is copied",
        take::Text(o->unchanged)}},
      [o](CommandContext& session, const CommandLine&) { return SetShare(session, *o); }};
}

}  // namespace

Command ShareCommand() {
  return {"share",
          "Show and change how jobs with --share share GPUs",
          "gpuman share status",
          {},
          {},
          nullptr,
          {{"status",
            "Show for each GPU which jobs run, wait for what, or come to rest, and what is being moved",
            "gpuman share status",
            {},
            {},
            ShowShare},
           SetShareCommand()}};
}

}  // namespace gpuman::cli
