#include "mover/process_memory.h"

#include <fmt/format.h>

#include <utility>

#include "mover/in_all_transfers.h"
#include "mover/peer.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
namespace wire = ledger::wire;

GpuTransfer& ProcessMemory::TransferOf(const std::string& gpu) {
  const std::lock_guard lock(mutex_);
  auto& transfer = transfers_[std::string(suspend::BareUuid(gpu))];
  if (!transfer) transfer = std::make_unique<GpuTransfer>(shared_, gpu);
  return *transfer;
}

// Empty: all.
std::vector<GpuTransfer*> ProcessMemory::TransfersOf(const std::string& source) {
  if (!source.empty()) return {&TransferOf(source)};
  std::vector<GpuTransfer*> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, one] : transfers_) all.push_back(one.get());
  return all;
}

// Brings what earlier movers took of the process into the transfers. As long as nothing is there, each step
// looks again: an earlier mover may still be at work.
Result<> ProcessMemory::Find() {
  const std::lock_guard finding(find_mutex_);
  if (found_ && shared_.manifests.Any()) return {};
  GPUMAN_ASSIGN(auto manifests, HostMemoryManifest::Find(shared_.process, [this](std::uint64_t inode) {
                  return shared_.manifests.Has(inode);
                }));
  for (auto& found : manifests) {
    GpuTransfer& transfer = TransferOf(found.manifest.layout().gpu);
    const auto lock = transfer.Lock();
    GPUMAN_TRY(transfer.Adopt(std::move(found), epoch()));
  }
  found_ = shared_.manifests.Any();
  std::vector<UnnamedBatch> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  if (held.empty()) return {};
  for (GpuTransfer* const transfer : TransfersOf({})) {
    const auto lock = transfer->Lock();
    if (!transfer->NeedsDescriptors()) continue;
    for (auto& [first, files] : std::exchange(held, {})) transfer->Hold(first, std::move(files));
  }
  return {};
}

base::Error ProcessMemory::Nothing() const {
  return {ErrorCode::kNotFound, fmt::format("process {} has nothing in host memory", shared_.process.pid)};
}

// kNotFound: there is nothing in the transfer, or in any transfer.
Result<ProcessMemory::Locked> ProcessMemory::LockTransfers(const std::string& source) {
  GPUMAN_TRY(Find());
  Locked step;
  for (GpuTransfer* const transfer : TransfersOf(source)) {
    auto lock = transfer->Lock();
    if (transfer->empty()) continue;
    step.transfers.push_back(transfer);
    step.locks.push_back(std::move(lock));
  }
  if (step.transfers.empty()) return tl::unexpected(Nothing());
  return step;
}

Result<GpuTransfer::Opening> ProcessMemory::Open(PartsMessage message) {
  if (message.parts.more != 0) {
    GPUMAN_TRY(Find());
    if (!shared_.manifests.Any()) return tl::unexpected(Nothing());
  }
  GpuTransfer::Opening opening{std::move(message), {}};
  GPUMAN_ASSIGN(opening.first, shared_.gpus.Import(opening.message.files.front().get(),
                                                   opening.message.parts.part[0].bytes));
  return opening;
}

// All of the memory that the process was to hand out stays where it is.
MoverAnswer ProcessMemory::TakeNothing(int connection) const {
  if (auto said = SayDone(connection); !said) return AnswerOf(said.error());
  const auto receipt = AwaitReceipt(connection, shared_.process);
  return receipt ? MoverAnswer{.outcome = MoverOutcome::kDone} : AnswerOf(receipt.error());
}

// A Take whose offer the process gave up may run after the Take of its next offer.
MoverAnswer ProcessMemory::Take(Fd connection, bool whole, const std::string& target, EvictionEpoch epoch,
                                TransferProgressListener& progress) {
  auto message = ReceiveParts(connection.get());
  if (message && message->files.empty()) return TakeNothing(connection.get());
  auto opening = message ? Open(std::move(*message)) : Fail(message.error());
  const auto gpu = opening ? shared_.gpus.UuidOf(opening->first.gpu()) : Fail(opening.error());
  if (!gpu) {
    Refuse(connection.get(), wire::OrderError::kNoMover);
    return AnswerOf(gpu.error());
  }
  GpuTransfer& transfer = TransferOf(*gpu);
  const auto lock = transfer.Lock();
  MoverAnswer answer = transfer.Take(connection.get(), std::move(*opening), whole, target, epoch, progress);
  answer.gpu = *gpu;
  return answer;
}

MoverAnswer ProcessMemory::Secure(const std::string& source, const std::string& target,
                                  TransferProgressListener& progress) {
  if (auto found = Find(); !found) return AnswerOf(found.error());
  const auto answer =
      InAllTransfers(TransfersOf(source), [&](GpuTransfer& transfer) -> std::optional<MoverAnswer> {
        const auto lock = transfer.Lock();
        if (transfer.empty()) return std::nullopt;
        return transfer.Secure(target, progress);
      });
  return answer.value_or(MoverAnswer{.outcome = MoverOutcome::kNothing, .message = Nothing().message});
}

void ProcessMemory::Finish(const std::string& source, const std::string& target) {
  (void)InAllTransfers(TransfersOf(source), [&](GpuTransfer& transfer) -> std::optional<MoverAnswer> {
    const auto lock = transfer.Lock();
    transfer.Finish(target);
    return std::nullopt;
  });
}

EvictionEpoch ProcessMemory::Forget() {
  const EvictionEpoch over = epoch_;
  epoch_ = EvictionEpoch{static_cast<std::uint64_t>(over) + 1};
  return over;
}

void ProcessMemory::Drop(const std::string& source, EvictionEpoch last) {
  for (GpuTransfer* const transfer : TransfersOf(source)) {
    const auto lock = transfer->Lock();
    transfer->Clear(last);
  }
}

void ProcessMemory::End() {
  for (GpuTransfer* const transfer : TransfersOf({})) {
    const auto lock = transfer->Lock();
    transfer->End();
  }
}

void ProcessMemory::Begin(const std::string& source, std::optional<base::Bytes> room) {
  CreditOf(source).Begin(room ? std::optional(room->count) : std::nullopt);
}

void ProcessMemory::CallOff(const std::string& source) {
  credit_.CallOff();
  for (GpuTransfer* const transfer : TransfersOf(source)) transfer->credit().CallOff();
}

void ProcessMemory::Hold(const std::string& source, std::size_t first, std::vector<Fd> files) {
  if (!source.empty()) return TransferOf(source).Hold(first, std::move(files));
  const std::lock_guard lock(mutex_);
  held_.push_back({first, std::move(files)});
}

}  // namespace gpuman::mover
