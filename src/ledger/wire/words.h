// Words of a ledger, which others may write at any moment: each is read or written as a whole, and once. The
// reader keeps the value in a variable of its own and checks it there; read again from the page, it may be
// another value than the one checked.
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

// How many GPUs the ledger says that it has, at most as many as there is room for.
inline unsigned GpusOf(const Ledger& ledger) {
  const std::uint32_t gpus = Load(ledger.gpus);
  return gpus < kMaxGpus ? gpus : kMaxGpus;
}

}  // namespace gpuman::ledger::wire
