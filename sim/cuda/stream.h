// Streams: queues of work, each with a thread that executes it in order.
//
// A stream does not know contexts. The submitter says which operations of other streams an operation waits
// for (context.h does, for the default streams and for events); these are always earlier submissions, so
// waits cannot form a cycle.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/abi/cuda.h"

namespace gpuman::sim::cuda {

// NOLINTNEXTLINE(google-build-using-namespace): the vendor's names are this folder's subject
using namespace driver::abi;

class Stream;
class Capture;

// A place in a stream; it is reached when all work up to it is done.
struct Mark {
  std::shared_ptr<Stream> stream{};
  std::uint64_t sequence = 0;

  bool Reached() const;
  void Wait() const;
};

struct Operation {
  std::vector<Mark> after{};
  std::function<void()> run{};
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(unsigned flags, int priority, std::uint64_t id) : flags_(flags), priority_(priority), id_(id) {}

  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  std::uint64_t id() const { return id_; }
  bool blocking() const { return (flags_ & CU_STREAM_NON_BLOCKING) == 0; }

  Mark Submit(Operation operation);
  // The last submission so far.
  Mark Last();
  bool Reached(std::uint64_t sequence);
  void WaitFor(std::uint64_t sequence);
  // Work up to `sequence` ends with an event for which a thread can sleep. As on an H200 a stream takes only
  // so many of them, and the call waits for the first.
  void AddBlockingEvent(std::uint64_t sequence);
  // No more work will come: the thread ends when all work is done.
  void Close();
  // Whether the stream is closed and all its work is done.
  bool Finished();

  // Set while the stream captures into a graph; guarded by the context's submission lock.
  std::shared_ptr<Capture> capture;

 private:
  void Work();

  const unsigned flags_;
  const int priority_;
  const std::uint64_t id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  std::uint64_t submitted_ = 0, done_ = 0;
  std::deque<std::uint64_t> blocking_events_;  // not reached yet
  bool running_ = false, closed_ = false;
};

// Whether the calling thread belongs to a stream: there, callbacks of the program run and may not call the
// driver.
bool OnStreamThread();

}  // namespace gpuman::sim::cuda
