#include "cli/command_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/nearest.h"
#include "cli/find_daemon.h"
#include "cli/queue/named_jobs.h"

namespace gpuman::cli {

int ExitStatusOf(base::ErrorCode code) {
  switch (code) {
    case base::ErrorCode::kInvalidArgument:
      return kExitUsage;
    case base::ErrorCode::kUnavailable:
    case base::ErrorCode::kTimeout:
      return kExitUnreachable;
    case base::ErrorCode::kNotFound:
      return kExitNoSuchThing;
    case base::ErrorCode::kPermissionDenied:
      return kExitNotPermitted;
    case base::ErrorCode::kUnsatisfiable:
      return kExitUnsatisfiable;
    default:
      return kExitFailed;
  }
}

base::Result<api::Client> CommandContext::Daemon(bool tells) {
  GPUMAN_ASSIGN(DaemonEndpoint place, FindDaemon(socket, environment()));
  if (place.start())
    GPUMAN_TRY(StartUserDaemon(place.socket, environment(), [this, tells](std::string_view text) {
      if (tells) Note(text);
    }));
  return ClientOf(std::move(place));
}

// Commands may ask for the same job several times: each note is printed once.
api::Client CommandContext::ClientOf(DaemonEndpoint place) {
  api::Client client(place.socket, std::move(place.connection));
  client.OnNote([this](std::string_view note) {
    if (notes_.emplace(note).second) Note(note);
  });
  return client;
}

base::Result<api::Client> CommandContext::RunningDaemon() {
  GPUMAN_ASSIGN(DaemonEndpoint place, FindDaemon(socket, environment()));
  if (place.start()) return base::Fail(base::ErrorCode::kUnavailable, "no daemon is running");
  return ClientOf(std::move(place));
}

void CommandContext::PrintJson(const api::Json& json_value) {
  Write(PrintableJson(api::Dump(json_value)) + '\n');
}

void CommandContext::Write(std::string_view text) {
  context_.out << text;
  NoteOutputError();
}

void CommandContext::Flush() {
  context_.out.flush();
  NoteOutputError();
}

void CommandContext::NoteOutputError() {
  if (!context_.out.good() && output_error_ == 0) output_error_ = errno != 0 ? errno : EIO;
}

void CommandContext::Note(std::string_view text) {
  if (json) return;
  Flush();
  context_.err << Paint(context_.err_style, Color::kDim, PrintableLines({}, fmt::format("gpuman: {}", text)))
               << std::endl;
}

void CommandContext::PrintError(const base::Error& error) {
  Flush();
  if (json) {
    context_.err << PrintableJson(api::Encode(error)) << std::endl;
    return;
  }
  context_.err << Paint(context_.err_style, Color::kRed, "gpuman: ") << Printable(error.message) << '\n';
  if (!error.hint.empty()) context_.err << "  " << Printable(error.hint) << '\n';
  context_.err.flush();
}

base::Error WithNearestTag(const api::Client& daemon, std::string_view job, base::Error error) {
  if (error.code != base::ErrorCode::kNotFound) return error;
  const auto jobs = daemon.Jobs(/*all=*/true);
  if (!jobs) return error;
  std::vector<std::string> tags;
  // `submit --name lr --param …` names its jobs lr-1, lr-2, …; --name-template 'lr-{rate}' as it says.
  std::map<std::pair<base::WallTime, std::string>, std::set<std::string_view>> together;
  for (const auto& known : jobs->jobs) {
    if (known.tag == job || fmt::to_string(known.id) == job) return error;  // the job exists
    tags.push_back(known.tag);
    if (known.tag.starts_with(job)) together[{known.submitted_at, known.user}].insert(known.tag);
  }
  std::erase_if(together, [](const auto& submission) { return submission.second.size() < 2; });
  if (!together.empty()) {
    const auto& newest = together.rbegin()->second;
    error.hint = fmt::format("the jobs of the sweep are named '{}'",
                             queue::NameOfSweep({newest.begin(), newest.end()}));
    return error;
  }
  // Any tag of one letter is near to any other.
  constexpr std::size_t kShortestGuess = 3;
  const auto nearest = job.size() < kShortestGuess ? std::nullopt : base::Nearest(job, tags);
  if (nearest)
    error.hint = fmt::format("did you mean '{}'?", *nearest);
  else if (error.hint.empty())
    error.hint = "gpuman status --all lists the jobs";
  return error;
}

}  // namespace gpuman::cli
