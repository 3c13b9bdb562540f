#include "daemon/start_error.h"

namespace gpuman::daemon {

base::Error WithUserMode(base::Error error, bool user_mode, uid_t user) {
  const bool refused = error.code == base::ErrorCode::kPermissionDenied;
  if (user_mode || (!refused && error.code != base::ErrorCode::kAlreadyExists)) return error;
  if (!error.hint.empty()) error.hint += "; ";
  if (refused && user != 0) error.hint += "gpumand serves all users, and only root may start it so; ";
  error.hint += "gpumand --user serves its user alone, with a socket and a state directory of its own";
  return error;
}

}  // namespace gpuman::daemon
