// The way off the GPU.
#include "mover/gpu_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "mover/compare.h"
#include "mover/copy_out_planner.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::MoverAnswer;
using suspend::MoverOutcome;
namespace wire = ledger::wire;

namespace {

using Clock = std::chrono::steady_clock;

// Pieces whose copies begin together: usually 16 GiB, which are imported within some milliseconds.
constexpr std::size_t kTogether = 64;

std::vector<Extents> ExtentsOf(std::span<const HostCopy> copies) {
  std::vector<Extents> extents;
  for (const HostCopy& copy : copies) extents.push_back(copy.extents);
  return extents;
}

}  // namespace

MoverAnswer AnswerOf(const base::Error& error) {
  const bool no_room = error.code == ErrorCode::kExhausted;
  return {.outcome = no_room ? MoverOutcome::kNoRoom : MoverOutcome::kFailed, .message = error.message};
}

void GpuTransfer::Keep() {
  std::uint64_t copied = 0, bytes = 0;
  for (Batch& batch : batches_) {
    for (const std::uint64_t one : batch.copied) copied += one;
    bytes += BytesOf(batch.manifest.layout().pieces);
    Discard(batch, elsewhere_ ? Then::kFree : Then::kKeep);
  }
  batches_.clear();
  kept_.SetChanged(copied, bytes);
  if (elsewhere_) kept_.DropAll();
  Clear();
}

void GpuTransfer::Clear() {
  for (Batch& batch : batches_) Discard(batch, Then::kFree);
  batches_.clear();
  elsewhere_.reset();
  const std::lock_guard lock(held_mutex_);
  held_.clear();
}

void GpuTransfer::Clear(EvictionEpoch last) {
  if (std::ranges::all_of(batches_, [&](const Batch& batch) { return batch.epoch <= last; })) return Clear();
  for (Batch& batch : batches_)
    if (batch.epoch <= last) Discard(batch, Then::kFree);
  std::erase_if(batches_, [&](const Batch& batch) { return batch.epoch <= last; });
}

void GpuTransfer::End() {
  Clear();
  kept_.DropAll();
}

void GpuTransfer::Discard(Batch& batch, Then then) {
  batch.stream.reset();
  batch.memory.clear();
  batch.files.clear();
  batch.manifest.Become(FillState::kEmpty);
  for (std::size_t i = 0; i < batch.copies.size(); ++i) {
    HostCopy& copy = batch.copies[i];
    if (then == Then::kKeep && IsWorthKeeping(copy))
      kept_.Keep(batch.manifest.layout().pieces[i].address, std::move(copy));
    else
      arena_.Free(copy.extents);
  }
  batch.copies.clear();
  shared_.manifests.Remove(batch.manifest.inode());  // it is empty now, so that nobody goes on with it
}

Result<> GpuTransfer::Adopt(HostMemoryManifest::Found found, EvictionEpoch epoch) {
  const auto& pieces = found.manifest.layout().pieces;
  GPUMAN_ASSIGN(auto extents, arena_.Adopt(std::move(found.segments), found.manifest.layout()));
  std::vector<HostCopy> copies;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    HostCopy& copy = copies.emplace_back(EmptyCopy(pieces[i].bytes, std::move(extents[i])));
    const std::vector<bool> zeros = found.manifest.Zeros(i);
    for (std::size_t chunk = 0; i < found.manifest.whole() && chunk < zeros.size(); ++chunk)
      if (zeros[chunk]) copy.chunks[chunk].state = ChunkRecord::State::kZero;
  }
  shared_.manifests.Add(found.manifest.inode());
  const bool hashed = shared_.hashing.Covers(BytesOf(pieces));
  batches_.push_back(
      {.manifest = std::move(found.manifest), .copies = std::move(copies), .hashed = hashed, .epoch = epoch});
  return {};
}

// Kept copies give way to what has to leave a GPU.
Result<Extents> GpuTransfer::MakeRoom(int gpu, std::uint64_t bytes) {
  for (;;) {
    auto extents = arena_.Allocate(gpu, bytes);
    if (extents || extents.error().code != ErrorCode::kExhausted || !shared_.kept.GiveWay(bytes))
      return extents;
  }
}

bool GpuTransfer::NeedsDescriptors() const {
  return std::ranges::any_of(batches_, [](const Batch& batch) {
    return batch.manifest.content() != FillState::kComplete && batch.memory.empty();
  });
}

// Imports again the memory that another mover had taken and not copied out.
Result<> GpuTransfer::Regain(Batch& batch) {
  if (batch.manifest.content() == FillState::kComplete) return {};
  const auto& pieces = batch.manifest.layout().pieces;
  batch.memory.resize(pieces.size());
  batch.files.resize(pieces.size());
  std::vector<std::pair<std::size_t, Fd>> held;
  {
    const std::lock_guard lock(held_mutex_);
    held.swap(held_);
  }
  for (auto& [piece, file] : held) {
    if (piece >= pieces.size() || piece < batch.manifest.whole() || batch.memory[piece]) continue;
    GPUMAN_ASSIGN(batch.memory[piece], shared_.gpus.Import(file.get(), pieces[piece].bytes));
    batch.files[piece] = std::move(file);
  }
  return {};
}

std::optional<int> GpuTransfer::NumberOf(const std::string& gpu) const {
  if (gpu.empty()) return std::nullopt;
  const auto found = shared_.gpus.Find(gpu);
  return found ? std::optional(*found) : std::nullopt;
}

// Whether all of the batch is on GPUs other than the target, and the target can read them.
bool GpuTransfer::GoesStraight(Batch& batch, std::optional<int> target) {
  if (!target || batch.stream || batch.manifest.content() == FillState::kComplete ||
      batch.manifest.whole() != 0)
    return false;
  if (!Regain(batch)) return false;
  if (batch.read_by == target) return true;
  Gpus& gpus = shared_.gpus;
  for (const DeviceMemory& one : batch.memory) {
    if (!one || one.gpu() == *target || !gpus.Reaches(*target, one.gpu()) || !gpus.LetRead(one, *target))
      return false;
  }
  batch.read_by = target;
  return true;
}

// Takes one piece. Importing takes ten times as long while copies run, so no copy begins yet.
Result<> GpuTransfer::Accept(Offer& offer, std::uint64_t address, DeviceMemory memory, Fd file) {
  Batch& batch = *offer.batch;
  if (!batch.memory.empty() && memory.gpu() != batch.memory.front().gpu())
    return Fail(ErrorCode::kInternal,
                fmt::format("process {} hands out memory of several GPUs at once", shared_.process.pid));
  if (memory.bytes() > offer.left) return Fail(ErrorCode::kInternal, "the process has more than it said");
  offer.left -= memory.bytes();
  auto copy = kept_.Claim(address, memory.bytes());
  if (!copy) {
    auto extents = TakeFirst(offer.free, memory.bytes());
    if (!extents) {
      GPUMAN_ASSIGN(extents, MakeRoom(memory.gpu(), memory.bytes()));
    }
    copy = EmptyCopy(memory.bytes(), std::move(*extents));
  }
  batch.copies.push_back(std::move(*copy));
  batch.memory.push_back(std::move(memory));
  batch.files.push_back(std::move(file));
  return {};
}

// Begins the copies of the pieces that have come, whose data do not change any more: what the host copies do
// not hold already. Chunks are hashed while those of the pieces before are copied.
Result<> GpuTransfer::SetOut(Batch& batch) {
  if (batch.begun_copies == batch.memory.size()) return {};
  const int gpu = batch.memory[batch.begun_copies].gpu();
  if (!batch.stream) {
    GPUMAN_ASSIGN(batch.stream, CopyStream::Open(shared_.gpus, gpu, Direction::kOut));
  }
  if (batch.begun == Clock::time_point{}) batch.begun = Clock::now();
  batch.copied.resize(batch.memory.size());
  std::set<const Segment*> with_process;
  for (const Batch& other : batches_) {
    if (&other == &batch) continue;
    for (const Segment* const segment : SegmentsOf(ExtentsOf(other.copies))) with_process.insert(segment);
  }
  CopyOutPlanner changed(batch.hashed ? HasherOf(gpu) : nullptr, shared_.gpus.hash_key(), batch.memory,
                         batch.copies, batch.begun_copies, with_process);
  while (batch.begun_copies < batch.memory.size()) {
    changed.Plan();
    const auto copies =
        CopiesOut(batch.memory[batch.begun_copies].address(), batch.copies[batch.begun_copies]);
    GPUMAN_TRY(batch.stream->Add(copies));
    batch.copied[batch.begun_copies] = BytesOf(copies);
    ++batch.begun_copies;
  }
  return {};
}

// Whether the batch may stay where it is, for the target to read.
bool GpuTransfer::MayStay(const Batch& batch, std::optional<int> target) const {
  return target && !batch.stream && std::ranges::all_of(batch.memory, [&](const DeviceMemory& one) {
           return shared_.gpus.Reaches(*target, one.gpu());
         });
}

// Checks the size that a process names, because the mover makes so much host memory for it.
Result<> GpuTransfer::MayHave(int gpu, std::uint64_t bytes) const {
  GPUMAN_ASSIGN(const std::uint64_t all, shared_.gpus.MemoryOf(gpu));
  const std::uint64_t most = 2 * all;  // memory that is away, and memory that takes its place meanwhile
  std::uint64_t away = 0;
  for (const Batch& batch : batches_) away += std::min(BytesOf(batch.manifest.layout().pieces), most - away);
  if (bytes <= most - away) return {};
  return Fail(ErrorCode::kInternal, fmt::format("process {} says that it has {} bytes, more than the GPU",
                                                shared_.process.pid, bytes));
}

// Makes host memory for an offer.
Result<> GpuTransfer::Prepare(int gpu, const wire::TransferParts& parts, TransferProgressListener& progress,
                              Offer& offer) {
  offer.more = parts.more != 0;
  if (offer.more && !batches_.empty()) {
    // One batch is on its way at a time: a descriptor's piece number does not tell its batch.
    if (const MoverAnswer before = SecureAll(progress); before.outcome != MoverOutcome::kDone)
      return Fail(ErrorCode::kInternal, before.message);
  }
  offer.left = parts.total;
  GPUMAN_ASSIGN(offer.free, MakeRoom(gpu, parts.total - std::min(parts.total, kept_.bytes())));
  GPUMAN_ASSIGN(auto manifest, HostMemoryManifest::Make());
  shared_.manifests.Add(manifest.inode());
  offer.batch.emplace(Batch{.manifest = std::move(manifest), .hashed = shared_.hashing.Covers(parts.total)});
  return {};
}

// Writes the manifest: all pieces have their extents.
Result<> GpuTransfer::Seal(Offer& offer, std::vector<Piece> pieces) {
  Layout layout{shared_.process, {}, std::move(pieces), {}, {}};
  GPUMAN_ASSIGN(layout.gpu, shared_.gpus.UuidOf(offer.batch->memory.front().gpu()));
  DescribeExtents(ExtentsOf(offer.batch->copies), layout);
  return offer.batch->manifest.Seal(std::move(layout));
}

Result<> GpuTransfer::Receive(int connection, Opening opening, std::optional<int> target,
                              TransferProgressListener& progress, Offer& offer) {
  std::vector<Piece> pieces;
  GPUMAN_TRY(MayHave(opening.first.gpu(), opening.message.parts.total));
  GPUMAN_TRY(Prepare(opening.first.gpu(), opening.message.parts, progress, offer));
  for (PartsMessage message = std::move(opening.message);;) {
    const wire::TransferParts& parts = message.parts;
    for (unsigned i = 0; i < parts.count; ++i) {
      const wire::TransferPart& part = parts.part[i];
      DeviceMemory memory = std::exchange(opening.first, {});
      if (!memory) {
        GPUMAN_ASSIGN(memory, shared_.gpus.Import(message.files[i].get(), part.bytes));
      }
      GPUMAN_TRY(Accept(offer, part.address, std::move(memory), std::move(message.files[i])));
      pieces.push_back({part.address, part.bytes});
    }
    const bool last = parts.last != 0;
    Batch& batch = *offer.batch;
    if ((last || batch.memory.size() - batch.begun_copies >= kTogether) && !MayStay(batch, target))
      GPUMAN_TRY(SetOut(batch));
    if (last) break;
    GPUMAN_ASSIGN(message, ReceiveParts(connection));
  }
  return Seal(offer, std::move(pieces));
}

// Hands host memory to the process, which then gives the device memory away.
Result<> GpuTransfer::HandOver(int connection, const Batch& batch) {
  std::vector<int> files{batch.manifest.file()};
  std::vector<Fd> theirs;
  for (const Segment* const segment : SegmentsOf(ExtentsOf(batch.copies))) {
    GPUMAN_ASSIGN(Fd file, segment->OpenForOthers());
    files.push_back(file.get());
    theirs.push_back(std::move(file));
  }
  for (std::size_t from = 0; from < files.size(); from += wire::kMaxParts) {
    const auto count = static_cast<unsigned>(std::min<std::size_t>(wire::kMaxParts, files.size() - from));
    const wire::TransferReply reply{wire::kReplyMagic, count, from + count == files.size() ? 1u : 0u, 0};
    if (!wire::SendWith(connection, &reply, sizeof reply, &files[from], count, kPeerMs)) return WentBack();
  }
  GPUMAN_TRY(AwaitReceipt(connection, shared_.process));
  return {};
}

// A Take whose offer the process gave up may run after the Take of its next offer.
MoverAnswer GpuTransfer::Take(int connection, Opening opening, bool whole, const std::string& target,
                              EvictionEpoch epoch, TransferProgressListener& progress) {
  Offer offer;
  Result<> taken = Receive(connection, std::move(opening), NumberOf(target), progress, offer);
  if (!taken) {
    const bool host = taken.error().code == ErrorCode::kExhausted;
    Refuse(connection, host ? wire::OrderError::kHostMemory : wire::OrderError::kNoMover);
  } else {
    const auto& files = offer.batch->files;
    for (std::size_t from = 0; from < files.size(); from += wire::kMaxParts) {
      std::vector<int> some;
      for (std::size_t i = from; i < files.size() && i < from + wire::kMaxParts; ++i)
        some.push_back(files[i].get());
      progress.Holding(gpu_, some);
    }
    taken = HandOver(connection, *offer.batch);
  }
  arena_.Free(offer.free);  // of pieces that had host memory
  if (!taken) {
    if (offer.batch) Discard(*offer.batch, Then::kFree);
    return AnswerOf(taken.error());
  }
  if (!offer.more) Clear();  // removes what an earlier offer left
  offer.batch->epoch = epoch;
  const std::uint64_t bytes = BytesOf(offer.batch->manifest.layout().pieces);
  batches_.push_back(std::move(*offer.batch));
  progress.Taken(gpu_, bytes);
  if (!whole) return {.outcome = MoverOutcome::kDone, .bytes = {bytes}};
  return SecureAll(progress);
}

// Copies what is taken for unchanged as well, and compares it.
Result<> GpuTransfer::Compare(const DeviceMemory& piece, HostCopy& copy, MoverAnswer& answer) {
  GPUMAN_ASSIGN(const auto scratch, MakeRoom(piece.gpu(), kChunk));
  Result<std::size_t> wrong = [&]() -> Result<std::size_t> {
    GPUMAN_ASSIGN(CopyStream stream, CopyStream::Open(shared_.gpus, piece.gpu(), Direction::kOut));
    return CompareSkipped(stream, piece.address(), copy, scratch.front().at());
  }();
  arena_.Free(scratch);
  if (!wrong) return Fail(wrong.error());
  answer.misjudged += *wrong;
  return {};
}

// Copies the rest of a batch, piece by piece.
Result<> GpuTransfer::Secure(Batch& batch, TransferProgressListener& progress, MoverAnswer& answer) {
  if (batch.manifest.content() == FillState::kComplete) return {};
  if (batch.begun == Clock::time_point{}) batch.begun = Clock::now();
  const auto& pieces = batch.manifest.layout().pieces;
  GPUMAN_TRY(Regain(batch));
  const std::size_t first = batch.manifest.whole();
  for (std::size_t i = first; i < pieces.size(); ++i) {
    if (batch.memory[i]) continue;
    return Fail(ErrorCode::kCorrupt,
                fmt::format("the data of process {} is lost: it was being copied when gpuman-mover ended",
                            shared_.process.pid));
  }
  if (!batch.stream) batch.begun_copies = first;  // copies that failed are made again
  GPUMAN_TRY(SetOut(batch));
  for (std::size_t i = first; i < pieces.size(); ++i) {
    if (auto done = batch.stream->Await(); !done) {
      batch.stream.reset();  // the next attempt begins with this piece
      return done;
    }
    HostCopy& copy = batch.copies[i];
    const bool compares = batch.hashed && shared_.hashing.compares();
    if (compares) GPUMAN_TRY(Compare(batch.memory[i], copy, answer));
    Confirm(copy);
    batch.manifest.SetZeros(i, ZerosOf(copy));
    batch.manifest.SetWhole(i + 1);
    shared_.free_list.Leave(std::move(batch.memory[i]), std::move(batch.files[i]));
    batch.memory[i] = {};
    batch.files[i].Close();
    const std::uint64_t unchanged = compares ? 0 : pieces[i].bytes - batch.copied[i];
    answer.bytes.count += pieces[i].bytes;
    answer.unchanged.count += unchanged;
    progress.Moved(gpu_, pieces[i].bytes, unchanged, i + 1);
  }
  batch.stream.reset();
  batch.memory.clear();
  batch.files.clear();
  batch.manifest.Become(FillState::kComplete);
  answer.took = std::max(answer.took, std::chrono::duration_cast<base::Millis>(Clock::now() - batch.begun));
  return {};
}

void GpuTransfer::Hold(std::size_t first, std::vector<Fd> files) {
  const std::lock_guard lock(held_mutex_);
  for (auto& file : files) held_.emplace_back(first++, std::move(file));
}

MoverAnswer GpuTransfer::Secure(const std::string& target, TransferProgressListener& progress) {
  MoverAnswer answer = SecureAll(progress, NumberOf(target));
  const MoverAnswer before = std::exchange(finished_, {});
  if (answer.outcome != MoverOutcome::kDone || answer.straight) return answer;
  answer.bytes += before.bytes;
  answer.unchanged += before.unchanged;
  answer.misjudged += before.misjudged;
  answer.took = std::max(answer.took, before.took);
  return answer;
}

void GpuTransfer::Finish(const std::string& target) {
  TransferProgressListener nobody;
  if (!batches_.empty()) finished_ = SecureAll(nobody, NumberOf(target));
}

// Leaves batches on the GPU that `target` can read: if any stay, the answer's bytes are theirs.
MoverAnswer GpuTransfer::SecureAll(TransferProgressListener& progress, std::optional<int> target) {
  MoverAnswer answer{.outcome = MoverOutcome::kDone};
  std::uint64_t staying = 0;
  for (Batch& batch : batches_) {
    if (GoesStraight(batch, target)) {
      staying += BytesOf(batch.manifest.layout().pieces);
      continue;
    }
    if (auto secured = Secure(batch, progress, answer); !secured) return AnswerOf(secured.error());
    batch.memory.clear();  // memory that was loaded again
    batch.files.clear();
  }
  if (staying != 0) return {.outcome = MoverOutcome::kDone, .bytes = {staying}, .straight = true};
  progress.Safe(gpu_);
  const std::lock_guard lock(held_mutex_);
  held_.clear();
  return answer;
}

}  // namespace gpuman::mover
