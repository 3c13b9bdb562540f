// What every command works with: the output, its style, and the daemon.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

#include "api/client.h"
#include "api/json.h"
#include "base/paths.h"
#include "base/result.h"
#include "cli/text.h"

namespace gpuman::cli {

struct DaemonEndpoint;  // find_daemon.h

// Exit statuses that scripts rely on.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;
inline constexpr int kExitNoSuchThing = 4;
inline constexpr int kExitNotPermitted = 5;
inline constexpr int kExitUnsatisfiable = 6;
int ExitStatusOf(base::ErrorCode code);

// The world outside of the program, as far as commands reach it through the session.
struct ProgramContext {
  std::ostream& out;
  std::ostream& err;
  TerminalStyle out_style;
  TerminalStyle err_style;
  base::EnvironmentLookup environment = base::LookUpEnvironment;
};

// Not thread-safe.
class CommandContext {
 public:
  explicit CommandContext(const ProgramContext& context) : context_(context) {}

  // The options that every command takes set these.
  bool json = false;
  std::optional<std::string> socket;  // --socket
  // The words behind "--" on the command line.
  std::optional<std::vector<std::string>> trailing;

  // The daemon's client; starts a daemon for this user where none runs and one should. `tells`: whether to
  // print that a daemon was started.
  base::Result<api::Client> Daemon(bool tells = true);
  // The same, but never starts a daemon: for commands that must be quick and silent.
  base::Result<api::Client> RunningDaemon();

  // Prints text; escapes all characters that could change the terminal beyond colours, since any user may
  // have written the text.
  void Print(std::string_view text) { Write(PrintableLines(style(), text)); }
  // Prints the output of a job, unchanged.
  void PrintOutput(std::string_view output) { Write(output); }
  void PrintJson(const api::Json& json_value);
  // For output that is followed.
  void Flush();
  // The errno with which output could not be written; 0: all of it could so far. A command that prints as
  // long as it runs ends then; RunProgram says why.
  int output_error() const { return output_error_; }
  // Prints to stderr for people; prints nothing in JSON mode.
  void Note(std::string_view text);
  void PrintError(const base::Error& error);

  const TerminalStyle& style() const { return context_.out_style; }
  const base::EnvironmentLookup& environment() const { return context_.environment; }
  std::ostream& err() { return context_.err; }

 private:
  api::Client ClientOf(DaemonEndpoint place);
  void Write(std::string_view text);
  void NoteOutputError();

  ProgramContext context_;
  int output_error_ = 0;
  std::set<std::string, std::less<>> notes_;  // notes of the daemon that were printed
};

// Adds the nearest tag to an error about an unknown job.
base::Error WithNearestTag(const api::Client& daemon, std::string_view job, base::Error error);

}  // namespace gpuman::cli
