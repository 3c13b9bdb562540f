#include "base/closer.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <system_error>
#include <utility>

namespace gpuman::base {
namespace {

constexpr std::chrono::seconds kPause{1};  // the time before the next try when no thread can be started

// A pause holds this mutex shared; a closer holds it exclusively while it closes.
std::shared_mutex& PauseMutex() {
  static std::shared_mutex mutex;
  return mutex;
}

// A container's filter of system calls may refuse one of the two ways and allow the other.
bool TakeOwnTable() {
  constexpr unsigned kNone = ~0U;
  return ::unshare(CLONE_FILES) == 0 || ::close_range(kNone, kNone, CLOSE_RANGE_UNSHARE) == 0;
}

// If one of `kept` delays the end of the thread, the thread holds no other descriptor meanwhile.
void CloseAllBut(const std::vector<Fd>& kept) {
  std::vector<unsigned> numbers;
  numbers.reserve(kept.size());
  for (const Fd& fd : kept) numbers.push_back(static_cast<unsigned>(fd.get()));
  std::sort(numbers.begin(), numbers.end());
  unsigned from = 0;
  for (const unsigned number : numbers) {
    if (number > from) ::close_range(from, number - 1, 0);
    from = number + 1;
  }
  ::close_range(from, ~0U, 0);
}

// Throws std::system_error when no thread can be started; `batch` is unchanged then.
void CloseByTheEndOfAThread(std::vector<Fd>& batch) {
  std::latch taken(1), closed(1);
  bool own_table = false;
  std::thread last([&] {
    ::pthread_setname_np(::pthread_self(), "gpuman-closing");
    own_table = TakeOwnTable();
    if (own_table)
      CloseAllBut(batch);
    else
      batch.clear();  // This thread may wait, but it holds no lock, so programs can start.
    taken.count_down();
    closed.wait();
  });
  taken.wait();
  if (own_table) {
    const std::unique_lock no_child_has_copies(PauseMutex());
    batch.clear();
  }
  closed.count_down();
  last.join();  // the kernel wakes the joiner before it closes the table
}

}  // namespace

CloserPause::CloserPause() : lock_(PauseMutex()) {}

Closer::~Closer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  more_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Closer::Close(Fd fd) {
  if (!fd.ok()) return;
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(fd));
  more_.notify_one();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // The next call of Close tries again.
  }
}

void Closer::Run() {
  ::pthread_setname_np(::pthread_self(), "gpuman-closer");
  std::vector<Fd> batch;
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    batch.swap(waiting_);
    lock.unlock();
    try {
      CloseByTheEndOfAThread(batch);
    } catch (const std::system_error&) {
    }
    lock.lock();
    if (batch.empty()) continue;
    for (Fd& fd : batch) waiting_.push_back(std::move(fd));
    batch.clear();
    if (ending_) return;
    more_.wait_for(lock, kPause, [this] { return ending_; });
  }
}

}  // namespace gpuman::base
