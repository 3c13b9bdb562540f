#include "board.h"

#include <sys/mman.h>

#include <chrono>
#include <new>
#include <thread>

namespace gpuman::load {
namespace {

constexpr std::chrono::milliseconds kPollInterval{1};

}  // namespace

Board* Board::Map(std::uint64_t windows_bytes) {
  void* memory =
      ::mmap(nullptr, kPage + windows_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Board;
}

bool Board::Begin(std::uint64_t step) {
  auto now = steps_.load();
  while ((now & ~kStop) < step) {
    if ((now & kStop) != 0) return false;
    if (steps_.compare_exchange_weak(now, step)) return true;
  }
  return true;
}

void Board::AwaitOthersQueued(unsigned rank, unsigned ranks, std::uint64_t step) const {
  for (unsigned other = 0; other < ranks; ++other)
    while (other != rank && queued_[other].load() < step) std::this_thread::sleep_for(kPollInterval);
}

void Board::AwaitAll(unsigned ranks) {
  arrived_.fetch_add(1);
  while (arrived_.load() < ranks) std::this_thread::sleep_for(kPollInterval);
}

}  // namespace gpuman::load
