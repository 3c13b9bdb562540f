#include "shim/attendant.h"

#include "ledger/wire/orders.h"
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

// Host memory follows what the program takes once it has rested so long: one that ends soon costs nothing.
constexpr int kRestMs = 250;

class Attending {
 public:
  explicit Attending(Guest& guest) : guest_(guest), slot_(guest.ledger->slot[guest.slot]) {}

  [[noreturn]] void Run() {
    Tell(Stage::kOnGpu);
    std::uint32_t done = wire::Load(slot_.answered);
    for (;;) {
      const std::uint32_t order = wire::Load(slot_.order);
      if (order != done) {
        Obey(order);
        done = order;
        wire::Store(slot_.answered, order);
        wire::WakeAll(slot_.answered);
      } else {
        Doze(order);
      }
    }
  }

 private:
  void Tell(Stage stage) { wire::Store(slot_.stage, static_cast<std::uint32_t>(stage)); }
  void Tell(const Ended& ended) {
    wire::Store(slot_.error, wire::PackError(ended.trouble, static_cast<std::uint32_t>(ended.driver)));
  }
  void TellBytes(std::uint64_t on_device, std::uint64_t evicted) {
    __atomic_store_n(&slot_.evictable, on_device, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot_.evicted, evicted, __ATOMIC_SEQ_CST);
  }
  std::uint64_t Backed() {
    const Locked lock(guest_.books);
    return guest_.regions.bytes();
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
      const Ended ended = Evict(guest_, Deadline(), evicted);
      out = ended.trouble == Trouble::kNone;
      if (out) TellBytes(0, evicted);
      Tell(ended);
      Tell(out ? Stage::kEvicted : Stage::kOnGpu);
    } else {
      Tell(Stage::kRestoring);
      const Ended ended = Restore(guest_);
      out = ended.trouble != Trouble::kNone && !ended.failed;
      if (!out) TellBytes(Backed(), 0);
      Tell(ended);
      Tell(ended.failed ? Stage::kFailed : out ? Stage::kEvicted : Stage::kOnGpu);
    }
  }

  // Until there may be an order, or host memory to make.
  void Doze(std::uint32_t order) {
    int wait_ms = -1;
    if (!guest_.attendant.out) {
      const std::uint64_t wanted = Backed(), ready = guest_.arena.ready;
      if (wanted > ready && wanted != refused_) {
        if (wanted == seen_) {
          // Step by step: an order comes first.
          const std::uint64_t next = ready + kChunkBytes < wanted ? ready + kChunkBytes : wanted;
          if (GrowArena(guest_, next, 1) != Trouble::kNone) refused_ = wanted;
          return;
        }
        seen_ = wanted;
        wait_ms = kRestMs;
      } else if (ready > wanted + 2 * kArenaSlack) {
        ShrinkArena(guest_, wanted);
      }
    }
    wire::Store(guest_.attendant.dozing, 1);
    wire::WaitOn(slot_.order, order, wait_ms);
    wire::Store(guest_.attendant.dozing, 0);
  }

  Guest& guest_;
  wire::Slot& slot_;
  std::uint64_t seen_ = 0, refused_ = 0;  // bytes backed when last looked, and when host memory was refused
};

void* Attend(void* word) {
  if (auto* const exchange = GPUMAN_REAL(cuThreadExchangeStreamCaptureMode)) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // no capture is this thread's business
    exchange(&mode);
  }
  Attending(*static_cast<Guest*>(word)).Run();
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
  if (!StartThread(Attend, &guest)) wire::Store(guest.attendant.started, 0);
}

}  // namespace gpuman::shim
