#include "shim/accounting/homes.h"

#include "ledger/wire/homes.h"
#include "shim/accounting/meter.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {

namespace wire = ledger::wire;

namespace {

// Returns whether the device is the first home, or has become it just now.
bool IsFirstHome(AccountingState& state, int device) {
  const auto wanted = static_cast<std::uint32_t>(device) + 1;
  std::uint32_t first = 0;
  if (!__atomic_compare_exchange_n(&state.first_home, &first, wanted, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST))
    return first == wanted;
  // The daemon has to know of which GPU the slot tells, also where its first allocation waits for room.
  if (const int gpu = LedgerGpuOf(state, device); IsJoined(state))
    wire::Store(state.ledger->slot[state.slot].home, static_cast<std::uint32_t>(gpu + 1));
  return true;
}

}  // namespace

bool TakeHome(AccountingState& state, int device) {
  if (IsFirstHome(state, device) || HomeEntryOf(state, device) != 0) return true;
  if (!IsJoined(state) || (wire::Load(state.ledger->features) & wire::kFeatureHomes) == 0) return false;
  const int gpu = LedgerGpuOf(state, device);
  if (gpu < 0) return false;
  const Locked lock(state.meter);
  const int entry = wire::ClaimHome(*state.ledger, state.slot, static_cast<unsigned>(gpu));
  wire::Store(state.devices[device].home_entry, static_cast<std::uint32_t>(entry + 1));
  return entry >= 0;
}

std::uint32_t HomeEntryOf(const AccountingState& state, int device) {
  return device >= 0 && device < kMaxDevices ? wire::Load(state.devices[device].home_entry) : 0;
}

}  // namespace gpuman::shim
