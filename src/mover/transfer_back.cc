// The way back to a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "ledger/wire/transfer.h"
#include "mover/peer.h"
#include "mover/transfer.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::Answer;
using suspend::Outcome;
namespace wire = ledger::wire;

constexpr std::size_t kFlying = 8;  // pieces in flight: so many that the copy engine never waits for a call
constexpr std::uint64_t kBatch = std::uint64_t{256} << 20;  // as much as one message carries
constexpr std::chrono::seconds kSilence{20};  // then daemon and process learn that the mover waits

}  // namespace

void Transfer::Begin(std::optional<base::Bytes> room) {
  credit_.Begin(room ? std::optional(room->count) : std::nullopt);
}

// False: there is no room now. With `wait` the caller has no copy in flight.
Result<bool> Transfer::GetRoom(std::uint64_t bytes, bool wait, const ProgressCallbacks& tell,
                               const Deliver& deliver) {
  for (std::chrono::seconds patience{0};; patience = kSilence) {
    switch (credit_.Take(bytes, patience)) {
      case Credit::Got::kYes:
        return true;
      case Credit::Got::kNever:
        return Fail(ErrorCode::kExhausted, "it was called off before there was room for all of it");
      case Credit::Got::kNotYet:
        break;
    }
    if (!wait) return false;
    if (!base::IsAlive(process_)) return WentBack();
    tell.moved(0, 0);
    GPUMAN_TRY(deliver({}));
  }
}

// Tells free_list which memory the pieces still need.
class Transfer::Needs {
 public:
  Needs(FreeList& free_list, int gpu, std::span<const PieceRef> refs) : free_list_(free_list), gpu_(gpu) {
    for (const auto& [batch, piece] : refs) {
      if (batch->memory[piece]) continue;
      const std::uint64_t bytes = batch->buffer.layout().pieces[piece].bytes;
      ++open_[bytes];
      free_list_.Expect(gpu, bytes);
    }
  }
  ~Needs() {
    for (const auto& [bytes, count] : open_)
      for (std::size_t i = 0; i < count; ++i) free_list_.Cancel(gpu_, bytes);
  }
  Needs(const Needs&) = delete;
  Needs& operator=(const Needs&) = delete;

  std::optional<FreeList::Block> Take(std::uint64_t bytes) {
    --open_[bytes];
    return free_list_.Take(gpu_, bytes);
  }

 private:
  FreeList& free_list_;
  int gpu_;
  std::map<std::uint64_t, std::size_t> open_;
};

Result<> Transfer::Begin(CopyStream& stream, int gpu, const PieceRef& ref, Needs& needs) {
  Batch& batch = *ref.batch;
  const std::uint64_t bytes = batch.buffer.layout().pieces[ref.piece].bytes;
  Memory& memory = batch.memory[ref.piece];
  batch.files.resize(batch.memory.size());
  if (auto block = needs.Take(bytes)) {
    memory = std::move(block->memory);
    batch.files[ref.piece] = std::move(block->file);
  } else {
    auto made = gpus_.Create(gpu, bytes);
    const bool full = !made && made.error().code == ErrorCode::kExhausted;
    if (full && free_list_.Empty()) made = gpus_.Create(gpu, bytes);  // the kept blocks had other sizes
    GPUMAN_ASSIGN(memory, std::move(made));
  }
  return stream.Add(CopiesOf(batch, ref.piece, memory));
}

// Makes memory for each of the pieces that has none, and loads its data.
Result<> Transfer::Fill(std::vector<PieceRef> refs, int gpu, const ProgressCallbacks& tell,
                        const Deliver& deliver, Answer& answer) {
  GPUMAN_ASSIGN(CopyStream stream, CopyStream::Open(gpus_, gpu, Direction::kIn));
  const auto bytes_of = [](const PieceRef& ref) {
    return ref.batch->buffer.layout().pieces[ref.piece].bytes;
  };
  std::deque<std::pair<PieceRef, bool>> flying;  // the piece, and whether it is being copied
  Needs needs(free_list_, gpu, refs);
  std::vector<PieceRef> ready;
  std::uint64_t ready_bytes = 0;
  const auto flush = [&]() -> Result<> {
    if (ready.empty()) return {};
    GPUMAN_TRY(deliver(ready));
    ready.clear();
    ready_bytes = 0;
    return {};
  };
  for (std::size_t next = 0; next < refs.size() || !flying.empty();) {
    while (next < refs.size() && flying.size() < kFlying) {
      const PieceRef& ref = refs[next];
      const bool there = static_cast<bool>(ref.batch->memory[ref.piece]);
      if (!there) {
        if (flying.empty()) GPUMAN_TRY(flush());
        GPUMAN_ASSIGN(const bool room, GetRoom(bytes_of(ref), flying.empty(), tell, deliver));
        if (!room) break;
        GPUMAN_TRY(Begin(stream, gpu, ref, needs));
      }
      flying.emplace_back(ref, !there);
      ++next;
    }
    const auto [ref, copied] = flying.front();
    flying.pop_front();
    if (copied) {
      GPUMAN_TRY(stream.Await());
      answer.bytes.count += bytes_of(ref);
      tell.moved(bytes_of(ref), 0);
    }
    ready.push_back(ref);
    ready_bytes += bytes_of(ref);
    if (ready.size() == wire::kMaxParts || ready_bytes >= kBatch) GPUMAN_TRY(flush());
  }
  return flush();
}

// The caller holds the mutex. If LoadAll fails, no piece that is whole in host memory stays on a GPU.
Answer Transfer::LoadAll(const std::string& wanted, const ProgressCallbacks& tell, const Deliver& deliver) {
  const auto begin = std::chrono::steady_clock::now();
  if (auto found = Find(); !found) return AnswerOf(found.error());
  const std::string& home = batches_.front().buffer.layout().gpu;
  if (const auto gpu = NumberOf(wanted); gpu && wanted != home) return MakeReadyFor(*gpu, tell);
  elsewhere_.reset();
  // If no GPU is named, the target is the GPU where the memory is loaded already, else the GPU where it was.
  auto target = gpus_.Find(wanted.empty() ? home : wanted);
  for (Batch& batch : batches_) {
    if (auto regained = Regain(batch); !regained) return AnswerOf(regained.error());
    for (const Memory& one : batch.memory)
      if (wanted.empty() && one) target = one.gpu();
  }
  if (!target) return AnswerOf(target.error());
  const auto elsewhere = [&](const Batch& batch) {
    return std::ranges::any_of(batch.memory, [&](const Memory& one) { return one && one.gpu() != *target; });
  };
  // First finishes copies to host memory that no mover has finished so far, unless the memory may stay where
  // it is.
  const auto stays = [](const Batch& batch) {
    std::size_t i = batch.buffer.whole();
    while (i < batch.memory.size() && batch.memory[i]) ++i;
    return i == batch.buffer.layout().pieces.size();
  };
  if (std::ranges::any_of(batches_, elsewhere) || !std::ranges::all_of(batches_, stays)) {
    if (auto secured = SecureAll(tell); secured.outcome != Outcome::kDone) return secured;
  }
  std::vector<PieceRef> refs;
  for (Batch& batch : batches_) {
    batch.stream.reset();
    batch.memory.resize(batch.buffer.layout().pieces.size());
    for (std::size_t i = 0; i < batch.memory.size(); ++i) refs.push_back({&batch, i});
  }
  Answer answer{.outcome = Outcome::kDone};
  const auto filled = Fill(std::move(refs), *target, tell, deliver, answer);
  if (!filled) {
    for (Batch& batch : batches_) {
      for (std::size_t i = 0; i < std::min(batch.memory.size(), batch.buffer.whole()); ++i) {
        batch.memory[i] = {};
        if (i < batch.files.size()) batch.files[i].Close();
      }
    }
    return AnswerOf(filled.error());
  }
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  return answer;
}

// The process will make its own memory on that GPU, and ask the mover to fill it.
Answer Transfer::MakeReadyFor(int gpu, const ProgressCallbacks& tell) {
  elsewhere_ = gpu;
  Answer secured = SecureAll(tell, gpu);
  if (secured.outcome != Outcome::kDone || secured.straight) return secured;
  if (auto ready = gpus_.Use(gpu); !ready) return AnswerOf(ready.error());
  return {.outcome = Outcome::kDone};
}

Answer Transfer::Load(const std::string& gpu, const ProgressCallbacks& tell) {
  const std::lock_guard lock(mutex_);
  Answer answer = LoadAll(gpu, tell, [](std::span<const PieceRef>) { return Result<>(); });
  credit_.End();
  return answer;
}

// Sends pieces by their descriptors; a message without pieces only shows that the mover still lives.
Result<> Transfer::Send(int connection, std::span<const PieceRef> refs, bool last) {
  wire::Parts parts{wire::kPartsMagic, 0, last ? 1u : 0u, 0, 0, {}};
  std::vector<Fd> made;
  int files[wire::kMaxParts];
  for (const auto& [batch, i] : refs) {
    // An imported piece goes with the descriptor from which it was imported; a piece made here is exported.
    if (i < batch->files.size() && batch->files[i].ok()) {
      files[parts.count] = batch->files[i].get();
    } else {
      GPUMAN_ASSIGN(Fd file, gpus_.Export(batch->memory[i]));
      files[parts.count] = file.get();
      made.push_back(std::move(file));
    }
    const Piece& piece = batch->buffer.layout().pieces[i];
    parts.part[parts.count++] = {piece.address, piece.bytes};
  }
  if (!wire::SendWith(connection, &parts, sizeof parts, files, parts.count, kPeerMs)) return WentBack();
  return {};
}

Result<> Transfer::AskForOwn(int connection) {
  const wire::Parts parts{wire::kPartsMagic, 0, 1, 1, 0, {}};
  if (!wire::SendWith(connection, &parts, sizeof parts, nullptr, 0, kPeerMs)) return WentBack();
  return {};
}

Answer Transfer::Give(Fd connection, const std::string& gpu, const ProgressCallbacks& tell) {
  const std::lock_guard lock(mutex_);
  Answer answer{.outcome = Outcome::kDone};
  if (!elsewhere_)
    answer = LoadAll(gpu, tell, [&](std::span<const PieceRef> refs) {
      return Send(connection.get(), refs, /*last=*/false);
    });
  credit_.End();
  if (answer.outcome != Outcome::kDone) {
    const bool room = answer.outcome == Outcome::kNoRoom;
    Refuse(connection.get(), room ? wire::Trouble::kNoRoom : wire::Trouble::kNoMover);
    return answer;
  }
  const auto sent = elsewhere_ ? AskForOwn(connection.get()) : Send(connection.get(), {}, /*last=*/true);
  if (!sent) return AnswerOf(sent.error());
  auto receipt = AwaitReceipt(connection.get(), process_);
  if (receipt && *receipt == Receipt::kOwn) {
    if (auto filled = FillOwn(connection.get(), tell, answer); !filled) {
      Refuse(connection.get(), wire::Trouble::kNoMover);
      return AnswerOf(filled.error());
    }
    receipt = AwaitReceipt(connection.get(), process_);
  }
  if (!receipt) return AnswerOf(receipt.error());
  Clear();
  return answer;
}

// Receives memory for all pieces that are away, each once, in the order in which it comes.
Result<> Transfer::ReceiveOwn(int connection, std::vector<Own>& own) {
  std::map<std::uint64_t, PieceRef> away;
  for (Batch& batch : batches_) {
    const auto& pieces = batch.buffer.layout().pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) away[pieces[i].address] = {&batch, i};
  }
  for (bool last = false; !last;) {
    wire::Parts parts{};
    int numbers[wire::kMaxParts];
    unsigned count = 0;
    const ssize_t got = wire::ReceiveWith(connection, &parts, sizeof parts, numbers, count, kPeerMs);
    std::vector<Fd> files;
    for (unsigned i = 0; i < count; ++i) files.emplace_back(numbers[i]);
    if (got != sizeof parts || parts.magic != wire::kPartsMagic || parts.count != count) return WentBack();
    last = parts.last != 0;
    if (count == 0 && !last) return WentBack();
    for (unsigned i = 0; i < count; ++i) {
      const auto found = away.extract(parts.part[i].address);
      const auto bytes =
          found ? found.mapped().batch->buffer.layout().pieces[found.mapped().piece].bytes : std::uint64_t{0};
      if (bytes != parts.part[i].bytes)
        return Fail(ErrorCode::kInternal, "the process has other memory than it had");
      GPUMAN_ASSIGN(Memory memory, gpus_.Import(files[i].get(), bytes));
      own.push_back({found.mapped(), std::move(memory)});
    }
  }
  if (!away.empty()) return Fail(ErrorCode::kInternal, "the process has less memory than it had");
  return {};
}

// Copies from the GPU where the memory stayed, or from host memory.
Result<> Transfer::Pour(const std::vector<Own>& own) {
  if (own.empty()) return {};
  GPUMAN_ASSIGN(CopyStream stream, CopyStream::Open(gpus_, own.front().memory.gpu(), Direction::kIn));
  for (const auto& [ref, memory] : own) {
    Batch& batch = *ref.batch;
    if (batch.buffer.content() == Content::kComplete)
      GPUMAN_TRY(stream.Add(CopiesOf(batch, ref.piece, memory)));
    else
      GPUMAN_TRY(stream.AddAcross(memory, batch.memory[ref.piece]));
  }
  while (stream.waiting() != 0) GPUMAN_TRY(stream.Await());
  return {};
}

// The process makes the memory where it cannot import the mover's memory.
Result<> Transfer::FillOwn(int connection, const ProgressCallbacks& tell, Answer& answer) {
  const Answer secured = SecureAll(tell, elsewhere_);
  if (secured.outcome != Outcome::kDone) return Fail(ErrorCode::kInternal, secured.message);
  GPUMAN_TRY(SayDone(connection));
  std::vector<Own> own;
  GPUMAN_TRY(ReceiveOwn(connection, own));
  const auto begin = std::chrono::steady_clock::now();
  GPUMAN_TRY(Pour(own));
  answer = {.outcome = Outcome::kDone, .straight = secured.straight};
  for (const auto& [ref, memory] : own) answer.bytes.count += memory.bytes();
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  own.clear();  // this memory belongs to the process
  return SayDone(connection);
}

}  // namespace gpuman::mover
