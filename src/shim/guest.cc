#include "shim/guest.h"

#include <sys/mman.h>
#include <unistd.h>

#include "ledger/wire/books.h"
#include "shim/backing.h"
#include "shim/join.h"
#include "shim/meter.h"
#include "shim/paging.h"
#include "shim/threads.h"

namespace gpuman::shim {
namespace {

// A daemon that is there takes a connection at once, and may have a thousand processes to answer before.
constexpr Patience kPatience{.connect_ms = 500, .answer_ms = 10'000};
constexpr std::uint64_t kFirstPause = 1'000'000'000;
// Where the others' turns hang on what it has.
constexpr std::uint64_t kPauseOfShared = 250'000'000;
constexpr unsigned kMostDoublings = 6;  // at most a minute between two tries

Guest* memory;
// The descriptor that a process leaves to a child of its fork, which does not know of it.
KeptFile left_file{-1, 0, 0};

void CloseLeftFile() {
  if (IsStill(left_file)) ::close(left_file.descriptor);
  left_file.descriptor = -1;
}

void Try(Guest& guest) {
  CloseLeftFile();
  Place place{nullptr, 0, -1};
  const Reply reply = AskForLedger(place, kPatience);
  if (reply == Reply::kJoined) {
    left_file = Keep(place.file);
    Join(guest, place);
    guest.phase.store(Phase::kJoined, std::memory_order_release);
    TellImported(guest);
    TellManaged(guest);
    return;
  }
  if (reply == Reply::kNoJob) return guest.phase.store(Phase::kNever, std::memory_order_release);
  const unsigned doublings = guest.tries < kMostDoublings ? guest.tries : kMostDoublings;
  ++guest.tries;
  const std::uint64_t pause = MayBeEvicted() ? kPauseOfShared : kFirstPause << doublings;
  __atomic_store_n(&guest.next_try, NowNs() + pause, __ATOMIC_RELEASE);
}

// Whoever comes first asks. At the very first time the others wait for it: what they allocate has to count.
void TryWhenDue(Guest& guest) {
  const std::uint64_t due = __atomic_load_n(&guest.next_try, __ATOMIC_ACQUIRE);
  if (due != 0 && NowNs() < due) return;
  const NoCancellation whole;
  if (due != 0) {
    if (::pthread_mutex_trylock(&guest.join) != 0) return;
  } else {
    ::pthread_mutex_lock(&guest.join);
  }
  if (guest.phase == Phase::kAlone && guest.next_try == due) Try(guest);
  ::pthread_mutex_unlock(&guest.join);
}

}  // namespace

void JoinWhenDue(Guest& guest) { TryWhenDue(guest); }

// Null where the kernel cannot wipe memory for a child (before 4.14).
Guest* GuestMemory() {
  Guest* known = __atomic_load_n(&memory, __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  void* const fresh =
      ::mmap(nullptr, sizeof(Guest), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  auto* const guest = static_cast<Guest*>(fresh);
  const bool wiped = ::madvise(fresh, sizeof(Guest), MADV_WIPEONFORK) == 0;
  if (wiped && __atomic_compare_exchange_n(&memory, &known, guest, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return guest;
  ::munmap(fresh, sizeof(Guest));
  return known;
}

Guest* ThisGuest() {
  Guest* const guest = GuestMemory();
  if (guest == nullptr) return nullptr;
  Phase phase = guest->phase.load(std::memory_order_acquire);
  // Once there is an attendant it asks, and the program's threads never wait for that.
  if (__builtin_expect(phase == Phase::kAlone, 0) &&
      __atomic_load_n(&guest->attendant.started, __ATOMIC_ACQUIRE) == 0) {
    TryWhenDue(*guest);
    phase = guest->phase.load(std::memory_order_acquire);
  }
  return phase == Phase::kNever ? nullptr : guest;
}

}  // namespace gpuman::shim
