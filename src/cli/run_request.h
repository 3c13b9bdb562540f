// Turns the options of `gpuman run` into the request for the daemon.
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

// What the job takes over from the shell that submits it.
struct Origin {
  std::string directory;
  std::vector<std::string> environment;  // "NAME=value"
  std::uint32_t umask = 022;
};
base::Result<Origin> OriginOfThisProcess();

struct MadeRequest {
  api::RunRequest request;
  std::vector<std::string> left_out;  // variables that JSON cannot carry, since they are not UTF-8
  std::vector<std::string> notes;     // other notes for the user
};

// `trailing`: the words behind "--". kInvalidArgument names the option.
base::Result<MadeRequest> MakeRunRequest(const RunOptions& options,
                                         const std::optional<std::vector<std::string>>& trailing,
                                         const Origin& origin);

// Checks whether the request's command can be executed, as the caller sees the file system: the error comes
// sooner and is clearer than the job's failure. kNotFound, kPermissionDenied.
base::Result<> CheckProgram(const api::RunRequest& request);

// Parses a size option; the option's name is in front of the error.
base::Result<std::optional<base::SizeSpec>> SizeOption(std::string_view name,
                                                       const std::optional<std::string>& text);
base::Result<std::optional<base::Millis>> TimeOption(std::string_view name,
                                                     const std::optional<std::string>& text);

}  // namespace gpuman::cli
