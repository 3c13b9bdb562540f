// Changes a ledger's counts. Many processes do so at the same time. Each of them may be killed between any
// two instructions. There is no lock, and no byte passes a limit.
//
// Two kinds of accounts are counted: the memory of each GPU (the account is the index of the GPU), and the
// host memory that holds evicted data (kHost).
//
// Two words have to change together: the total of an account, and what the process has in the account. A
// process announces a change in its slot (intent). The change happens when the process exchanges the total,
// and is then entered in the slot (books). The total names the change that made it, by slot and number. A
// process that wants to make the next change first enters the change that the total names, if that change is
// not entered yet. So a change that happened in the total always reaches the slot, and a change that did not
// happen never does:
//   total = sum of all books + the one change that the total names, if it is not entered yet.
//
// Only one thread at a time changes one account of one slot: a thread of the process that owns the slot, or
// of the process that reclaims the slot (slot_lock.h). Any number of other threads may enter changes
// meanwhile.
//
// A program may have written anything into the ledger. No function here reads or writes outside of the
// ledger, or loops for ever.
#pragma once

#include <initializer_list>

#include "ledger/wire/homes.h"
#include "ledger/wire/layout.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

enum class ChargeOutcome {
  kDone,
  kRefused,  // the change would pass the limit, or is too large to be counted
  kBroken    // the ledger makes no sense (it was overwritten)
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
struct SlotBalance {
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

// Returns `units` + `delta`, kept within the range of a word. Only in an overwritten ledger the sum comes
// near the ends of that range.
constexpr std::uint32_t Plus(std::uint32_t units, std::int32_t delta) {
  const std::int64_t sum = std::int64_t{units} + delta;
  return sum < 0 ? 0 : sum > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(sum);
}

// Returns how many units hold `bytes`.
constexpr std::uint64_t UnitsOf(std::uint64_t bytes) { return bytes / kUnit + (bytes % kUnit != 0 ? 1 : 0); }

// The words of an account. Here and below, the account is below kAccounts and the slot below kSlots.
inline std::uint64_t& TotalWord(Ledger& ledger, unsigned account) {
  return account == kHost ? ledger.host_total : ledger.gpu[account].total;
}
inline const std::uint64_t& TotalWord(const Ledger& ledger, unsigned account) {
  return account == kHost ? ledger.host_total : ledger.gpu[account].total;
}
inline SlotAccount& HoldingOf(Slot& slot, unsigned account) {
  return account == kHost ? slot.host : slot.gpu[account];
}

// Enters the change that `total` names, unless it is entered already. Any thread of any process may do so.
inline void ApplyLastChange(Ledger& ledger, unsigned account, Total total) {
  SlotAccount& holding = HoldingOf(ledger.slot[total.slot()], account);
  const SlotBalance books{Load(holding.books)};
  if (ShortNumber(books.number() + 1) != total.number()) return;  // entered already
  const Intent intent{Load(holding.intent)};
  // With another number, the slot has a newer change: this change was entered after `books` was read.
  if (intent.number() != books.number() + 1) return;
  Exchange(holding.books, books.word, Pack(Plus(books.units(), intent.delta()), intent.number()));
}

// Returns the bytes that a slot has in an account, with every change entered.
inline std::uint64_t BytesOf(Ledger& ledger, unsigned account, unsigned slot) {
  ApplyLastChange(ledger, account, Total{Load(TotalWord(ledger, account))});
  return SlotBalance{Load(HoldingOf(ledger.slot[slot], account).books)}.units() * kUnit;
}

// Returns the bytes that the whole job has in an account, as the slots count them.
inline std::uint64_t TotalOf(const Ledger& ledger, unsigned account) {
  return Total{Load(TotalWord(ledger, account))}.units() * kUnit;
}

// Returns whether the job may have `units` in the account.
inline bool Fits(const Ledger& ledger, unsigned account, std::uint64_t units) {
  if (units > UINT32_MAX) return false;
  const std::uint64_t limit = Load(account == kHost ? ledger.host_budget : ledger.gpu[account].limit);
  if (limit == kNoLimit) return true;
  const std::uint64_t outside = account == kHost ? 0 : Load(ledger.gpu[account].outside);
  return outside <= limit && units * kUnit <= limit - outside;
}

// Returns whether the job uses no more than it may have for now (Gpu::room).
inline bool HasRoom(const Ledger& ledger, unsigned gpu) {
  const std::uint64_t room = Load(ledger.gpu[gpu].room);
  return room == kNoLimit || Load(ledger.gpu[gpu].outside) + TotalOf(ledger, gpu) <= room;
}

// The job has had so many bytes on the GPU at a time.
inline void RaisePeak(Ledger& ledger, unsigned gpu, std::uint64_t bytes) {
  constexpr unsigned kTries = 1000;  // a try fails only when another thread has raised the peak
  std::uint64_t& peak = ledger.gpu[gpu].peak;
  for (unsigned i = 0; i < kTries; ++i) {
    const std::uint64_t before = Load(peak);
    if (bytes <= before || Exchange(peak, before, bytes)) return;
  }
}

enum class LimitEnforcement { kLimit, kNone };

// The owner of the slot changes by `units` what the slot has in the account, never below zero.
inline ChargeOutcome Change(Ledger& ledger, unsigned account, unsigned slot, std::int64_t units,
                            LimitEnforcement check) {
  constexpr unsigned kTries = 100'000;  // a try fails only when another process succeeds
  if (units > INT32_MAX || units < INT32_MIN) return ChargeOutcome::kRefused;
  std::uint64_t& word = TotalWord(ledger, account);
  SlotAccount& holding = HoldingOf(ledger.slot[slot], account);
  for (unsigned i = 0; i < kTries; ++i) {
    const Total total{Load(word)};
    ApplyLastChange(ledger, account, total);
    const SlotBalance books{Load(holding.books)};
    // The change gives back no more than the slot has (and Plus no more than the total has): an overwritten
    // ledger must not make the total wrap.
    std::int64_t delta = units;
    if (delta < -std::int64_t{books.units()}) delta = -std::int64_t{books.units()};
    if (delta == 0) return ChargeOutcome::kDone;
    if (delta > 0 && check == LimitEnforcement::kLimit &&
        !Fits(ledger, account, std::uint64_t{total.units()} + static_cast<std::uint64_t>(delta)))
      return ChargeOutcome::kRefused;
    const auto change = static_cast<std::int32_t>(delta);
    const std::uint32_t number = books.number() + 1;
    Store(holding.intent, Pack(static_cast<std::uint32_t>(change), number));
    const Total next{Pack(Plus(total.units(), change), slot << kNumberBits | ShortNumber(number))};
    if (!Exchange(word, total.word, next.word)) continue;
    ApplyLastChange(ledger, account, next);
    return ChargeOutcome::kDone;
  }
  return ChargeOutcome::kBroken;
}

// Takes `bytes`, rounded up to units, if the limit holds them.
inline ChargeOutcome Reserve(Ledger& ledger, unsigned account, unsigned slot, std::uint64_t bytes) {
  if (UnitsOf(bytes) > INT32_MAX) return ChargeOutcome::kRefused;
  return Change(ledger, account, slot, static_cast<std::int64_t>(UnitsOf(bytes)), LimitEnforcement::kLimit);
}

// Takes `bytes` whatever the limit is, since the device has given them already.
inline ChargeOutcome Charge(Ledger& ledger, unsigned account, unsigned slot, std::uint64_t bytes) {
  if (UnitsOf(bytes) > INT32_MAX) return ChargeOutcome::kRefused;
  return Change(ledger, account, slot, static_cast<std::int64_t>(UnitsOf(bytes)), LimitEnforcement::kNone);
}

inline ChargeOutcome GiveBack(Ledger& ledger, unsigned account, unsigned slot, std::uint64_t bytes) {
  if (UnitsOf(bytes) > INT32_MAX) return ChargeOutcome::kRefused;
  return Change(ledger, account, slot, -static_cast<std::int64_t>(UnitsOf(bytes)), LimitEnforcement::kNone);
}

// Gives back all that a slot has, and frees the slot. The caller holds the slot's lock; the slot's process
// has ended.
inline ChargeOutcome Clear(Ledger& ledger, unsigned slot) {
  ChargeOutcome outcome = ChargeOutcome::kDone;
  for (unsigned account = 0; account < kAccounts; ++account) {
    if (BytesOf(ledger, account, slot) == 0) continue;
    const ChargeOutcome cleared = GiveBack(ledger, account, slot, BytesOf(ledger, account, slot));
    if (cleared != ChargeOutcome::kDone) outcome = cleared;
  }
  ClearHomes(ledger, slot);
  Slot& gone = ledger.slot[slot];
  for (std::uint32_t* const word : {&gone.flags, &gone.order, &gone.answered, &gone.residency, &gone.error,
                                    &gone.call_grant, &gone.grant_report, &gone.rest, &gone.rest_state})
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

// Returns the index of the GPU with this UUID; -1: the ledger has no such GPU.
inline int FindGpu(const Ledger& ledger, const void* uuid) {
  const unsigned gpus = GpusOf(ledger);
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    if (__builtin_memcmp(ledger.gpu[gpu].uuid, uuid, sizeof(Gpu::uuid)) == 0) return static_cast<int>(gpu);
  }
  return -1;
}

}  // namespace gpuman::ledger::wire
