// Changes a ledger's counts: many processes do so at once, each may be killed between any two instructions,
// there is no lock, and no byte passes a limit.
//
// Accounts are counted: the memory of each GPU (its index), and the host memory that holds what left the GPUs
// (kHost).
//
// Two words have to change together: an account's total, and what the process has there. A change is
// announced in the slot (intent), happens when the total is exchanged, and is then entered in the slot
// (books). The total names the change that made it, by slot and number. A process that wants to make the next
// change first enters that one, if the process that made it has not done so. So a change that happened in the
// total always reaches the slot, and one that did not happen never does:
//   total = sum of all books + the one change that the total names, if it is not entered yet.
//
// Only one thread at a time changes one slot and account: in the process that owns the slot, or in the one
// that reclaims it (slot_lock.h). Any number of others may enter changes meanwhile.
//
// The page may hold anything. Nothing here reads or writes outside of it or loops for ever.
#pragma once

#include <initializer_list>

#include "ledger/wire/layout.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

enum class Outcome {
  kDone,
  kRefused,  // the change would pass the limit, or what can be counted
  kBroken    // the page makes no sense (it was overwritten)
};

inline constexpr unsigned kHost = kMaxGpus;
inline constexpr unsigned kAccounts = kMaxGpus + 1;

inline constexpr unsigned kSlotBits = 10;
inline constexpr unsigned kNumberBits = 22;
static_assert(kSlots == 1u << kSlotBits && kSlotBits + kNumberBits == 32);

// units << 32 | slot << 22 | the low bits of the change's number
struct Total {
  std::uint64_t word;
  std::uint32_t units() const { return static_cast<std::uint32_t>(word >> 32); }
  unsigned slot() const { return static_cast<unsigned>(word >> kNumberBits) & (kSlots - 1); }
  std::uint32_t number() const { return static_cast<std::uint32_t>(word) & ((1u << kNumberBits) - 1); }
};

// units << 32 | the number of the last change
struct Books {
  std::uint64_t word;
  std::uint32_t units() const { return static_cast<std::uint32_t>(word >> 32); }
  std::uint32_t number() const { return static_cast<std::uint32_t>(word); }
};

// units to add, signed, << 32 | the number of the change
struct Intent {
  std::uint64_t word;
  std::int32_t delta() const { return static_cast<std::int32_t>(word >> 32); }
  std::uint32_t number() const { return static_cast<std::uint32_t>(word); }
};

constexpr std::uint32_t ShortNumber(std::uint32_t number) { return number & ((1u << kNumberBits) - 1); }
constexpr std::uint64_t Pack(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32 | low;
}

inline bool Exchange(std::uint64_t& word, std::uint64_t expected, std::uint64_t wanted) {
  return __atomic_compare_exchange_n(&word, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// `units` + `delta`, kept within the range of a word: only an overwritten page comes near its ends.
constexpr std::uint32_t Plus(std::uint32_t units, std::int32_t delta) {
  const std::int64_t sum = std::int64_t{units} + delta;
  return sum < 0 ? 0 : sum > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(sum);
}

// The units that hold `bytes`.
constexpr std::uint64_t UnitsOf(std::uint64_t bytes) { return bytes / kUnit + (bytes % kUnit != 0 ? 1 : 0); }

// The account's words. The account is below kAccounts, the slot below kSlots.
inline std::uint64_t& TotalWord(Ledger& ledger, unsigned account) {
  return account == kHost ? ledger.host_total : ledger.gpu[account].total;
}
inline const std::uint64_t& TotalWord(const Ledger& ledger, unsigned account) {
  return account == kHost ? ledger.host_total : ledger.gpu[account].total;
}
inline Holding& HoldingOf(Slot& slot, unsigned account) {
  return account == kHost ? slot.host : slot.gpu[account];
}

// Enters the change that `total` names, unless it was entered. Any thread of any process may call it.
inline void ApplyLastChange(Ledger& ledger, unsigned account, Total total) {
  Holding& holding = HoldingOf(ledger.slot[total.slot()], account);
  const Books books{Load(holding.books)};
  if (ShortNumber(books.number() + 1) != total.number()) return;  // entered
  const Intent intent{Load(holding.intent)};
  // Another number: the slot has a newer change, so this one was entered after `books` was read.
  if (intent.number() != books.number() + 1) return;
  Exchange(holding.books, books.word, Pack(Plus(books.units(), intent.delta()), intent.number()));
}

// What a slot has in an account, with every change entered.
inline std::uint64_t BytesOf(Ledger& ledger, unsigned account, unsigned slot) {
  ApplyLastChange(ledger, account, Total{Load(TotalWord(ledger, account))});
  return Books{Load(HoldingOf(ledger.slot[slot], account).books)}.units() * kUnit;
}

// What the whole job has in an account, as the slots count it.
inline std::uint64_t TotalOf(const Ledger& ledger, unsigned account) {
  return Total{Load(TotalWord(ledger, account))}.units() * kUnit;
}

// Whether the job may have `units` in the account.
inline bool Fits(const Ledger& ledger, unsigned account, std::uint64_t units) {
  if (units > UINT32_MAX) return false;
  const std::uint64_t limit = Load(account == kHost ? ledger.host_budget : ledger.gpu[account].limit);
  if (limit == kNoLimit) return true;
  const std::uint64_t outside = account == kHost ? 0 : Load(ledger.gpu[account].outside);
  return outside <= limit && units * kUnit <= limit - outside;
}

// Whether the job's use is within what it may have for now (Gpu::room).
inline bool HasRoom(const Ledger& ledger, unsigned gpu) {
  const std::uint64_t room = Load(ledger.gpu[gpu].room);
  return room == kNoLimit || Load(ledger.gpu[gpu].outside) + TotalOf(ledger, gpu) <= room;
}

enum class Check { kLimit, kNone };

// The owner changes what its slot has by `units` (never below zero).
inline Outcome Change(Ledger& ledger, unsigned account, unsigned slot, std::int64_t units, Check check) {
  constexpr unsigned kTries = 100'000;  // each failed try is another process's success
  if (units > INT32_MAX || units < INT32_MIN) return Outcome::kRefused;
  std::uint64_t& word = TotalWord(ledger, account);
  Holding& holding = HoldingOf(ledger.slot[slot], account);
  for (unsigned i = 0; i < kTries; ++i) {
    const Total total{Load(word)};
    ApplyLastChange(ledger, account, total);
    const Books books{Load(holding.books)};
    // Gives back no more than the slot and the total have: an overwritten page must not make the total wrap.
    std::int64_t delta = units;
    if (delta < -std::int64_t{books.units()}) delta = -std::int64_t{books.units()};
    if (delta == 0) return Outcome::kDone;
    if (delta > 0 && check == Check::kLimit &&
        !Fits(ledger, account, std::uint64_t{total.units()} + static_cast<std::uint64_t>(delta)))
      return Outcome::kRefused;
    const auto change = static_cast<std::int32_t>(delta);
    const std::uint32_t number = books.number() + 1;
    Store(holding.intent, Pack(static_cast<std::uint32_t>(change), number));
    const Total next{Pack(Plus(total.units(), change), slot << kNumberBits | ShortNumber(number))};
    if (!Exchange(word, total.word, next.word)) continue;
    ApplyLastChange(ledger, account, next);
    return Outcome::kDone;
  }
  return Outcome::kBroken;
}

// Takes `bytes`, rounded up to units, within the limit.
inline Outcome Reserve(Ledger& ledger, unsigned account, unsigned slot, std::uint64_t bytes) {
  if (UnitsOf(bytes) > INT32_MAX) return Outcome::kRefused;
  return Change(ledger, account, slot, static_cast<std::int64_t>(UnitsOf(bytes)), Check::kLimit);
}

// Takes `bytes` whatever the limit is: the device has given them already.
inline Outcome Charge(Ledger& ledger, unsigned account, unsigned slot, std::uint64_t bytes) {
  if (UnitsOf(bytes) > INT32_MAX) return Outcome::kRefused;
  return Change(ledger, account, slot, static_cast<std::int64_t>(UnitsOf(bytes)), Check::kNone);
}

inline Outcome GiveBack(Ledger& ledger, unsigned account, unsigned slot, std::uint64_t bytes) {
  if (UnitsOf(bytes) > INT32_MAX) return Outcome::kRefused;
  return Change(ledger, account, slot, -static_cast<std::int64_t>(UnitsOf(bytes)), Check::kNone);
}

// Gives back all that a slot has, and frees it. The caller holds the slot's lock; the slot's process has
// ended.
inline Outcome Clear(Ledger& ledger, unsigned slot) {
  Outcome outcome = Outcome::kDone;
  for (unsigned account = 0; account < kAccounts; ++account) {
    if (BytesOf(ledger, account, slot) == 0) continue;
    const Outcome cleared = GiveBack(ledger, account, slot, BytesOf(ledger, account, slot));
    if (cleared != Outcome::kDone) outcome = cleared;
  }
  Slot& gone = ledger.slot[slot];
  for (std::uint32_t* const word : {&gone.flags, &gone.order, &gone.answered, &gone.stage, &gone.error})
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
  Store(gone.evictable, 0);
  Store(gone.evicted, 0);
  for (std::uint64_t* const word :
       {&gone.order_bytes, &gone.wants, &gone.activity_since, &gone.completed, &gone.managed})
    Store(*word, 0);
  __atomic_store_n(&gone.activity, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&gone.home, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&gone.pid, 0, __ATOMIC_SEQ_CST);
  return outcome;
}

// The GPU with this UUID, or -1.
inline int FindGpu(const Ledger& ledger, const void* uuid) {
  const unsigned gpus = GpusOf(ledger);
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    if (__builtin_memcmp(ledger.gpu[gpu].uuid, uuid, sizeof(Gpu::uuid)) == 0) return static_cast<int>(gpu);
  }
  return -1;
}

}  // namespace gpuman::ledger::wire
