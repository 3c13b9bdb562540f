#include "cli/compat/nvshare/nvsharectl.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/show.h"
#include "cli/take.h"

namespace gpuman::cli::nvshare {
namespace {

constexpr const char* kMore =
    "It is gpuman under another name: -T N is gpuman share set --quantum-min Ns --quantum-max Ns, -S off is\n"
    "--compute concurrent --managed-turns off, -S on is --managed-turns on. gpuman share status shows who "
    "runs.";
constexpr const char* kSeeHelp = "see nvsharectl --help";

// The longest quantum; nvshare's users set a longer one to mean "no limit".
constexpr std::int64_t kLongest = std::chrono::seconds(std::chrono::days(1)).count();

Take Quantum(api::ShareUpdate& update) {
  return [&update](const std::string& text) -> base::Result<> {
    auto seconds = ParseInteger(text, std::int64_t{1}, std::int64_t{INT32_MAX});
    if (!seconds) {
      seconds.error().hint += fmt::format("; {}", kSeeHelp);
      return base::Fail(std::move(seconds.error()));
    }
    update.quantum_max = std::chrono::seconds(std::min(*seconds, kLongest));
    update.quantum_min = update.quantum_max;
    return {};
  };
}

std::string Sentences(const api::ShareUpdate& update, const api::ShareSettings& settings) {
  std::string text;
  if (update.quantum_max)
    text +=
        fmt::format("While other jobs wait, a turn lasts {}.\n", base::FormatDuration(settings.quantum_max));
  if (update.managed_turns == true) text += "Jobs that do not fit on a GPU together take turns.\n";
  if (update.managed_turns == false)
    text +=
        "Jobs that fit on a GPU together, and jobs with managed memory, run at the same time; the driver "
        "moves managed\nmemory back and forth. Other jobs that do not fit together still take turns.\n";
  return text;
}

base::Result<int> Apply(CommandContext& session, api::ShareUpdate& update) {
  if (!update.quantum_max && !update.managed_turns)
    return base::Fail(base::ErrorCode::kInvalidArgument, "nothing is given to set", kSeeHelp);
  if (update.managed_turns == false) update.compute = "concurrent";
  GPUMAN_ASSIGN(const auto view, AskDaemon(session, api::routes::kSetShare, {}, update));
  return Show(session, view, [&] { return Sentences(update, view.settings); });
}

}  // namespace

Command MakeProgram() {
  const auto update = std::make_shared<api::ShareUpdate>();  // shared by the options and the action
  return {std::string(kProgram),
          fmt::format("Sets how jobs share GPUs, with the options of nvshare's command.\n\n{}", kMore),
          "",
          {},
          {{"-T,--set-tq", "N", "A turn lasts N seconds if other jobs wait", Quantum(*update)},
           {"-S,--anti-thrash", "on|off",
            "on: jobs that do not fit together take turns; off: all run at once where possible",
            take::OnOff(update->managed_turns)}},
          [update](CommandContext& session, const CommandLine&) { return Apply(session, *update); }};
}

}  // namespace gpuman::cli::nvshare
