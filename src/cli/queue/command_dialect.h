// Under which names, with which units and in whose words the commands of the queue speak: gpuman's, or those
// of another tool whose users call the commands by its names (src/cli/compat).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/queue_types.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/queue/queue_views.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct JobUpdateSettings;

// A constant of the program: commands keep references to it, and it is known by its address.
struct CommandDialect {
  using OtherName = std::pair<std::string_view, std::string_view>;

  std::string_view mark;                     // lines "# MARK" of a script have options of this dialect
  bool marks_anywhere = false;               // also below the first command
  const char* how_to_submit;                 // a hint
  std::span<const OtherName> other_names{};  // options by gpuman's name, where that differs

  // Tables as SubmitOptions makes one: of a submission, and the part of `job update` and `job redo` that
  // dialects do not have in common (nullptr: gpuman's).
  Options (*submit_options)(SubmitSettings& settings, base::WallTime now) = &SubmitOptions;
  Options (*update_options)(JobUpdateSettings& settings, base::WallTime now) = nullptr;

  // Change the jobs that were made: before they are checked, and after.
  void (*prepare)(api::SubmitRequest& request) = [](api::SubmitRequest&) {};
  void (*complete)(api::SubmitRequest& request) = [](api::SubmitRequest&) {};

  // What `job show` prints.
  std::string (*render_job)(const api::JobView& job, const std::vector<api::GpuView>& gpus,
                            const TerminalStyle& style, base::WallTime now) = &RenderJob;
  // The line for a job that was queued. nullptr: gpuman's sentence.
  std::string (*submitted)(std::string_view id, std::string_view tag) = nullptr;

  // The name that gpuman's option has here.
  std::string_view NameOf(std::string_view option) const {
    for (const auto& [ours, here] : other_names)
      if (ours == option) return here;
    return option;
  }
};

inline constexpr CommandDialect kGpuman{
    .mark = "GPUMAN",
    .how_to_submit = "gpuman submit --gpus 1 -- COMMAND ARGUMENTS…, or gpuman submit SCRIPT"};

}  // namespace gpuman::cli::queue
