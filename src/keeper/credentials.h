// Gives a job's process its user, limits, priority and directory between fork and execve. For use in the
// forked child of a single-threaded process only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

// A step of the set-up that failed: its name, errno, and a sentence.
struct SetupError {
  std::string stage;
  int error_number = 0;
  std::string message;
};
using SetupResult = tl::expected<void, SetupError>;
// "DOING: what the system says of `error`" (an errno).
tl::unexpected<SetupError> SetupFailed(std::string stage, int error, std::string_view doing);

// Sets limits, priority and OOM score; what cannot be set becomes a note. Call it before TakeIdentity, since
// raising a limit needs root.
void ApplyLimits(const Spec& spec, std::vector<std::string>& notes);

// Sets groups, gid and uid, for good. A keeper that is not root can only stay the user that it is.
SetupResult TakeIdentity(const Spec& spec);

// Enters the working directory; call it as the job's user.
SetupResult EnterDirectory(const Spec& spec);

// The file to execute: `name` itself when it holds a '/', else the first executable file of that name in the
// directories of `path` (execvp(3): empty means the current one). Errors tell "not found" from "not allowed".
tl::expected<std::string, SetupError> FindCommand(const std::string& name, std::string_view path);

// The value of PATH, or the one execvp would take.
std::string_view PathOf(const std::vector<std::string>& environment);

}  // namespace gpuman::keeper
