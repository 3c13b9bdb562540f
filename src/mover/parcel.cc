// The way out.
#include "mover/parcel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::Answer;
using suspend::Outcome;
namespace wire = ledger::wire;

namespace {

constexpr int kPeerMs = 60'000;  // for the process to say what it has to

tl::unexpected<base::Error> WentBack() {
  return Fail(ErrorCode::kUnavailable, "the process went back on it, or ended");
}

using Clock = std::chrono::steady_clock;

}  // namespace

Answer AnswerOf(const base::Error& error) {
  const bool no_room = error.code == ErrorCode::kExhausted;
  return {.outcome = no_room ? Outcome::kNoRoom : Outcome::kFailed, .message = error.message};
}

void Refuse(int connection, const base::Error& error, bool on_device) {
  constexpr std::uint32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  wire::Trouble trouble = wire::Trouble::kNoMover;
  if (error.code == ErrorCode::kExhausted)
    trouble = on_device ? wire::Trouble::kNoRoom : wire::Trouble::kHostMemory;
  const std::uint32_t driver = trouble == wire::Trouble::kNoRoom ? kOutOfMemory : 0;
  const wire::Reply reply{wire::kReplyMagic, 0, 1, wire::PackError(trouble, driver)};
  (void)wire::SendWith(connection, &reply, sizeof reply, nullptr, 0, 0);
}

Result<> AwaitReceipt(int connection, const base::ProcessId& process) {
  constexpr int kLookEveryMs = 500;
  wire::Reply reply{};
  int files[wire::kMostParts];
  unsigned count = 0;
  ssize_t got = -1;
  do {
    got = wire::ReceiveWith(connection, &reply, sizeof reply, files, count, kLookEveryMs);
    for (unsigned i = 0; i < count; ++i) ::close(files[i]);
  } while (got < 0 && base::IsAlive(process));
  if (got != sizeof reply || reply.magic != wire::kReplyMagic) return WentBack();
  if (reply.error != 0)
    return Fail(ErrorCode::kInternal, fmt::format("the process could not: trouble {}, CUDA error {}",
                                                  static_cast<unsigned>(wire::TroubleOf(reply.error)),
                                                  wire::DriverErrorOf(reply.error)));
  return {};
}

void Parcel::Clear() {
  for (Lot& lot : lots_) {
    lot.lane.reset();
    lot.memory.clear();
    lot.files.clear();
    pool_.Give(std::move(lot.stowage).Empty());
  }
  lots_.clear();
  const std::lock_guard lock(held_mutex_);
  held_.clear();
}

void Parcel::Drop() {
  const std::lock_guard lock(mutex_);
  Clear();
}

Result<> Parcel::Find() {
  if (!lots_.empty()) return {};
  GPUMAN_ASSIGN(auto found, Stowage::Find(process_));
  for (auto& stowage : found) lots_.push_back({.stowage = std::move(stowage)});
  return {};
}

std::vector<Copy> Parcel::CopiesOf(Lot& lot, std::size_t piece) {
  if (lot.slices.empty()) lot.slices = SlicesOf(lot.stowage.layout());
  std::vector<Copy> copies;
  const auto [from, to] = std::ranges::equal_range(lot.slices, piece, {}, &Slice::piece);
  for (const Slice& slice : std::span(from, to))
    copies.push_back({lot.memory[piece].address() + slice.in_piece, lot.stowage.At(slice), slice.bytes});
  return copies;
}

// One piece, which sets out at once: its data do not change any more.
Result<> Parcel::Accept(Lot& lot, int file, std::uint64_t address, std::uint64_t bytes, Cutter& cutter,
                        std::vector<Piece>& pieces) {
  GPUMAN_ASSIGN(Memory memory, gpus_.Import(file, bytes));
  if (!lot.lane) {
    GPUMAN_ASSIGN(lot.lane, Lane::Open(gpus_, memory.gpu(), Direction::kOut));
    lot.begun = Clock::now();
  }
  std::vector<Slice> slices;
  if (!cutter.Cut(bytes, slices)) return Fail(ErrorCode::kInternal, "the process has more than it said");
  std::vector<Copy> copies;
  for (const Slice& slice : slices)
    copies.push_back({memory.address() + slice.in_piece, lot.stowage.At(slice), slice.bytes});
  lot.memory.push_back(std::move(memory));
  pieces.push_back({address, bytes});
  return lot.lane->Add(copies);
}

Result<> Parcel::Receive(int connection, const Telling& tell, Lot*& lot) {
  std::optional<Cutter> cutter;
  std::vector<Piece> pieces;
  for (bool last = false; !last;) {
    wire::Parts parts{};
    int numbers[wire::kMostParts];
    unsigned count = 0;
    const ssize_t got = wire::ReceiveWith(connection, &parts, sizeof parts, numbers, count, kPeerMs);
    std::vector<Fd> files;
    for (unsigned i = 0; i < count; ++i) files.emplace_back(numbers[i]);
    if (got != sizeof parts || parts.magic != wire::kPartsMagic || parts.count != count) return WentBack();
    last = parts.last != 0;
    if (!cutter) {
      if (parts.more == 0) {
        Clear();  // of a time before
      } else {
        GPUMAN_TRY(Find());
        // One lot is on its way at a time: by its piece alone a descriptor would not tell whose it is.
        if (const Answer before = SecureAll(tell); before.outcome != Outcome::kDone)
          return Fail(ErrorCode::kInternal, before.message);
      }
      GPUMAN_ASSIGN(auto segments, pool_.Take(SegmentSizes(parts.total)));
      std::vector<std::uint64_t> sizes;
      for (const Segment& segment : segments) sizes.push_back(segment.bytes());
      cutter.emplace(std::move(sizes));
      auto stowage = Stowage::Make(std::move(segments));
      if (!stowage) return Fail(stowage.error());
      lots_.push_back({.stowage = std::move(*stowage)});
      lot = &lots_.back();
    }
    for (unsigned i = 0; i < count; ++i) {
      GPUMAN_TRY(Accept(*lot, files[i].get(), parts.part[i].address, parts.part[i].bytes, *cutter, pieces));
      lot->files.push_back(std::move(files[i]));
    }
  }
  Layout layout{process_, {}, std::move(pieces), {}};
  if (!lot->memory.empty()) {
    GPUMAN_ASSIGN(layout.gpu, gpus_.UuidOf(lot->memory.front().gpu()));
  }
  return lot->stowage.Seal(std::move(layout));
}

// Host memory to the process, which then gives up the device's.
Result<> Parcel::HandOver(int connection, const Lot& lot) {
  std::vector<int> files{lot.stowage.page()};
  for (const Segment& segment : lot.stowage.segments()) files.push_back(segment.file());
  for (std::size_t from = 0; from < files.size(); from += wire::kMostParts) {
    const auto count = static_cast<unsigned>(std::min<std::size_t>(wire::kMostParts, files.size() - from));
    const wire::Reply reply{wire::kReplyMagic, count, from + count == files.size() ? 1u : 0u, 0};
    if (!wire::SendWith(connection, &reply, sizeof reply, &files[from], count, kPeerMs)) return WentBack();
  }
  return AwaitReceipt(connection, process_);
}

Answer Parcel::Take(Fd connection, bool whole, const Telling& tell) {
  const std::lock_guard lock(mutex_);
  Lot* lot = nullptr;
  Result<> taken = Receive(connection.get(), tell, lot);
  if (!taken) {
    Refuse(connection.get(), taken.error(), /*on_device=*/false);
  } else {
    for (std::size_t from = 0; from < lot->files.size(); from += wire::kMostParts) {
      std::vector<int> some;
      for (std::size_t i = from; i < lot->files.size() && i < from + wire::kMostParts; ++i)
        some.push_back(lot->files[i].get());
      tell.holding(some);
    }
    taken = HandOver(connection.get(), *lot);
  }
  if (!taken) {
    if (lot != nullptr) {
      lot->lane.reset();
      lot->memory.clear();
      pool_.Give(std::move(lot->stowage).Empty());
      lots_.pop_back();
    }
    return AnswerOf(taken.error());
  }
  const std::uint64_t bytes = BytesOf(lot->stowage.layout().pieces);
  tell.taken(bytes);
  if (!whole) return {.outcome = Outcome::kDone, .bytes = {bytes}};
  return SecureAll(tell);
}

// The rest of a lot, piece by piece.
Result<> Parcel::Secure(Lot& lot, const Telling& tell, Answer& answer) {
  if (lot.stowage.content() == Content::kComplete) return {};
  if (lot.begun == Clock::time_point{}) lot.begun = Clock::now();
  const auto& pieces = lot.stowage.layout().pieces;
  lot.memory.resize(pieces.size());
  lot.files.resize(pieces.size());
  std::vector<std::pair<std::size_t, Fd>> held;
  {
    const std::lock_guard lock(held_mutex_);
    held.swap(held_);
  }
  for (auto& [piece, file] : held) {
    if (piece >= pieces.size() || piece < lot.stowage.whole() || lot.memory[piece]) continue;
    GPUMAN_ASSIGN(lot.memory[piece], gpus_.Import(file.get(), pieces[piece].bytes));
    lot.files[piece] = std::move(file);
  }
  const std::size_t first = lot.stowage.whole();
  for (std::size_t i = first; i < pieces.size(); ++i) {
    if (lot.memory[i]) continue;
    return Fail(ErrorCode::kCorrupt,
                fmt::format("the data of process {} is lost: it was being copied when gpuman-mover ended",
                            process_.pid));
  }
  // What is on its way already was sent in the order of the pieces.
  std::size_t next = first + (lot.lane ? lot.lane->waiting() : 0);
  for (std::size_t i = first; i < pieces.size(); ++i) {
    if (!lot.lane) {
      GPUMAN_ASSIGN(lot.lane, Lane::Open(gpus_, lot.memory[i].gpu(), Direction::kOut));
    }
    for (; next < pieces.size(); ++next) GPUMAN_TRY(lot.lane->Add(CopiesOf(lot, next)));
    if (auto done = lot.lane->Await(); !done) {
      lot.lane.reset();  // who tries again begins with this piece
      return done;
    }
    lot.stowage.SetWhole(i + 1);
    lot.memory[i] = {};
    lot.files[i].Close();
    answer.bytes.count += pieces[i].bytes;
    tell.moved(pieces[i].bytes, i + 1);
  }
  lot.lane.reset();
  lot.memory.clear();
  lot.files.clear();
  lot.stowage.Become(Content::kComplete);
  answer.took = std::max(answer.took, std::chrono::duration_cast<base::Millis>(Clock::now() - lot.begun));
  return {};
}

void Parcel::Hold(std::size_t first, std::vector<Fd> files) {
  const std::lock_guard lock(held_mutex_);
  for (auto& file : files) held_.emplace_back(first++, std::move(file));
}

Answer Parcel::Secure(const Telling& tell) {
  const std::lock_guard lock(mutex_);
  Answer answer = SecureAll(tell);
  const Answer before = std::exchange(finished_, {});
  if (answer.outcome != Outcome::kDone) return answer;
  answer.bytes += before.bytes;
  answer.took = std::max(answer.took, before.took);
  return answer;
}

void Parcel::Finish() {
  const std::lock_guard lock(mutex_);
  finished_ = SecureAll({});
}

Answer Parcel::SecureAll(const Telling& tell) {
  Answer answer{.outcome = Outcome::kDone};
  if (auto found = Find(); !found) return AnswerOf(found.error());
  for (Lot& lot : lots_) {
    if (auto secured = Secure(lot, tell, answer); !secured) return AnswerOf(secured.error());
  }
  for (Lot& lot : lots_) lot.memory.clear();  // what was loaded again
  const std::lock_guard lock(held_mutex_);
  held_.clear();
  return answer;
}

}  // namespace gpuman::mover
