// The way back to a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "ledger/wire/transfer.h"
#include "mover/copy_out_planner.h"
#include "mover/gpu_transfer.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
namespace wire = ledger::wire;

constexpr std::size_t kFlying = 8;  // pieces in flight: so many that the copy engine never waits for a call
constexpr std::uint64_t kBatch = std::uint64_t{256} << 20;  // as much as one message carries
constexpr std::chrono::seconds kSilence{20};  // then daemon and process learn that the mover waits

}  // namespace

// Tells free_list which memory the pieces still need.
class GpuTransfer::Requirements {
 public:
  Requirements(GpuMemoryFreeList& free_list, int gpu) : free_list_(free_list), gpu_(gpu) {}
  ~Requirements() {
    for (const auto& [bytes, count] : open_)
      for (std::size_t i = 0; i < count; ++i) free_list_.Cancel(gpu_, bytes);
  }
  Requirements(const Requirements&) = delete;
  Requirements& operator=(const Requirements&) = delete;

  void Expect(std::uint64_t bytes) {
    ++open_[bytes];
    free_list_.Expect(gpu_, bytes);
  }
  std::optional<GpuMemoryFreeList::Block> Take(std::uint64_t bytes) {
    --open_[bytes];
    return free_list_.Take(gpu_, bytes);
  }

 private:
  GpuMemoryFreeList& free_list_;
  int gpu_;
  std::map<std::uint64_t, std::size_t> open_;
};

// Makes memory for each piece that has none, loads its data, and sends pieces as they arrive.
class GpuTransfer::Loading {
 public:
  Loading(GpuTransfer& transfer, int gpu, GpuRoomCredit& credit, TransferProgressListener& progress,
          const SendParts& send, const std::atomic<bool>& stop)
      : transfer_(transfer),
        gpu_(gpu),
        credit_(credit),
        progress_(progress),
        send_(send),
        stop_(stop),
        requirements_(transfer.shared_.free_list, gpu) {}

  Result<> Run(MoverAnswer& answer) {
    GPUMAN_ASSIGN(stream_, CopyStream::Open(transfer_.shared_.gpus, gpu_, Direction::kIn));
    transfer_.ForEachPiece([&](const Piece& piece, PieceRef ref) {
      refs_.push_back(ref);
      if (!MemoryOf(ref)) requirements_.Expect(piece.bytes);
    });
    while (next_ < refs_.size() || !flying_.empty()) {
      if (stop_) return Fail(ErrorCode::kUnavailable, "memory of another GPU could not be loaded");
      GPUMAN_TRY(BeginCopies());
      const auto [ref, copied] = flying_.front();
      flying_.pop_front();
      const std::uint64_t bytes = transfer_.PieceAt(ref).bytes;
      if (copied) {
        GPUMAN_TRY(stream_->Await());
        const std::uint64_t zeros = ZeroBytes(transfer_.batches_[ref.batch].copies[ref.piece]);
        answer.bytes.count += bytes;
        answer.unchanged.count += zeros;
        progress_.Moved(transfer_.gpu_, bytes, zeros, 0);
      }
      ready_.push_back(ref);
      if (copied) unchecked_.push_back(ref);
      ready_bytes_ += bytes;
      if (ready_.size() == wire::kMaxParts || ready_bytes_ >= kBatch) GPUMAN_TRY(Flush());
    }
    return Flush();
  }

 private:
  DeviceMemory& MemoryOf(const PieceRef& ref) { return transfer_.batches_[ref.batch].memory[ref.piece]; }

  Result<> Flush() {
    if (ready_.empty()) return {};
    GPUMAN_TRY(Check());
    GPUMAN_TRY(transfer_.Send(send_, ready_));
    ready_.clear();
    ready_bytes_ = 0;
    return {};
  }

  // What has come must be what left. A piece that is not is copied once more.
  Result<> Check() {
    const auto loaded = LoadedPieces();
    Hasher* const hasher = transfer_.HasherOf(gpu_);
    if (CountChanged(hasher, loaded) != 0) {
      GPUMAN_ASSIGN(CopyStream again, CopyStream::Open(transfer_.shared_.gpus, gpu_, Direction::kIn));
      for (const auto& piece : loaded) GPUMAN_TRY(again.Add(CopiesIn(piece.device, *piece.copy)));
      while (again.waiting() != 0) GPUMAN_TRY(again.Await());
      if (const std::size_t changed = CountChanged(hasher, loaded); changed != 0)
        return transfer_.Lost(changed);
    }
    unchecked_.clear();
    return {};
  }

  std::vector<RestoredPiece> LoadedPieces() {
    std::vector<RestoredPiece> pieces;
    for (const PieceRef& ref : unchecked_)
      pieces.push_back({MemoryOf(ref).address(), &transfer_.batches_[ref.batch].copies[ref.piece]});
    return pieces;
  }

  Result<> BeginCopies() {
    while (next_ < refs_.size() && flying_.size() < kFlying) {
      const PieceRef& ref = refs_[next_];
      const bool there = static_cast<bool>(MemoryOf(ref));
      if (!there) {
        if (flying_.empty()) GPUMAN_TRY(Flush());
        GPUMAN_ASSIGN(const bool room, GetRoom(transfer_.PieceAt(ref).bytes));
        if (!room) break;
        GPUMAN_TRY(BeginCopy(ref));
      }
      flying_.emplace_back(ref, !there);
      ++next_;
    }
    return {};
  }

  // False: there is no room now, but copies are in flight.
  Result<bool> GetRoom(std::uint64_t bytes) {
    for (std::chrono::seconds patience{0};; patience = kSilence) {
      switch (credit_.Take(bytes, patience)) {
        case GpuRoomCredit::Got::kYes:
          return true;
        case GpuRoomCredit::Got::kNever:
          return Fail(ErrorCode::kExhausted, "it was called off before there was room for all of it");
        case GpuRoomCredit::Got::kNotYet:
          break;
      }
      if (!flying_.empty()) return false;
      if (!base::IsAlive(transfer_.shared_.process)) return WentBack();
      progress_.Moved(transfer_.gpu_, 0, 0, 0);
      GPUMAN_TRY(transfer_.Send(send_, {}));
    }
  }

  Result<> BeginCopy(const PieceRef& ref) {
    Batch& batch = transfer_.batches_[ref.batch];
    const std::uint64_t bytes = transfer_.PieceAt(ref).bytes;
    DeviceMemory& memory = MemoryOf(ref);
    batch.files.resize(batch.memory.size());
    if (auto block = requirements_.Take(bytes)) {
      memory = std::move(block->memory);
      batch.files[ref.piece] = std::move(block->file);
    } else {
      auto made = transfer_.shared_.gpus.Create(gpu_, bytes);
      const bool full = !made && made.error().code == ErrorCode::kExhausted;
      // The kept blocks had other sizes.
      if (full && transfer_.shared_.free_list.Empty()) made = transfer_.shared_.gpus.Create(gpu_, bytes);
      GPUMAN_ASSIGN(memory, std::move(made));
    }
    return stream_->Add(CopiesIn(memory.address(), batch.copies[ref.piece]));
  }

  GpuTransfer& transfer_;
  const int gpu_;
  GpuRoomCredit& credit_;
  TransferProgressListener& progress_;
  const SendParts& send_;
  const std::atomic<bool>& stop_;
  Requirements requirements_;
  std::optional<CopyStream> stream_;
  std::vector<PieceRef> refs_, ready_, unchecked_;
  std::size_t next_ = 0;
  std::deque<std::pair<PieceRef, bool>> flying_;  // the piece, and whether it is being copied
  std::uint64_t ready_bytes_ = 0;
};

void GpuTransfer::ForEachPiece(const std::function<void(const Piece&, PieceRef)>& visit) const {
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    const auto& pieces = batches_[b].manifest.layout().pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) visit(pieces[i], {b, i});
  }
}

// Finishes copies to host memory that no mover has finished so far, unless the memory may stay where it is.
Result<> GpuTransfer::FinishBeforeLoading(int target, TransferProgressListener& progress) {
  const auto elsewhere = [&](const Batch& batch) {
    return std::ranges::any_of(batch.memory,
                               [&](const DeviceMemory& one) { return one && one.gpu() != target; });
  };
  const auto stays = [](const Batch& batch) {
    std::size_t i = batch.manifest.whole();
    while (i < batch.memory.size() && batch.memory[i]) ++i;
    return i == batch.manifest.layout().pieces.size();
  };
  if (!std::ranges::any_of(batches_, elsewhere) && std::ranges::all_of(batches_, stays)) return {};
  const MoverAnswer secured = SecureAll(progress);
  if (secured.outcome == MoverOutcome::kDone) return {};
  return Fail(secured.outcome == MoverOutcome::kNoRoom ? ErrorCode::kExhausted : ErrorCode::kInternal,
              secured.message);
}

MoverAnswer GpuTransfer::Load(const std::string& wanted, GpuRoomCredit& credit,
                              TransferProgressListener& progress, const SendParts& send,
                              const std::atomic<bool>& stop) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string& home = batches_.front().manifest.layout().gpu;
  if (const auto gpu = NumberOf(wanted); gpu && suspend::BareUuid(wanted) != suspend::BareUuid(home))
    return MakeReadyFor(*gpu, progress);
  elsewhere_.reset();
  // If no GPU is named, the target is the GPU where the memory is loaded already, else the GPU where it was.
  auto target = shared_.gpus.Find(wanted.empty() ? home : wanted);
  for (Batch& batch : batches_) {
    if (auto regained = Regain(batch); !regained) return AnswerOf(regained.error());
    for (const DeviceMemory& one : batch.memory)
      if (wanted.empty() && one) target = one.gpu();
  }
  if (!target) return AnswerOf(target.error());
  if (auto finished = FinishBeforeLoading(*target, progress); !finished) return AnswerOf(finished.error());
  for (Batch& batch : batches_) {
    batch.stream.reset();
    batch.memory.resize(batch.manifest.layout().pieces.size());
  }
  MoverAnswer answer{.outcome = MoverOutcome::kDone};
  if (auto filled = Loading(*this, *target, credit, progress, send, stop).Run(answer); !filled) {
    Unload();
    return AnswerOf(filled.error());
  }
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  return answer;
}

void GpuTransfer::Unload() {
  for (Batch& batch : batches_) {
    for (std::size_t i = 0; i < std::min(batch.memory.size(), batch.manifest.whole()); ++i) {
      batch.memory[i] = {};
      if (i < batch.files.size()) batch.files[i].Close();
    }
  }
}

// The process will make its own memory on that GPU, and ask the mover to fill it.
MoverAnswer GpuTransfer::MakeReadyFor(int gpu, TransferProgressListener& progress) {
  elsewhere_ = gpu;
  MoverAnswer secured = SecureAll(progress, gpu);
  if (secured.outcome != MoverOutcome::kDone || secured.straight) return secured;
  if (auto ready = shared_.gpus.Use(gpu); !ready) return AnswerOf(ready.error());
  return {.outcome = MoverOutcome::kDone};
}

// Sends pieces by their descriptors; a message without pieces only shows that the mover still lives.
Result<> GpuTransfer::Send(const SendParts& send, std::span<const PieceRef> refs) {
  if (!send) return {};
  wire::TransferParts parts{wire::kPartsMagic, 0, 0, 0, 0, {}};
  std::vector<Fd> made;
  int files[wire::kMaxParts];
  for (const PieceRef& ref : refs) {
    const Batch& batch = batches_[ref.batch];
    // An imported piece goes with the descriptor from which it was imported; a piece made here is exported.
    if (ref.piece < batch.files.size() && batch.files[ref.piece].ok()) {
      files[parts.count] = batch.files[ref.piece].get();
    } else {
      GPUMAN_ASSIGN(Fd file, shared_.gpus.Export(batch.memory[ref.piece]));
      files[parts.count] = file.get();
      made.push_back(std::move(file));
    }
    const Piece& piece = PieceAt(ref);
    parts.part[parts.count++] = {piece.address, piece.bytes};
  }
  return send(parts, files);
}

Result<> GpuTransfer::CopyInto(const std::vector<Own>& own) {
  if (own.empty()) return {};
  const int gpu = own.front().memory.gpu();
  GPUMAN_ASSIGN(CopyStream stream, CopyStream::Open(shared_.gpus, gpu, Direction::kIn));
  std::vector<RestoredPiece> loaded;
  for (const auto& [ref, memory] : own) {
    Batch& batch = batches_[ref.batch];
    if (batch.manifest.content() == FillState::kComplete) {
      loaded.push_back({memory.address(), &batch.copies[ref.piece]});
      GPUMAN_TRY(stream.Add(CopiesIn(memory.address(), batch.copies[ref.piece])));
    } else {
      GPUMAN_TRY(stream.AddAcross(memory, batch.memory[ref.piece]));
    }
  }
  while (stream.waiting() != 0) GPUMAN_TRY(stream.Await());
  const std::size_t changed = CountChanged(HasherOf(gpu), loaded);
  if (changed != 0) return Lost(changed);
  return {};
}

Result<> GpuTransfer::Lost(std::size_t chunks) const {
  return Fail(
      ErrorCode::kCorrupt,
      fmt::format("the host memory of process {} was changed while the process was away: {} of its parts of "
                  "2 MiB have not the bytes that left the GPU",
                  shared_.process.pid, chunks));
}

}  // namespace gpuman::mover
