// One step of several transfers of a process at the same time.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "mover/gpu_transfer.h"

namespace gpuman::mover {

// Adds one transfer's answer to those of other transfers. A failure counts as the answer of all, and so does
// memory that stays on a GPU: `bytes` are only those that stay then.
inline void AddAnswer(suspend::MoverAnswer& sum, const suspend::MoverAnswer& one) {
  const bool failed = sum.outcome != suspend::MoverOutcome::kDone;
  if (failed || (sum.straight && !one.straight && one.outcome == suspend::MoverOutcome::kDone)) return;
  if (one.outcome != suspend::MoverOutcome::kDone || (one.straight && !sum.straight)) {
    sum = one;
    return;
  }
  sum.bytes += one.bytes;
  sum.unchanged += one.unchanged;
  sum.misjudged += one.misjudged;
  sum.took = std::max(sum.took, one.took);
}

// Runs step(transfer), which returns the transfer's answer or nullopt, in a thread for each transfer. Returns
// the sum of the answers, in the order in which they came; nullopt: no transfer had one.
template <typename Step>
std::optional<suspend::MoverAnswer> InAllTransfers(std::span<GpuTransfer* const> transfers,
                                                   const Step& step) {
  std::mutex mutex;
  std::optional<suspend::MoverAnswer> sum;
  const auto run = [&](GpuTransfer& transfer) {
    const std::optional<suspend::MoverAnswer> answer = step(transfer);
    const std::lock_guard lock(mutex);
    if (answer && sum) AddAnswer(*sum, *answer);
    if (answer && !sum) sum = *answer;
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < transfers.size(); ++i) others.emplace_back([&, i] { run(*transfers[i]); });
  if (!transfers.empty()) run(*transfers.front());
  for (auto& thread : others) thread.join();
  return sum;
}

}  // namespace gpuman::mover
