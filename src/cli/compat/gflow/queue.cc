// gqueue: the list of jobs in gflow's columns and words.
#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/compat/gflow/commands.h"
#include "cli/compat/known_tools.h"
#include "cli/printed_json.h"
#include "cli/queue/listing.h"
#include "cli/take.h"

namespace gpuman::cli::gflow {
namespace {

using queue::JobListEntry;

// "JobHeldUser" for held_by_user, "DependencyNever" for dependency_never.
std::string ReasonOf(const api::QueueRow& row) {
  if (row.reason == "held_by_user") return "JobHeldUser";
  std::string words;
  bool begins = true;
  for (const char c : row.reason) {
    if (c != '_') words += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = c == '_';
  }
  return words;
}

std::string PlaceOrReason(const api::QueueRow& row) {
  const bool reason = IsWaiting(row.state) || row.state == spec::JobState::kCancelled;
  if (!reason) return row.gpus.empty() ? "-" : row.gpus;
  return row.reason.empty() ? "-" : fmt::format("({})", ReasonOf(row));
}

api::Json JsonOf(const std::vector<JobListEntry>& jobs, base::WallTime now) {
  api::Json list = api::Json::array();
  for (const auto& [row, after] : jobs) {
    base::json::JsonObjectWriter one(kPrintedFormat);
    one("id", row.id);
    one("name", row.tag);
    one("state", std::string(queue::LongState(row.state)));
    one("time", SecondsOf(queue::RunTime(row, now)));
    one("gpus", row.gpus);
    one("user", row.user);
    one("project", NonEmpty(row.project));
    one("submitted_at", row.submitted_at);
    one("reason", row.reason.empty() ? std::nullopt : std::optional(ReasonOf(row)));
    list.push_back(std::move(one).Take());
  }
  return {{"total", list.size()}, {"timestamp", base::FormatIso8601(now)}, {"jobs", std::move(list)}};
}

}  // namespace

Command Gqueue() {
  Command command =
      queue::ListCommand({.table = {.columns = {"JOBID", "NAME", "ST", "TIME", "NODES", "NODELIST(REASON)"},
                                    .place = PlaceOrReason},
                          .of_caller = true,
                          .if_empty = {},
                          .json = JsonOf},
                         KnownTools());
  command.name = "gqueue";
  command.example = "gqueue -s Running,Queued -f 'JOBID,NAME,ST,NODES,NODELIST(REASON)'";
  command.options.push_back({"-T,--tmux", "", "", take::Nothing()});
  command.options.push_back({"--config", "FILE", "", take::Nothing()});
  return command;
}

}  // namespace gpuman::cli::gflow
