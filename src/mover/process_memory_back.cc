// The way back to the GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "mover/in_all_transfers.h"
#include "mover/process_memory.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
namespace wire = ledger::wire;

Result<> Send(int connection, const wire::TransferParts& parts, const int* files) {
  if (!wire::SendWith(connection, &parts, sizeof parts, files, parts.count, kPeerMs)) return WentBack();
  return {};
}

// `own`: the process makes memory of its own, for the mover to fill.
Result<> SendLast(int connection, bool own) {
  return Send(connection, {wire::kPartsMagic, 0, 1, own ? 1u : 0u, 0, {}}, nullptr);
}

// Memory of several GPUs comes back to where it was.
Result<> MayGoTo(std::span<GpuTransfer* const> transfers, const std::string& gpu) {
  if (gpu.empty() || transfers.size() == 1) return {};
  return Fail(ErrorCode::kInvalidArgument, "memory of several GPUs cannot come back to one of them");
}

}  // namespace

// If one transfer fails, the others give up, and none of them stays loaded.
MoverAnswer ProcessMemory::LoadAll(std::span<GpuTransfer* const> transfers, const std::string& gpu,
                                   GpuRoomCredit& credit, TransferProgressListener& progress,
                                   const GpuTransfer::SendParts& send) {
  if (auto may = MayGoTo(transfers, gpu); !may) return AnswerOf(may.error());
  std::atomic<bool> failed{false};
  std::mutex sending;
  const GpuTransfer::SendParts send_one_by_one = [&](const wire::TransferParts& parts, const int* files) {
    const std::lock_guard lock(sending);
    return send(parts, files);
  };
  // Without `send` the transfers must not export their pieces: while copies run, that takes half as long as a
  // copy.
  const GpuTransfer::SendParts nothing;
  const auto answer = InAllTransfers(transfers, [&](GpuTransfer& transfer) -> std::optional<MoverAnswer> {
    MoverAnswer loaded = transfer.Load(gpu, credit, progress, send ? send_one_by_one : nothing, failed);
    if (loaded.outcome != MoverOutcome::kDone && transfers.size() > 1) {
      if (failed.exchange(true)) return std::nullopt;  // the first failure says why
      credit.CallOff();
    }
    return loaded;
  });
  if (failed)
    for (GpuTransfer* const transfer : transfers) transfer->Unload();
  return answer.value_or(MoverAnswer{.message = "nothing was loaded"});
}

MoverAnswer ProcessMemory::Load(const std::string& source, const std::string& gpu,
                                TransferProgressListener& progress) {
  if (!source.empty() && !gpu.empty() && suspend::BareUuid(source) != suspend::BareUuid(gpu))
    return {.message = "the memory of one GPU alone cannot go to another GPU"};
  const auto step = LockTransfers(source);
  GpuRoomCredit& credit = CreditOf(source);
  MoverAnswer answer = step ? LoadAll(step->transfers, gpu, credit, progress, {}) : AnswerOf(step.error());
  if (!step && step.error().code == ErrorCode::kNotFound) answer.outcome = MoverOutcome::kNothing;
  credit.End();
  return answer;
}

MoverAnswer ProcessMemory::Give(Fd connection, const std::string& gpu, TransferProgressListener& progress) {
  const auto step = LockTransfers({});
  const int socket = connection.get();
  const auto goes_elsewhere = [&] {
    return step && std::ranges::any_of(step->transfers,
                                       [](const GpuTransfer* transfer) { return transfer->GoesElsewhere(); });
  };
  MoverAnswer answer{.outcome = MoverOutcome::kDone};
  if (!step) {
    answer = AnswerOf(step.error());
  } else if (!goes_elsewhere()) {
    answer = LoadAll(
        step->transfers, gpu, credit_, progress,
        [&](const wire::TransferParts& parts, const int* files) { return Send(socket, parts, files); });
  }
  credit_.End();
  if (answer.outcome != MoverOutcome::kDone) {
    const bool room = answer.outcome == MoverOutcome::kNoRoom;
    Refuse(socket, room ? wire::OrderError::kNoRoom : wire::OrderError::kNoMover);
    return answer;
  }
  if (auto sent = SendLast(socket, goes_elsewhere()); !sent) return AnswerOf(sent.error());
  auto receipt = AwaitReceipt(socket, shared_.process);
  if (receipt && *receipt == ReceiptKind::kOwn) {
    if (auto filled = FillOwn(step->transfers, socket, progress, answer); !filled) {
      Refuse(socket, wire::OrderError::kNoMover);
      return AnswerOf(filled.error());
    }
    receipt = AwaitReceipt(socket, shared_.process);
  }
  if (!receipt) return AnswerOf(receipt.error());
  for (GpuTransfer* const transfer : step->transfers) transfer->Keep();
  return answer;
}

// Receives memory for all pieces that are away, each once, in the order in which it comes.
Result<ProcessMemory::OwnByTransfer> ProcessMemory::ReceiveOwn(std::span<GpuTransfer* const> transfers,
                                                               int connection) {
  struct Away {
    GpuTransfer* transfer = nullptr;
    GpuTransfer::PieceRef ref;
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, Away> away;
  for (GpuTransfer* const transfer : transfers)
    transfer->ForEachPiece([&](const Piece& piece, GpuTransfer::PieceRef ref) {
      away[piece.address] = {transfer, ref, piece.bytes};
    });
  OwnByTransfer own;
  for (GpuTransfer* const transfer : transfers) own.try_emplace(transfer);
  for (bool last = false; !last;) {
    GPUMAN_ASSIGN(const PartsMessage message, ReceiveParts(connection));
    last = message.parts.last != 0;
    for (unsigned i = 0; i < message.parts.count; ++i) {
      const wire::TransferPart& part = message.parts.part[i];
      const auto found = away.extract(part.address);
      if (!found || found.mapped().bytes != part.bytes)
        return Fail(ErrorCode::kInternal, "the process has other memory than it had");
      GPUMAN_ASSIGN(DeviceMemory memory, shared_.gpus.Import(message.files[i].get(), part.bytes));
      own[found.mapped().transfer].push_back({found.mapped().ref, std::move(memory)});
    }
  }
  if (!away.empty()) return Fail(ErrorCode::kInternal, "the process has less memory than it had");
  return own;
}

// The process makes the memory where it cannot import the mover's memory.
Result<> ProcessMemory::FillOwn(std::span<GpuTransfer* const> transfers, int connection,
                                TransferProgressListener& progress, MoverAnswer& answer) {
  const auto ready = InAllTransfers(transfers, [&](GpuTransfer& transfer) {
    return std::optional<MoverAnswer>(transfer.PrepareCopy(progress));
  });
  if (ready->outcome != MoverOutcome::kDone) return Fail(ErrorCode::kInternal, ready->message);
  GPUMAN_TRY(SayDone(connection));
  GPUMAN_ASSIGN(auto own, ReceiveOwn(transfers, connection));
  const auto begin = std::chrono::steady_clock::now();
  const auto copied = InAllTransfers(transfers, [&](GpuTransfer& transfer) -> std::optional<MoverAnswer> {
    const auto done = transfer.CopyInto(own.at(&transfer));
    return done ? MoverAnswer{.outcome = MoverOutcome::kDone} : AnswerOf(done.error());
  });
  if (copied->outcome != MoverOutcome::kDone) return Fail(ErrorCode::kInternal, copied->message);
  answer = {.outcome = MoverOutcome::kDone, .straight = ready->straight};
  for (const auto& [transfer, list] : own)
    for (const auto& one : list) answer.bytes.count += one.memory.bytes();
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  own.clear();  // this memory belongs to the process
  return SayDone(connection);
}

}  // namespace gpuman::mover
