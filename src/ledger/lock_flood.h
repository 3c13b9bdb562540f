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
  // Returns whether the job floods the file: at many looks in a row, since a single one may take long for
  // other reasons. With a full ledger a question takes some 15 us.
  bool Observe(const LockCost& cost) {
    const bool high = cost.question >= kQuestion && cost.question * cost.processes >= kAllQuestions;
    high_ = high ? high_ + 1 : 0;
    return high_ >= kInARow;
  }

  static constexpr std::chrono::nanoseconds kQuestion = std::chrono::microseconds(200),
                                            kAllQuestions = std::chrono::milliseconds(5);
  static constexpr unsigned kInARow = 10;

 private:
  unsigned high_ = 0;
};

}  // namespace gpuman::ledger
