#include "mover/process_memory.h"

#include <fmt/format.h>

#include <utility>

#include "mover/in_all_lanes.h"
#include "mover/peer.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::Answer;
using suspend::Outcome;
namespace wire = ledger::wire;

Lane& ProcessMemory::LaneOf(const std::string& gpu) {
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[std::string(suspend::LaneOf(gpu))];
  if (!lane) lane = std::make_unique<Lane>(means_, gpu);
  return *lane;
}

// Empty: all.
std::vector<Lane*> ProcessMemory::LanesOf(const std::string& lane) {
  if (!lane.empty()) return {&LaneOf(lane)};
  std::vector<Lane*> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, one] : lanes_) all.push_back(one.get());
  return all;
}

// Brings what earlier movers took of the process into the lanes. As long as nothing is there, each step looks
// again: an earlier mover may still be at work.
Result<> ProcessMemory::Find() {
  const std::lock_guard finding(find_mutex_);
  if (found_ && means_.pages.Any()) return {};
  GPUMAN_ASSIGN(auto buffers, HostBuffer::Find(means_.process, [this](std::uint64_t inode) {
                  return means_.pages.Has(inode);
                }));
  for (auto& buffer : buffers) {
    Lane& lane = LaneOf(buffer.layout().gpu);
    const auto lock = lane.Lock();
    lane.Adopt(std::move(buffer));
  }
  found_ = means_.pages.Any();
  std::vector<UnnamedBatch> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  if (held.empty()) return {};
  for (Lane* const lane : LanesOf({})) {
    const auto lock = lane->Lock();
    if (!lane->NeedsDescriptors()) continue;
    for (auto& [first, files] : std::exchange(held, {})) lane->Hold(first, std::move(files));
  }
  return {};
}

base::Error ProcessMemory::Nothing() const {
  return {ErrorCode::kNotFound, fmt::format("process {} has nothing in host memory", means_.process.pid)};
}

// kNotFound: there is nothing in the lane, or in any lane.
Result<ProcessMemory::Locked> ProcessMemory::LockLanes(const std::string& name) {
  GPUMAN_TRY(Find());
  Locked step;
  for (Lane* const lane : LanesOf(name)) {
    auto lock = lane->Lock();
    if (lane->empty()) continue;
    step.lanes.push_back(lane);
    step.locks.push_back(std::move(lock));
  }
  if (step.lanes.empty()) return tl::unexpected(Nothing());
  return step;
}

Result<Lane::Opening> ProcessMemory::Open(PartsMessage message) {
  if (message.parts.more != 0) {
    GPUMAN_TRY(Find());
    if (!means_.pages.Any()) return tl::unexpected(Nothing());
  }
  Lane::Opening opening{std::move(message), {}};
  GPUMAN_ASSIGN(opening.first,
                means_.gpus.Import(opening.message.files.front().get(), opening.message.parts.part[0].bytes));
  return opening;
}

// All of the memory that the process was to hand out stays where it is.
Answer ProcessMemory::TakeNothing(int connection) const {
  if (auto said = SayDone(connection); !said) return AnswerOf(said.error());
  const auto receipt = AwaitReceipt(connection, means_.process);
  return receipt ? Answer{.outcome = Outcome::kDone} : AnswerOf(receipt.error());
}

// A Take whose offer the process gave up may run after the Take of its next offer.
Answer ProcessMemory::Take(Fd connection, bool whole, const std::string& target, Progress& progress) {
  auto message = ReceiveParts(connection.get());
  if (message && message->files.empty()) return TakeNothing(connection.get());
  auto opening = message ? Open(std::move(*message)) : Fail(message.error());
  const auto gpu = opening ? means_.gpus.UuidOf(opening->first.gpu()) : Fail(opening.error());
  if (!gpu) {
    Refuse(connection.get(), wire::Trouble::kNoMover);
    return AnswerOf(gpu.error());
  }
  Lane& lane = LaneOf(*gpu);
  const auto lock = lane.Lock();
  Answer answer = lane.Take(connection.get(), std::move(*opening), whole, target, progress);
  answer.gpu = *gpu;
  return answer;
}

Answer ProcessMemory::Secure(const std::string& name, const std::string& target, Progress& progress) {
  if (auto found = Find(); !found) return AnswerOf(found.error());
  const auto answer = InAllLanes(LanesOf(name), [&](Lane& lane) -> std::optional<Answer> {
    const auto lock = lane.Lock();
    if (lane.empty()) return std::nullopt;
    return lane.Secure(target, progress);
  });
  return answer.value_or(Answer{.outcome = Outcome::kNothing, .message = Nothing().message});
}

void ProcessMemory::Finish(const std::string& name, const std::string& target) {
  (void)InAllLanes(LanesOf(name), [&](Lane& lane) -> std::optional<Answer> {
    const auto lock = lane.Lock();
    lane.Finish(target);
    return std::nullopt;
  });
}

void ProcessMemory::Drop(const std::string& name) {
  for (Lane* const lane : LanesOf(name)) {
    const auto lock = lane->Lock();
    lane->Clear();
  }
}

void ProcessMemory::Begin(const std::string& lane, std::optional<base::Bytes> room) {
  CreditOf(lane).Begin(room ? std::optional(room->count) : std::nullopt);
}

void ProcessMemory::CallOff(const std::string& name) {
  credit_.CallOff();
  for (Lane* const lane : LanesOf(name)) lane->credit().CallOff();
}

void ProcessMemory::Hold(const std::string& lane, std::size_t first, std::vector<Fd> files) {
  if (!lane.empty()) return LaneOf(lane).Hold(first, std::move(files));
  const std::lock_guard lock(mutex_);
  held_.push_back({first, std::move(files)});
}

}  // namespace gpuman::mover
