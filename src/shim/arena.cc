#include "shim/arena.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <cerrno>

#include "ledger/wire/books.h"
#include "shim/driver.h"
#include "shim/guest.h"
#include "shim/host_memory.h"
#include "shim/some_context.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // the vendor's names
using wire::Trouble;

constexpr unsigned kMostThreads = 8;

struct Touched {
  std::uint8_t* begin;
  bool good;
};

// Brings the chunk's pages; a kernel that cannot do it in one call (before 5.14) is asked page by page.
void* Touch(void* word) {
  auto* const chunk = static_cast<Touched*>(word);
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  chunk->good = ::madvise(chunk->begin, kChunkBytes, kPopulateWrite) == 0;
  if (!chunk->good && errno == EINVAL) {
    for (std::uint64_t i = 0; i < kChunkBytes; i += 4096)
      *const_cast<volatile std::uint8_t*>(chunk->begin + i) = 0;
    chunk->good = true;
  }
  return nullptr;
}

void TouchAll(Touched* chunks, unsigned count) {
  pthread_t threads[kMostThreads];
  bool started[kMostThreads] = {};
  for (unsigned i = 1; i < count; ++i)
    started[i] = ::pthread_create(&threads[i], nullptr, Touch, &chunks[i]) == 0;  // signals are blocked here
  Touch(&chunks[0]);
  for (unsigned i = 1; i < count; ++i) {
    if (started[i])
      ::pthread_join(threads[i], nullptr);
    else
      Touch(&chunks[i]);
  }
}

// What cannot be registered serves as well, only slower.
bool Register(Guest& guest, std::uint8_t* begin) {
  auto* const pin = GPUMAN_REAL(cuMemHostRegister_v2);
  const InSomeContext context(guest);
  return pin != nullptr && context && pin(begin, kChunkBytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS;
}

bool ReserveAddresses(Arena& arena) {
  if (arena.base != nullptr) return true;
  // Chunks begin where huge pages do.
  const std::uint64_t bytes = (Arena::kMostChunks + 1) * kChunkBytes;
  void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  ::madvise(at, bytes, MADV_DONTFORK);
  ::madvise(at, bytes, MADV_DONTDUMP);  // the device's memory is in no core file either
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  arena.base = reinterpret_cast<std::uint8_t*>((begin + kChunkBytes - 1) / kChunkBytes * kChunkBytes);
  return true;
}

void GiveUp(std::uint8_t* begin, std::uint64_t bytes) {
  ::madvise(begin, bytes, MADV_DONTNEED);
  ::mprotect(begin, bytes, PROT_NONE);
}

wire::Outcome Count(Guest& guest, std::uint64_t bytes) {
  const Locked lock(guest.meter);
  return wire::Reserve(*guest.ledger, wire::kHost, guest.slot, bytes);
}

void Uncount(Guest& guest, std::uint64_t bytes) {
  const Locked lock(guest.meter);
  wire::GiveBack(*guest.ledger, wire::kHost, guest.slot, bytes);
}

}  // namespace

unsigned CopyThreads() {
  cpu_set_t set;
  const int count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return count < 1 ? 1 : count > static_cast<int>(kMostThreads) ? kMostThreads : static_cast<unsigned>(count);
}

Trouble GrowArena(Guest& guest, std::uint64_t bytes, unsigned threads) {
  Arena& arena = guest.arena;
  if (bytes > Arena::kMostChunks * kChunkBytes || !ReserveAddresses(arena)) return Trouble::kHostMemory;
  while (arena.ready < bytes) {
    const std::uint64_t missing = (bytes - arena.ready + kChunkBytes - 1) / kChunkBytes;
    const auto count = static_cast<unsigned>(missing < threads ? missing : threads);
    const std::uint64_t batch = count * kChunkBytes;
    if (!HostHas(batch)) return Trouble::kHostMemory;
    if (Count(guest, batch) == wire::Outcome::kRefused) {
      if (count == 1) return Trouble::kBudget;
      threads = 1;  // as much as fits
      continue;
    }
    std::uint8_t* const begin = arena.base + arena.ready;
    if (::mprotect(begin, batch, PROT_READ | PROT_WRITE) != 0) {
      Uncount(guest, batch);
      return Trouble::kHostMemory;
    }
    ::madvise(begin, batch, MADV_HUGEPAGE);
    Touched chunks[kMostThreads];
    for (unsigned i = 0; i < count; ++i) chunks[i] = {begin + i * kChunkBytes, false};
    TouchAll(chunks, count);
    bool good = true;
    for (unsigned i = 0; i < count; ++i) good = good && chunks[i].good;
    if (!good) {
      GiveUp(begin, batch);
      Uncount(guest, batch);
      return Trouble::kHostMemory;
    }
    for (unsigned i = 0; i < count; ++i)
      arena.registered[arena.ready / kChunkBytes + i] = Register(guest, chunks[i].begin);
    __atomic_store_n(&arena.ready, arena.ready + batch, __ATOMIC_RELAXED);
  }
  return Trouble::kNone;
}

void ShrinkArena(Guest& guest, std::uint64_t bytes) {
  Arena& arena = guest.arena;
  const std::uint64_t needed = (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  const std::uint64_t kept = bytes == 0 ? 0 : needed + kArenaSlack;
  while (arena.ready > kept) {
    const std::uint64_t last = arena.ready / kChunkBytes - 1;
    std::uint8_t* const begin = arena.base + last * kChunkBytes;
    if (arena.registered[last]) {
      auto* const unpin = GPUMAN_REAL(cuMemHostUnregister);
      const InSomeContext context(guest);
      // Memory that may still be known to the driver must stay. What a context's end unregistered is not.
      const CUresult result = unpin != nullptr && context ? unpin(begin) : CUDA_ERROR_INVALID_CONTEXT;
      if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) return;
    }
    arena.registered[last] = false;
    GiveUp(begin, kChunkBytes);
    __atomic_store_n(&arena.ready, arena.ready - kChunkBytes, __ATOMIC_RELAXED);
    Uncount(guest, kChunkBytes);
  }
}

}  // namespace gpuman::shim
