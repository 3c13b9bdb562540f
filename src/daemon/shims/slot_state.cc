#include "daemon/shims/slot_state.h"

#include <algorithm>

#include "driver/abi/cuda.h"

namespace gpuman::daemon {

bool IsAtItsEnd(const ledger::SlotStatus& one) {
  return one.error == ledger::wire::OrderError::kDriver &&
         (one.driver_error == driver::abi::CUDA_ERROR_DEINITIALIZED ||
          one.driver_error == driver::abi::CUDA_ERROR_INVALID_CONTEXT ||
          one.driver_error == driver::abi::CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

std::vector<ledger::EvictableGpu> HomesOf(const ledger::SlotStatus& one,
                                          const std::vector<std::string>& gpus) {
  auto homes = one.homes;
  if (homes.empty() || !homes.front().uuid.empty()) return homes;
  const auto most = std::ranges::max_element(one.held, {}, &ledger::GpuUsage::used);
  if (most != one.held.end())
    homes.front().uuid = most->uuid;
  else if (!gpus.empty())
    homes.front().uuid = gpus.front();
  else
    homes.erase(homes.begin());
  return homes;
}

}  // namespace gpuman::daemon
