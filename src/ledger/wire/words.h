// Reads and writes the words of a ledger. Other processes may write a word at any moment, so each word is
// read or written as a whole, and once. The reader keeps the value in a variable of its own and checks it
// there: when it reads the word again, it may get another value than the one it checked.
#pragma once

#include "ledger/wire/layout.h"

namespace gpuman::ledger::wire {

inline std::uint64_t Load(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
inline void Store(std::uint64_t& word, std::uint64_t value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}
inline std::uint32_t Load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }
inline void Store(std::uint32_t& word, std::uint32_t value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}

// For words that are only shown. A reader of the word sees all that the same thread wrote before it. No
// fence, unlike Store.
inline void StoreRelease(std::uint64_t& word, std::uint64_t value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}
inline void StoreRelease(std::uint32_t& word, std::uint32_t value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

// Returns how many GPUs the ledger says that it has, at most kMaxGpus.
inline unsigned GpusOf(const Ledger& ledger) {
  const std::uint32_t gpus = Load(ledger.gpus);
  return gpus < kMaxGpus ? gpus : kMaxGpus;
}

}  // namespace gpuman::ledger::wire
