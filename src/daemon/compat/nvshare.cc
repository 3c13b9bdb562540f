#include "daemon/compat/nvshare.h"

namespace gpuman::daemon::nvshare {

bool AsksForOversubscription(const api::RunRequest& request) {
  if (!request.share || !request.preload) return false;
  const auto variable = request.environment.find("NVSHARE_ENABLE_SINGLE_OVERSUB");
  return variable != request.environment.end() && !variable->second.empty() && variable->second != "0";
}

}  // namespace gpuman::daemon::nvshare
