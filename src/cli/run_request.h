// From the options of `gpuman run` to the request that the daemon gets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/result.h"

namespace gpuman::cli {

struct RunOptions {
  std::string tag;
  std::optional<std::string> memory;
  std::optional<std::string> soft;
  std::vector<std::string> gpus;
  int priority = 128;
  std::string restart = "no";
  std::optional<std::string> grace;
  std::optional<std::string> command;  // --command
  bool no_preload = false;
  bool share = false;
  double weight = 1;
  bool oversubscribe = false;
  std::optional<std::string> device_profile;
  bool mps = false;
  std::optional<std::string> mps_threads;  // "25%"
};

// What the job takes over from the shell it was started in.
struct Origin {
  std::string directory;
  std::vector<std::string> environment;  // "NAME=value"
  std::uint32_t umask = 022;
};
base::Result<Origin> OriginOfThisProcess();

struct MadeRequest {
  api::RunRequest request;
  std::vector<std::string> left_out;  // variables that JSON cannot carry, since they are not UTF-8
  std::vector<std::string> notes;     // what else the user should know
};

// `trailing`: what stood behind "--". kInvalidArgument names the option.
base::Result<MadeRequest> MakeRunRequest(const RunOptions& options,
                                         const std::optional<std::vector<std::string>>& trailing,
                                         const Origin& origin);

// Whether the request's command can be executed, as the caller sees the file system: sooner and plainer than
// the job's failure would say it. kNotFound, kPermissionDenied.
base::Result<> CheckProgram(const api::RunRequest& request);

// Size and time options, with the option's name in front of the error.
base::Result<std::optional<base::SizeSpec>> SizeOption(std::string_view name,
                                                       const std::optional<std::string>& text);
base::Result<std::optional<base::Millis>> TimeOption(std::string_view name,
                                                     const std::optional<std::string>& text);

}  // namespace gpuman::cli
