// What every command works with: where it prints, how that may look, and the daemon.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "api/client.h"
#include "api/json.h"
#include "base/paths.h"
#include "base/result.h"
#include "cli/text.h"

namespace gpuman::cli {

// Exit statuses that scripts rely on.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;
inline constexpr int kExitNoSuchThing = 4;
inline constexpr int kExitNotPermitted = 5;
inline constexpr int kExitUnsatisfiable = 6;
int ExitStatusOf(base::ErrorCode code);

// The world outside of the program, as far as commands touch it through the session.
struct SessionContext {
  std::ostream& out;
  std::ostream& err;
  TerminalStyle out_style;
  TerminalStyle err_style;
  base::EnvironmentLookup environment = base::LookUpEnvironment;
};

// Not thread-safe.
class Session {
 public:
  explicit Session(const SessionContext& context) : context_(context) {}

  // Set by the options that every command takes.
  bool json = false;
  std::optional<std::string> socket;  // --socket
  // What stands behind "--" on the command line.
  std::optional<std::vector<std::string>> trailing;

  // The daemon's client; starts a daemon for this user where there is none and there should be one.
  // `tells`: that it was started.
  base::Result<api::Client> Daemon(bool tells = true);
  // The same, but never starts one: for what must be quick and silent.
  base::Result<api::Client> RunningDaemon() const;

  // Without what could change more of a terminal than its colours, whoever it came from.
  void Print(std::string_view text) { context_.out << PrintableLines(style(), text); }
  // What a job printed, as it is.
  void PrintOutput(std::string_view output) { context_.out << output; }
  void PrintJson(const api::Json& json_value);
  // Shown at once, for what is followed.
  void Flush() { context_.out.flush(); }
  // For people, on stderr; silent in JSON mode.
  void Note(std::string_view text);
  void PrintError(const base::Error& error);

  const TerminalStyle& style() const { return context_.out_style; }
  const base::EnvironmentLookup& environment() const { return context_.environment; }
  std::ostream& err() { return context_.err; }

 private:
  SessionContext context_;
};

// Adds to an error about an unknown job the tag that was probably meant.
base::Error WithNearestTag(const api::Client& daemon, std::string_view job, base::Error error);

}  // namespace gpuman::cli
