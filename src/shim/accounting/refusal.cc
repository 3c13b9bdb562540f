#include "shim/accounting/refusal.h"

#include "ledger/wire/slot_balance.h"
#include "shim/accounting/accounting_state.h"
#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/accounting/trace_memory.h"
#include "shim/libc/clock.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

std::uint64_t FreeOn(AccountingState& state, int device) {
  auto* const ask = GPUMAN_REAL(cuMemGetInfo_v2);
  AllocationTarget where{};
  std::size_t free = 0, total = 0;
  if (ask == nullptr || !CurrentWhere(state, where) || where.device != device ||
      ask(&free, &total) != CUDA_SUCCESS)
    return wire::kUnknownBytes;
  return free;
}

// An allocation that waited for room did so outside the gate, which may be closed by now: then the driver is
// not asked.
wire::AtRefusal Describe(AccountingState& state, int device, wire::RefusedBy by) {
  const bool ask = by != wire::RefusedBy::kSharing;
  wire::AtRefusal now{};
  {
    const Locked lock(state.pools);
    now.pools_unused = UnusedOn(state, device, ask);
  }
  now.device_free = ask ? FreeOn(state, device) : wire::kUnknownBytes;
  now.memory = CompositionOn(state, device);
  return now;
}

void Write(wire::AtRefusal& to, const wire::AtRefusal& told, std::uint64_t number) {
  wire::Store(to.number, 0);
  wire::Store(to.pools_unused, told.pools_unused);
  wire::Store(to.device_free, told.device_free);
  wire::Write(to.memory, told.memory);
  wire::Store(to.number, number);
}

// But for its number, which its writer writes last.
void Write(wire::Refusal& to, const wire::Refusal& told) {
  wire::Store(to.bytes, told.bytes);
  wire::Store(to.used, told.used);
  wire::Store(to.limit, told.limit);
  wire::Store(to.at, told.at);
  wire::Store(to.by, told.by);
  wire::Store(to.what, told.what);
}

void WriteDetail(wire::GpuPeakAndRefusals& detail, const wire::Refusal& refusal, const wire::AtRefusal& then,
                 std::uint64_t number) {
  Write(detail.at_last, then, number);
  if (!wire::Exchange(detail.at_first.number, 0, number)) return;
  Write(detail.at_first, then, number);
  Write(detail.first, refusal);
  wire::Store(detail.first.number, number);
}

}  // namespace

void TellIfRefused(AccountingState& state, int device, std::uint64_t bytes, CUresult result, bool full,
                   wire::RefusedWhat what) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return;
  const int gpu = LedgerGpuOf(state, device);
  if (gpu < 0) return;
  const auto [limit, used] = ReportedMemoryOf(state, device);
  // Without a limit that could refuse, only the shim's own tables can be full.
  if (!full && limit == wire::kNoLimit) return;
  const bool shared = wire::Load(state.ledger->room_patience_ms) != 0;
  const wire::RefusedBy by = !full    ? wire::RefusedBy::kLimit
                             : shared ? wire::RefusedBy::kSharing
                                      : wire::RefusedBy::kDevice;
  const wire::Refusal refusal{
      0, bytes, used, limit, NowNs(), static_cast<std::uint32_t>(by), static_cast<std::uint32_t>(what)};
  const wire::AtRefusal then = Describe(state, device, by);
  wire::Refusal& last = state.ledger->gpu[gpu].refusal;
  // Where another process is refused memory at the same time, the details have the wrong number, and nobody
  // believes them.
  if (wire::GpuPeakAndRefusals* const detail = wire::DetailOf(*state.ledger, static_cast<unsigned>(gpu)))
    WriteDetail(*detail, refusal, then, wire::Load(last.number) + 1);
  Write(last, refusal);
  __atomic_fetch_add(&last.number, 1, __ATOMIC_SEQ_CST);
  NoteRefused(state, device, bytes);
}

}  // namespace gpuman::shim
