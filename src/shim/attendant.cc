#include "shim/attendant.h"

#include <cstdlib>

#include "ledger/wire/orders.h"
#include "shim/backing.h"
#include "shim/driver.h"
#include "shim/eviction.h"
#include "shim/guest.h"
#include "shim/threads.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // the vendor's names
using wire::Stage;
using wire::Trouble;

constexpr std::uint64_t kEndingNs = 2'000'000'000;  // how long the program's end waits for the attendant

// For as long as it lives, the program's end waits.
class Working {
 public:
  explicit Working(Attendant& attendant) : attendant_(attendant) { wire::Store(attendant_.working, 1); }
  ~Working() {
    wire::Store(attendant_.working, 0);
    if (wire::Load(attendant_.ending) != 0) wire::WakeAll(attendant_.working);
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  Attendant& attendant_;
};

class Attending {
 public:
  explicit Attending(Guest& guest) : guest_(guest), slot_(guest.ledger->slot[guest.slot]) {}

  [[noreturn]] void Run() {
    OpenVault(guest_);
    TellEvictable(guest_);
    Tell(Stage::kOnGpu);
    std::uint32_t done = wire::Load(slot_.answered);
    for (;;) {
      const std::uint32_t order = wire::Load(slot_.order);
      if (order == done) {
        wire::WaitOn(slot_.order, order, -1);
        continue;
      }
      const Working working(guest_.attendant);
      Obey(order);
      done = order;
      wire::Store(slot_.answered, order);
      wire::WakeAll(slot_.answered);
    }
  }

 private:
  void Tell(Stage stage) { wire::Store(slot_.stage, static_cast<std::uint32_t>(stage)); }
  void Tell(const Ended& ended) {
    wire::Store(slot_.error, wire::PackError(ended.trouble, static_cast<std::uint32_t>(ended.driver)));
  }
  void TellAway(std::uint64_t bytes) {
    __atomic_store_n(&slot_.evictable, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot_.evicted, bytes, __ATOMIC_SEQ_CST);
    TellImported(guest_);
  }
  // The program allocates and frees by now.
  void TellBack() {
    __atomic_store_n(&slot_.evicted, 0, __ATOMIC_SEQ_CST);
    TellEvictable(guest_);
  }
  std::uint64_t Deadline() const {
    const std::uint32_t patience = wire::Load(guest_.ledger->patience_ms);
    return NowNs() + std::uint64_t{patience != 0 ? patience : wire::kPatienceMs} * 1'000'000;
  }

  void Obey(std::uint32_t order) {
    Tell(Ended{});
    bool& out = guest_.attendant.out;
    if (wire::OrdersEviction(order) == out) {
      Tell(out ? Stage::kEvicted : Stage::kOnGpu);  // the page may have been overwritten
    } else if (!out) {
      Tell(Stage::kEvicting);
      std::uint64_t evicted = 0;
      const Ended ended = wire::Load(guest_.attendant.ending) != 0 ? Ended{Trouble::kBusy}
                                                                   : Evict(guest_, Deadline(), evicted);
      out = ended.trouble == Trouble::kNone;
      if (out) TellAway(evicted);
      Tell(ended);
      Tell(out ? Stage::kEvicted : Stage::kOnGpu);
    } else {
      Tell(Stage::kRestoring);
      const Ended ended = Restore(guest_);
      out = ended.trouble != Trouble::kNone && !ended.failed;
      if (!out) TellBack();
      Tell(ended);
      Tell(ended.failed ? Stage::kFailed : out ? Stage::kEvicted : Stage::kOnGpu);
    }
  }

  Guest& guest_;
  wire::Slot& slot_;
};

void* Attend(void* word) {
  if (auto* const exchange = GPUMAN_REAL(cuThreadExchangeStreamCaptureMode)) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // no capture is this thread's business
    exchange(&mode);
  }
  Attending(*static_cast<Guest*>(word)).Run();
}

// Runs at exit, before the driver's own handlers, which were there earlier.
void AtEnd() {
  Guest* const guest = GuestMemory();
  if (guest == nullptr || wire::Load(guest->attendant.started) == 0) return;
  Attendant& attendant = guest->attendant;
  wire::Store(attendant.ending, 1);
  const std::uint64_t deadline = NowNs() + kEndingNs;
  while (!attendant.out && wire::Load(attendant.working) != 0) {
    const std::uint64_t now = NowNs();
    if (now >= deadline) return;
    wire::WaitOn(attendant.working, 1, static_cast<int>((deadline - now) / 1'000'000) + 1);
  }
}

}  // namespace

void StartAttendant(Guest& guest) {
  if (wire::Load(guest.attendant.started) != 0 || !MayBeEvicted() ||
      guest.phase.load(std::memory_order_acquire) != Phase::kJoined ||
      wire::Load(guest.ledger->backing) != static_cast<std::uint32_t>(wire::Backing::kEvictable))
    return;
  std::uint32_t expected = 0;
  if (!__atomic_compare_exchange_n(&guest.attendant.started, &expected, 1, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST))
    return;
  if (!StartThread(Attend, &guest)) {
    wire::Store(guest.attendant.started, 0);
    return;
  }
  static bool at_end = false;  // a child of a fork has the handler already
  if (!at_end) at_end = std::atexit(AtEnd) == 0;
}

}  // namespace gpuman::shim
