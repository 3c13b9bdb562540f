// completion, config: commands about gpuman itself.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "cli/check_config.h"
#include "cli/commands.h"
#include "cli/completion_scripts.h"

namespace gpuman::cli {
namespace {

base::Result<int> PrintCompletion(CommandContext& session, const CommandLine& line) {
  session.PrintOutput(CompletionScript(line.words.front()));
  return kExitDone;
}

// Prints each of the daemon's complaints on a line of its own; JSON has them in one error. The exit status is
// the daemon's, so that one fault has one status.
base::Result<int> TellComplaints(CommandContext& session, const base::ProgramResult& checked) {
  if (checked.output.empty())
    return base::Fail(base::ErrorCode::kCorrupt, fmt::format("gpumand exited with {}", checked.status));
  for (std::size_t at = 0; at < checked.output.size();) {
    const auto end =
        session.json ? checked.output.size() : std::min(checked.output.find('\n', at), checked.output.size());
    session.PrintError({base::ErrorCode::kCorrupt, checked.output.substr(at, end - at), {}});
    at = end + 1;
  }
  return checked.status;
}

base::Result<int> CheckConfig(CommandContext& session, const CommandLine& line) {
  const auto file = line.words.empty() ? std::nullopt : std::optional(line.words.front());
  const auto meant = ConfigFileOf(session.environment(), file);
  const bool readable = ::access(meant.path.c_str(), R_OK) == 0;
  const int why_not = readable ? 0 : errno;
  if (!readable && (meant.named || why_not != ENOENT)) {
    auto error = base::SystemError(why_not, fmt::format("reading {}", meant.path.string()));
    if (why_not == ENOENT) error.message = fmt::format("there is no file {}", meant.path.string());
    return base::Fail(std::move(error));
  }
  GPUMAN_ASSIGN(const auto checked, CheckConfigFile(session.environment(), file));
  if (checked.status != 0) return TellComplaints(session, checked);
  if (session.json)
    session.PrintJson({{"valid", true}, {"file", meant.path.string()}, {"exists", readable}});
  else
    session.Print((checked.output.empty() ? "the configuration is valid" : checked.output) + "\n");
  return kExitDone;
}

}  // namespace

Command CompletionCommand() {
  return {"completion",
          "Print the completion script for a shell",
          "source <(gpuman completion bash)        in ~/.bashrc\n"
          "  source <(gpuman completion zsh)         in ~/.zshrc, after compinit\n"
          "  gpuman completion fish | source         in ~/.config/fish/config.fish",
          {{"bash|zsh|fish", 1, 1, "The shell"}},
          {},
          PrintCompletion};
}

Command ConfigCommand() {
  return {"config",
          "Check the daemon's configuration",
          "gpuman config check",
          {},
          {},
          nullptr,
          {{"check",
            "Check a configuration file, and show the lines that are wrong",
            "gpuman config check /etc/gpuman/gpumand.toml",
            {{kFileValue, 0, 1, "The file (default: the one that gpumand reads)"}},
            {},
            CheckConfig}}};
}

}  // namespace gpuman::cli
