// Finds jobs whose programs take so many locks on their ledger's file that each question about a slot
// (wire/slot_lock.h) takes the kernel long: the kernel goes through all locks of the file. The daemon asks
// for every process of a job again and again, so such a job would make it slow for everybody. Pure.
#pragma once

#include <chrono>
#include <cstddef>

namespace gpuman::ledger {

struct LockCost {
  std::chrono::nanoseconds question{};  // processor time of one question
  std::size_t processes = 0;            // in the ledger, each with a lock of its own
};

class LockFloodDetector {
 public:
  // Returns whether the job floods the file: a question takes far longer than the locks of the job's
  // processes explain, and all questions together take long, at many looks in a row. A single look may take
  // long for other reasons. The looks should be kInterval apart.
  bool Observe(const LockCost& cost) {
    const auto explained = kQuestion + kLock * cost.processes;
    const bool high = cost.question >= explained && cost.question * cost.processes >= kAllQuestions;
    high_ = high ? high_ + 1 : 0;
    return high_ >= kInARow;
  }

  // With a full ledger, of 1,000 processes, a question takes some 15 us: 15 ns for each lock. These are more
  // than slow machines need.
  static constexpr std::chrono::nanoseconds kQuestion = std::chrono::microseconds(20),
                                            kLock = std::chrono::nanoseconds(60),
                                            kAllQuestions = std::chrono::milliseconds(5);
  static constexpr unsigned kInARow = 10;
  static constexpr std::chrono::milliseconds kInterval{100};

 private:
  unsigned high_ = 0;
};

}  // namespace gpuman::ledger
