// The queue's commands as `gpuman` has them.
#include "cli/queue/commands.h"

#include <fmt/format.h>
#include <pwd.h>

#include "api/ask.h"
#include "cli/commands.h"
#include "cli/queue/command_dialect.h"
#include "cli/queue/listing.h"

namespace gpuman::cli {

Command QueueCommand(const queue::ToolCompatibility& tools) { return queue::ListCommand({}, tools); }
Command CancelCommand(const queue::ToolCompatibility& tools) { return queue::CancelCommand(tools); }
Command InfoCommand() { return queue::InfoCommand(); }
Command StatsCommand() { return queue::StatsCommand(); }

Command JobCommand(const queue::ToolCompatibility& tools) {
  return {"job",
          "Show and change jobs of the queue: show, log, wait, hold, update, redo, …",
          "gpuman job show train",
          {},
          {},
          {},
          queue::JobCommands(queue::kGpuman, tools)};
}
Command ReserveCommand() {
  return {"reserve", "Reserve GPUs for users", "gpuman reserve list", {}, {}, {}, queue::ReserveCommands()};
}
Command QuotaCommand() {
  return {"quota",
          "Limit what users and projects may use",
          "gpuman quota list",
          {},
          {},
          {},
          queue::QuotaCommands()};
}

namespace queue {

Argument UsualArgument(const std::string& value, std::size_t most) {
  const bool one = most == 1;
  const char* const job =
      one ? "The job: its id or tag, 7_3 for a task of an array, or @ for your last submission"
          : "Jobs: ids, tags, 7_3 (a task of an array), 'lr-*' (a sweep), 5-9, @ (your last submission), or "
            "several with commas";
  const char* const gpu = one ? "The GPU, by index or UUID" : "GPUs, by index or UUID";
  const char* const id = one ? "The id that the list shows" : "The ids that the list shows";
  return {value, 1, most, value == kJobValue ? job : value == kGpuValue ? gpu : id};
}

std::vector<api::QueueGpu> GpusOf(const api::Client& daemon) {
  return api::AskWithoutTimeout(daemon, api::routes::kQueueInfo).value_or(api::QueueInfo{}).gpus;
}

void NoteStranger(CommandContext& session, const std::string& user) {
  if (::getpwnam(user.c_str()) == nullptr)
    session.Note(fmt::format("this machine knows no user {}", Printable(user)));
}

}  // namespace queue
}  // namespace gpuman::cli
