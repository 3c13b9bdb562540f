// Internal to the tables of options that change a job: what an option does with its value.
#pragma once

#include <string>

#include "api/queue_json.h"
#include "cli/command.h"
#include "cli/queue/update.h"

namespace gpuman::cli::queue {

inline base::Result<std::string> AsText(const std::string& text) { return text; }

// Sets the option of the job that has the name `option` in the API.
template <typename Class, typename T, typename Parse>
Take SetOption(JobUpdateSettings& s, const char* option, T Class::*member, Parse parse) {
  return [&s, option, member, parse](const std::string& text) -> base::Result<> {
    spec::JobRequest options;
    GPUMAN_ASSIGN(options.*member, parse(text));
    api::AddOption(options, option, s.update);
    return {};
  };
}
// The job is without the option then.
Take ClearOption(JobUpdateSettings& s, const std::string& option);
// Sets the option; "none" clears it.
template <typename Class, typename T, typename Parse>
Take SetOrClearOption(JobUpdateSettings& s, const char* option, T Class::*member, Parse parse) {
  return [set = SetOption(s, option, member, parse), clear = ClearOption(s, option)](
             const std::string& text) -> base::Result<> { return text == "none" ? clear(text) : set(text); };
}

// Whether a dependency that can no longer be met cancels the job.
Take AutoCancel(JobUpdateSettings& s, bool value);
Take NoRetries(JobUpdateSettings& s);

}  // namespace gpuman::cli::queue
