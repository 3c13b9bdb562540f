#include "cli/nvsharectl.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

namespace gpuman::cli {
namespace {

constexpr const char* kMore =
    "It is gpuman under another name: -T N is gpuman share set --quantum-min Ns --quantum-max Ns, -S off is\n"
    "--compute concurrent --managed-turns off, -S on is --managed-turns on. gpuman share status shows who "
    "runs.";

// The longest quantum; nvshare's users set a longer one to mean "no limit".
constexpr std::int64_t kLongest = std::chrono::seconds(std::chrono::days(1)).count();

struct NvshareOptions {
  std::int64_t seconds = 0;  // 0: not given
  std::string anti_thrash;   // on, off; empty: not given
};

api::ShareUpdate UpdateOf(const NvshareOptions& options) {
  api::ShareUpdate update;
  if (options.seconds > 0) {
    update.quantum_max = base::Millis(std::min(options.seconds, kLongest) * 1000);
    update.quantum_min = update.quantum_max;
  }
  if (!options.anti_thrash.empty()) update.managed_turns = options.anti_thrash == "on";
  if (options.anti_thrash == "off") update.compute = "concurrent";
  return update;
}

std::string Sentences(const NvshareOptions& options, const api::ShareSettings& settings) {
  std::string text;
  if (options.seconds > 0)
    text +=
        fmt::format("While other jobs wait, a turn lasts {}.\n", base::FormatDuration(settings.quantum_max));
  if (options.anti_thrash == "on") text += "Jobs that do not fit on a GPU together take turns.\n";
  if (options.anti_thrash == "off")
    text +=
        "Jobs that fit on a GPU together, and jobs with managed memory, run at the same time; the driver "
        "moves managed\nmemory back and forth. Other jobs that do not fit together still take turns.\n";
  return text;
}

base::Result<int> Apply(Session& session, const NvshareOptions& options) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  GPUMAN_ASSIGN(const api::ShareView view, daemon.SetShare(UpdateOf(options)));
  session.Print(Sentences(options, view.settings));
  return kExitDone;
}

}  // namespace

int RunNvsharectl(const std::vector<std::string>& arguments, const SessionContext& context) {
  Session session(context);
  NvshareOptions options;
  CLI::App app("Sets how jobs share GPUs, with the options of nvshare's command.", std::string(kNvsharectl));
  app.footer(kMore);
  app.add_option("-T,--set-tq", options.seconds, "A turn lasts N seconds if other jobs wait")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{INT32_MAX}).description(""));
  app.add_option("-S,--anti-thrash", options.anti_thrash,
                 "on: jobs that do not fit together take turns; off: all run at once where possible")
      ->type_name("on|off")
      ->check(CLI::IsMember(std::vector<std::string>{"on", "off"}).description(""));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(),
                                       arguments.rend()));  // the parser takes them from the back
  } catch (const CLI::CallForHelp&) {
    session.Print(app.help());
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    session.PrintError({base::ErrorCode::kInvalidArgument, error.what(), "see nvsharectl --help"});
    return kExitUsage;
  }
  if (arguments.empty()) {
    session.Print(app.help());
    return kExitDone;
  }
  const auto status = Apply(session, options);
  if (status) return *status;
  session.PrintError(status.error());
  return ExitStatusOf(status.error().code);
}

}  // namespace gpuman::cli
