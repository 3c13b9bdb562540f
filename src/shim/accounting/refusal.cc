#include "shim/accounting/refusal.h"

#include "ledger/wire/books.h"
#include "shim/accounting/accounting_state.h"
#include "shim/accounting/meter.h"
#include "shim/libc/clock.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

}  // namespace

void TellIfRefused(AccountingState& state, int device, std::uint64_t bytes, driver::abi::CUresult result,
                   bool full) {
  if (result != driver::abi::CUDA_ERROR_OUT_OF_MEMORY) return;
  const int gpu = LedgerGpuOf(state, device);
  if (gpu < 0) return;
  const auto [limit, used] = ReportedMemoryOf(state, device);
  // Without a limit that could refuse, only the shim's own tables can be full.
  if (!full && limit == wire::kNoLimit) return;
  const bool shared = wire::Load(state.ledger->room_patience_ms) != 0;
  const wire::RefusedBy by = !full    ? wire::RefusedBy::kLimit
                             : shared ? wire::RefusedBy::kSharing
                                      : wire::RefusedBy::kDevice;
  wire::Refusal& last = state.ledger->gpu[gpu].refusal;
  wire::Store(last.bytes, bytes);
  wire::Store(last.used, used);
  wire::Store(last.limit, limit);
  wire::Store(last.at, NowNs());
  __atomic_store_n(&last.by, static_cast<std::uint32_t>(by), __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&last.number, 1, __ATOMIC_SEQ_CST);
}

}  // namespace gpuman::shim
