#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "cli/complete.h"
#include "cli/parser.h"
#include "cli/take.h"

namespace gpuman::cli {
namespace {

Options CommonOptions(CommandContext& session) {
  return {{"--json", "", "Print JSON: bytes as integers, times in UTC, null for unknown",
           take::Flag(session.json), kCommonHeading},
          {"--socket", kFileValue,
           "Socket of the daemon to use (default: GPUMAN_SOCKET, else the machine's, else your own)",
           take::Text(session.socket), kCommonHeading}};
}

void PrintVersion(CommandContext& session, const std::string& name) {
  if (session.json)
    session.PrintJson({{"version", GPUMAN_VERSION}});
  else
    session.Print(name == "gpuman" ? "gpuman " GPUMAN_VERSION "\n"
                                   : fmt::format("{} (gpuman {})\n", name, GPUMAN_VERSION));
}

// The version and errors are printed before options are taken.
bool AsksForJson(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end;
}

base::Result<> RequireChoices(const Command& command, const std::vector<std::string>& words) {
  std::size_t at = 0;
  for (const auto& argument : command.arguments)
    for (std::size_t i = 0; i < argument.most && at < words.size(); ++i)
      GPUMAN_TRY(RequireChoice(argument.value, words[at++]));
  return {};
}

base::Result<int> Run(CommandContext& session, const Options& common, const RequestedCommand& chosen) {
  auto taken = TakeOptions(common, chosen.common);
  if (taken) taken = TakeOptions(chosen.command->options, chosen.line.options);
  if (taken) taken = RequireChoices(*chosen.command, chosen.line.words);
  if (taken) return chosen.command->run(session, chosen.line);
  base::Error error = std::move(taken.error());
  if (error.hint.empty() && error.code == base::ErrorCode::kInvalidArgument)
    error.hint = fmt::format("see {} --help", chosen.path);
  return base::Fail(std::move(error));
}

}  // namespace

int RunProgram(const Command& program, const std::vector<std::string>& arguments,
               const ProgramContext& context) {
  CommandContext session(context);
  const auto common = CommonOptions(session);
  const auto words = WithHelpAsOption(program, arguments);
  if (!words.empty() && words.front() == kCompleteWord)
    return PrintCandidates(program, common, session, {words.begin() + 1, words.end()});
  const auto parsed = ReadCommandLine(program, common, words);
  base::Result<int> status = kExitDone;
  if (!parsed) {
    session.json = AsksForJson(words);
    status = base::Fail(parsed.error());
  } else if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    session.Print(help->text);
  } else if (std::holds_alternative<VersionAsked>(*parsed)) {
    session.json = AsksForJson(words);
    PrintVersion(session, program.name);
  } else if (const auto* nothing = std::get_if<NothingAsked>(&*parsed)) {
    context.err << nothing->help;
    return kExitUsage;
  } else {
    status = Run(session, common, std::get<RequestedCommand>(*parsed));
  }
  if (!status) {
    session.PrintError(status.error());
    return ExitStatusOf(status.error().code);
  }
  session.Flush();
  const int error = session.output_error();
  if (error == 0) return *status;
  // A reader that closes the pipe, as `head` does, has read enough.
  if (error != EPIPE) session.PrintError(base::SystemError(error, "writing the output"));
  return kExitFailed;
}

}  // namespace gpuman::cli
