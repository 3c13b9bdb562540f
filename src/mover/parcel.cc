// The way out.
#include "mover/parcel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "mover/peer.h"

namespace gpuman::mover {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::Answer;
using suspend::Outcome;
namespace wire = ledger::wire;

namespace {

using Clock = std::chrono::steady_clock;

// Pieces that set out together: 16 GiB as a rule, which are imported within some milliseconds.
constexpr std::size_t kTogether = 64;

}  // namespace

Answer AnswerOf(const base::Error& error) {
  const bool no_room = error.code == ErrorCode::kExhausted;
  return {.outcome = no_room ? Outcome::kNoRoom : Outcome::kFailed, .message = error.message};
}

void Parcel::Clear() {
  for (Lot& lot : lots_) Discard(lot);
  lots_.clear();
  elsewhere_.reset();
  const std::lock_guard lock(held_mutex_);
  held_.clear();
}

void Parcel::Discard(Lot& lot) {
  lot.lane.reset();
  lot.memory.clear();
  lot.files.clear();
  pool_.Give(std::move(lot.stowage).Empty());
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

// What another mover had taken and not copied out.
Result<> Parcel::Regain(Lot& lot) {
  if (lot.stowage.content() == Content::kComplete) return {};
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
  return {};
}

std::optional<int> Parcel::NumberOf(const std::string& gpu) const {
  if (gpu.empty()) return std::nullopt;
  const auto found = gpus_.Find(gpu);
  return found ? std::optional(*found) : std::nullopt;
}

// All of it is on a GPU that is not where it goes, and can be read from there.
bool Parcel::GoesStraight(Lot& lot, std::optional<int> target) {
  if (!target || lot.lane || lot.stowage.content() == Content::kComplete || lot.stowage.whole() != 0)
    return false;
  if (!Regain(lot)) return false;
  if (lot.read_by == target) return true;
  for (const Memory& one : lot.memory) {
    if (!one || one.gpu() == *target || !gpus_.Reaches(*target, one.gpu()) || !gpus_.LetRead(one, *target))
      return false;
  }
  lot.read_by = target;
  return true;
}

std::vector<Copy> Parcel::CopiesOf(Lot& lot, std::size_t piece, const Memory& memory) {
  if (lot.slices.empty()) lot.slices = SlicesOf(lot.stowage.layout());
  std::vector<Copy> copies;
  // They lie by piece. std::ranges::equal_range is not there for Clang 14 with the library of GCC 12.
  auto slice = std::lower_bound(lot.slices.begin(), lot.slices.end(), piece,
                                [](const Slice& each, std::size_t sought) { return each.piece < sought; });
  for (; slice != lot.slices.end() && slice->piece == piece; ++slice)
    copies.push_back({memory.address() + slice->in_piece, lot.stowage.At(*slice), slice->bytes});
  return copies;
}

// One piece. Importing takes ten times as long while copies run, so none set out yet.
Result<> Parcel::Accept(Offer& offer, Fd file, const wire::Part& part, Cutter& cutter) {
  Lot& lot = *offer.lot;
  GPUMAN_ASSIGN(Memory memory, gpus_.Import(file.get(), part.bytes));
  std::vector<Slice> slices;
  if (!cutter.Cut(part.bytes, slices)) return Fail(ErrorCode::kInternal, "the process has more than it said");
  std::vector<Copy>& copies = offer.waiting.emplace_back();
  for (const Slice& slice : slices)
    copies.push_back({memory.address() + slice.in_piece, lot.stowage.At(slice), slice.bytes});
  lot.memory.push_back(std::move(memory));
  lot.files.push_back(std::move(file));
  return {};
}

// Their data do not change any more.
Result<> Parcel::SetOut(Offer& offer) {
  Lot& lot = *offer.lot;
  if (offer.waiting.empty()) return {};
  if (!lot.lane) {
    GPUMAN_ASSIGN(lot.lane, Lane::Open(gpus_, lot.memory.front().gpu(), Direction::kOut));
    lot.begun = Clock::now();
  }
  for (const auto& copies : offer.waiting) GPUMAN_TRY(lot.lane->Add(copies));
  offer.waiting.clear();
  return {};
}

// Where it is, for the target to read.
bool Parcel::MayStay(const Lot& lot, std::optional<int> target) const {
  return target && !lot.lane && std::ranges::all_of(lot.memory, [&](const Memory& one) {
           return gpus_.Reaches(*target, one.gpu());
         });
}

// What a process says that it has decides how much host memory is made for it.
Result<> Parcel::MayHave(std::uint64_t bytes) const {
  GPUMAN_ASSIGN(const std::uint64_t all, gpus_.TotalMemory());
  const std::uint64_t most = 2 * all;  // what is away, and what takes its place meanwhile
  std::uint64_t away = 0;
  for (const Lot& lot : lots_) away += std::min(BytesOf(lot.stowage.layout().pieces), most - away);
  if (bytes <= most - away) return {};
  return Fail(ErrorCode::kInternal,
              fmt::format("process {} says that it has {} bytes, more than the GPUs", process_.pid, bytes));
}

Result<> Parcel::Receive(int connection, std::optional<int> target, const Telling& tell, Offer& offer) {
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
    if (count == 0 && !last) return WentBack();  // or it would never end
    if (!cutter) {
      GPUMAN_TRY(MayHave(parts.total));
      offer.more = parts.more != 0;
      if (offer.more) {
        GPUMAN_TRY(Find());
        // One lot is on its way at a time: by its piece alone a descriptor would not tell whose it is.
        if (const Answer before = SecureAll(tell); before.outcome != Outcome::kDone)
          return Fail(ErrorCode::kInternal, before.message);
      }
      GPUMAN_ASSIGN(auto segments, pool_.Take(SegmentSizes(parts.total)));
      std::vector<std::uint64_t> sizes;
      for (const Segment& segment : segments) sizes.push_back(segment.bytes());
      cutter.emplace(std::move(sizes));
      GPUMAN_ASSIGN(auto stowage, Stowage::Make(std::move(segments)));
      offer.lot.emplace(Lot{.stowage = std::move(stowage)});
    }
    for (unsigned i = 0; i < count; ++i) {
      GPUMAN_TRY(Accept(offer, std::move(files[i]), parts.part[i], *cutter));
      pieces.push_back({parts.part[i].address, parts.part[i].bytes});
    }
    if ((last || offer.waiting.size() >= kTogether) && !MayStay(*offer.lot, target))
      GPUMAN_TRY(SetOut(offer));
  }
  Layout layout{process_, {}, std::move(pieces), {}};
  if (!offer.lot->memory.empty()) {
    GPUMAN_ASSIGN(layout.gpu, gpus_.UuidOf(offer.lot->memory.front().gpu()));
  }
  return offer.lot->stowage.Seal(std::move(layout));
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
  GPUMAN_TRY(AwaitReceipt(connection, process_));
  return {};
}

// An offer that the process went back on may come to its turn after the one that it then made.
Answer Parcel::Take(Fd connection, bool whole, const std::string& target, const Telling& tell) {
  const std::lock_guard lock(mutex_);
  Offer offer;
  Result<> taken = Receive(connection.get(), NumberOf(target), tell, offer);
  if (!taken) {
    const bool host = taken.error().code == ErrorCode::kExhausted;
    Refuse(connection.get(), host ? wire::Trouble::kHostMemory : wire::Trouble::kNoMover);
  } else {
    const auto& files = offer.lot->files;
    for (std::size_t from = 0; from < files.size(); from += wire::kMostParts) {
      std::vector<int> some;
      for (std::size_t i = from; i < files.size() && i < from + wire::kMostParts; ++i)
        some.push_back(files[i].get());
      tell.holding(some);
    }
    taken = HandOver(connection.get(), *offer.lot);
  }
  if (!taken) {
    if (offer.lot) Discard(*offer.lot);
    return AnswerOf(taken.error());
  }
  if (!offer.more) Clear();  // of a time before
  const std::uint64_t bytes = BytesOf(offer.lot->stowage.layout().pieces);
  lots_.push_back(std::move(*offer.lot));
  tell.taken(bytes);
  if (!whole) return {.outcome = Outcome::kDone, .bytes = {bytes}};
  return SecureAll(tell);
}

// The rest of a lot, piece by piece.
Result<> Parcel::Secure(Lot& lot, const Telling& tell, Answer& answer) {
  if (lot.stowage.content() == Content::kComplete) return {};
  if (lot.begun == Clock::time_point{}) lot.begun = Clock::now();
  const auto& pieces = lot.stowage.layout().pieces;
  GPUMAN_TRY(Regain(lot));
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
    for (; next < pieces.size(); ++next) GPUMAN_TRY(lot.lane->Add(CopiesOf(lot, next, lot.memory[next])));
    if (auto done = lot.lane->Await(); !done) {
      lot.lane.reset();  // who tries again begins with this piece
      return done;
    }
    lot.stowage.SetWhole(i + 1);
    spares_.Leave(std::move(lot.memory[i]), std::move(lot.files[i]));
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

Answer Parcel::Secure(const std::string& target, const Telling& tell) {
  const std::lock_guard lock(mutex_);
  Answer answer = SecureAll(tell, NumberOf(target));
  const Answer before = std::exchange(finished_, {});
  if (answer.outcome != Outcome::kDone || answer.straight) return answer;
  answer.bytes += before.bytes;
  answer.took = std::max(answer.took, before.took);
  return answer;
}

void Parcel::Finish(const std::string& target) {
  const std::lock_guard lock(mutex_);
  if (!lots_.empty()) finished_ = SecureAll({}, NumberOf(target));
}

// But for what may stay where `target` reads it: that many bytes the answer has then.
Answer Parcel::SecureAll(const Telling& tell, std::optional<int> target) {
  Answer answer{.outcome = Outcome::kDone};
  if (auto found = Find(); !found) return AnswerOf(found.error());
  std::uint64_t staying = 0;
  for (Lot& lot : lots_) {
    if (GoesStraight(lot, target)) {
      staying += BytesOf(lot.stowage.layout().pieces);
      continue;
    }
    if (auto secured = Secure(lot, tell, answer); !secured) return AnswerOf(secured.error());
    lot.memory.clear();  // what was loaded again
    lot.files.clear();
  }
  if (staying != 0) return {.outcome = Outcome::kDone, .bytes = {staying}, .straight = true};
  tell.safe();
  const std::lock_guard lock(held_mutex_);
  held_.clear();
  return answer;
}

}  // namespace gpuman::mover
