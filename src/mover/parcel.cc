#include "mover/parcel.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "ledger/wire/orders.h"
#include "ledger/wire/transfer.h"
#include "mover/peer.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::Answer;
using suspend::Outcome;
namespace wire = ledger::wire;

Answer AnswerOf(const base::Error& error) {
  const bool no_room = error.code == ErrorCode::kExhausted;
  return {.outcome = no_room ? Outcome::kNoRoom : Outcome::kFailed, .message = error.message};
}

}  // namespace

bool Parcel::Holds() {
  const std::lock_guard lock(mutex_);
  return stowage_.has_value();
}

void Parcel::Clear() {
  memory_.clear();
  files_.clear();
  if (stowage_) pool_.Give(std::move(*stowage_).Empty());
  stowage_.reset();
  elsewhere_.reset();
  read_by_.reset();
  copied_out_ = {.outcome = Outcome::kDone};
}

void Parcel::Drop() {
  const std::lock_guard lock(mutex_);
  Clear();
}

// What a process hands out: until it has given it up, beside what is here of it.
struct Parcel::Offer {
  std::vector<Piece> pieces;
  std::vector<Memory> memory;
  std::vector<Fd> files;
  std::optional<Stowage> stowage;
};

Result<Parcel::Offer> Parcel::Receive(int connection) {
  Offer offer;
  for (;;) {
    wire::Parts parts{};
    int files[wire::kMostParts];
    unsigned count = 0;
    const ssize_t got = wire::ReceiveWith(connection, &parts, sizeof parts, files, count, kPeerMs);
    std::vector<Fd> taken;
    for (unsigned i = 0; i < count; ++i) taken.emplace_back(files[i]);
    if (got != sizeof parts || parts.magic != wire::kPartsMagic || parts.count != count) return WentBack();
    for (unsigned i = 0; i < count; ++i) {
      GPUMAN_ASSIGN(Memory memory, gpus_.Import(taken[i].get(), parts.part[i].bytes));
      offer.memory.push_back(std::move(memory));
      offer.files.push_back(std::move(taken[i]));
      offer.pieces.push_back({parts.part[i].address, parts.part[i].bytes});
    }
    if (parts.last != 0) return offer;
  }
}

// Host memory for it.
Result<> Parcel::Stow(Offer& offer) {
  Layout layout{process_, {}, std::move(offer.pieces), {}};
  if (!offer.memory.empty()) {
    GPUMAN_ASSIGN(layout.gpu, gpus_.UuidOf(offer.memory.front().gpu()));
  }
  GPUMAN_ASSIGN(auto segments, pool_.Take(SegmentSizes(BytesOf(layout.pieces))));
  GPUMAN_ASSIGN(offer.stowage, Stowage::Make(std::move(layout), std::move(segments)));
  return {};
}

// Host memory to the process, which then gives up the device's.
Result<> Parcel::HandOver(int connection, const Stowage& stowage) {
  std::vector<int> files{stowage.page()};
  for (const Segment& segment : stowage.segments()) files.push_back(segment.file());
  for (std::size_t from = 0; from < files.size(); from += wire::kMostParts) {
    const auto count = static_cast<unsigned>(std::min<std::size_t>(wire::kMostParts, files.size() - from));
    const wire::Reply reply{wire::kReplyMagic, count, from + count == files.size() ? 1u : 0u, 0};
    if (!wire::SendWith(connection, &reply, sizeof reply, &files[from], count, kPeerMs)) return WentBack();
  }
  GPUMAN_TRY(AwaitReceipt(connection, process_));
  return {};
}

// An offer that the process went back on may come to its turn after the one that it then made.
Answer Parcel::Take(Fd connection, const std::function<void(std::span<const int>)>& holding) {
  const std::lock_guard lock(mutex_);
  auto offer = Receive(connection.get());
  Result<> taken = offer ? Stow(*offer) : Fail(offer.error());
  if (!taken) {
    const bool host = offer && taken.error().code == ErrorCode::kExhausted;
    Refuse(connection.get(), host ? wire::Trouble::kHostMemory : wire::Trouble::kNoMover);
    return AnswerOf(taken.error());
  }
  for (std::size_t from = 0; from < offer->files.size(); from += wire::kMostParts) {
    std::vector<int> some;
    for (std::size_t i = from; i < offer->files.size() && i < from + wire::kMostParts; ++i)
      some.push_back(offer->files[i].get());
    holding(some);
  }
  taken = HandOver(connection.get(), *offer->stowage);
  if (!taken) {
    offer->memory.clear();
    pool_.Give(std::move(*offer->stowage).Empty());
    return AnswerOf(taken.error());
  }
  Clear();  // of a time before
  memory_ = std::move(offer->memory);
  files_ = std::move(offer->files);
  stowage_ = std::move(offer->stowage);
  return {.outcome = Outcome::kDone, .bytes = {BytesOf(stowage_->layout().pieces)}};
}

// Each of these two copies all of it, and says how much and how long.
Result<> Parcel::Move(Direction direction, Answer& answer) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Copy> copies;
  for (const Slice& slice : SlicesOf(stowage_->layout())) {
    copies.push_back({memory_[slice.piece].address() + slice.in_piece, stowage_->At(slice), slice.bytes});
    answer.bytes.count += slice.bytes;
  }
  if (!memory_.empty()) GPUMAN_TRY(gpus_.CopyAll(memory_.front().gpu(), copies, direction));
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  return {};
}

Result<> Parcel::MoveAcross(const std::vector<Memory>& to, Answer& answer) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<CopyAcross> copies;
  for (std::size_t i = 0; i < memory_.size(); ++i) copies.push_back({&memory_[i], &to[i]});
  if (!to.empty()) GPUMAN_TRY(gpus_.CopyAll(to.front().gpu(), copies));
  answer.bytes = {BytesOf(stowage_->layout().pieces)};
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  return {};
}

// With all that a mover that died had of it.
Result<> Parcel::Find() {
  if (!stowage_) {
    GPUMAN_ASSIGN(stowage_, Stowage::Find(process_));
  }
  const auto& pieces = stowage_->layout().pieces;
  if (OnGpu()) return {};
  if (stowage_->content() == Content::kComplete) files_.clear();
  if (files_.size() != pieces.size()) return {};
  std::vector<Memory> memory;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    GPUMAN_ASSIGN(Memory one, gpus_.Import(files_[i].get(), pieces[i].bytes));
    memory.push_back(std::move(one));
  }
  memory_ = std::move(memory);
  return {};
}

void Parcel::Hold(std::vector<Fd> holding) {
  const std::lock_guard lock(mutex_);
  if (!stowage_) files_ = std::move(holding);
}

// What it is on is not where it goes, and can be read from there.
bool Parcel::GoesStraight(int target) {
  if (!OnGpu() || stowage_->content() == Content::kComplete) return false;
  if (read_by_ == target) return true;
  if (memory_.front().gpu() == target || !gpus_.Reaches(target, memory_.front().gpu())) return false;
  for (const Memory& one : memory_)
    if (!gpus_.LetRead(one, target)) return false;
  read_by_ = target;
  return true;
}

Answer Parcel::Stays() const {
  return {.outcome = Outcome::kDone, .bytes = {BytesOf(stowage_->layout().pieces)}, .straight = true};
}

Answer Parcel::Secure(const std::string& target) {
  const std::lock_guard lock(mutex_);
  if (auto found = Find(); !found) return AnswerOf(found.error());
  if (!target.empty()) {
    if (const auto gpu = gpus_.Find(target); gpu && GoesStraight(*gpu)) return Stays();
  }
  return DoSecure();
}

Answer Parcel::DoSecure() {
  if (auto found = Find(); !found) return AnswerOf(found.error());
  Answer answer{.outcome = Outcome::kDone};
  if (stowage_->content() != Content::kComplete) {
    if (memory_.size() != stowage_->layout().pieces.size())
      return {
          .outcome = Outcome::kFailed,
          .message = fmt::format(
              "the data of process {} is lost: it was being copied when gpuman-mover ended", process_.pid)};
    if (auto moved = Move(Direction::kOut, answer); !moved) return AnswerOf(moved.error());
    stowage_->Become(Content::kComplete);
    copied_out_ = answer;
  }
  memory_.clear();
  files_.clear();
  return copied_out_;  // also where it was copied before somebody asked
}

Answer Parcel::Load(const std::string& gpu, const std::function<void()>& safe) {
  const std::lock_guard lock(mutex_);
  return DoLoad(gpu, safe);
}

Answer Parcel::DoLoad(const std::string& gpu, const std::function<void()>& safe) {
  if (auto found = Find(); !found) return AnswerOf(found.error());
  const std::string& home = stowage_->layout().gpu;
  const auto target = gpus_.Find(gpu.empty() ? home : gpu);
  if (!target) return AnswerOf(target.error());
  if (!gpu.empty() && gpu != home) {
    // The process makes its own there, and asks for it to be filled.
    elsewhere_ = *target;
    if (GoesStraight(*target)) return Stays();
    if (auto secured = DoSecure(); secured.outcome != Outcome::kDone) return secured;
    safe();
    if (auto ready = gpus_.Use(*target); !ready) return AnswerOf(ready.error());
    return {.outcome = Outcome::kDone};
  }
  elsewhere_.reset();
  if (OnGpu() && memory_.front().gpu() == *target) return {.outcome = Outcome::kDone};
  if (auto secured = DoSecure(); secured.outcome != Outcome::kDone) return secured;
  safe();
  for (const Piece& piece : stowage_->layout().pieces) {
    auto memory = gpus_.Create(*target, piece.bytes);
    if (!memory) {
      memory_.clear();
      return AnswerOf(memory.error());
    }
    memory_.push_back(std::move(*memory));
  }
  Answer answer{.outcome = Outcome::kDone};
  if (auto moved = Move(Direction::kIn, answer); !moved) {
    memory_.clear();
    return AnswerOf(moved.error());
  }
  return answer;
}

Answer Parcel::Give(Fd connection, const std::string& gpu, const std::function<void()>& safe) {
  const std::lock_guard lock(mutex_);
  Answer answer{.outcome = Outcome::kDone};
  if (!elsewhere_) answer = DoLoad(gpu, safe);
  if (answer.outcome != Outcome::kDone) {
    const bool room = answer.outcome == Outcome::kNoRoom;
    Refuse(connection.get(), room ? wire::Trouble::kNoRoom : wire::Trouble::kNoMover);
    return answer;
  }
  const auto lent = elsewhere_ ? AskForOwn(connection.get()) : Lend(connection.get());
  if (!lent) return AnswerOf(lent.error());
  auto receipt = AwaitReceipt(connection.get(), process_);
  if (receipt && *receipt == Receipt::kOwn) {
    if (auto filled = Fill(connection.get(), answer, safe); !filled) {
      Refuse(connection.get(), wire::Trouble::kNoMover);
      return AnswerOf(filled.error());
    }
    receipt = AwaitReceipt(connection.get(), process_);
  }
  if (!receipt) return AnswerOf(receipt.error());
  Clear();
  return answer;
}

Result<> Parcel::AskForOwn(int connection) {
  const wire::Parts parts{wire::kPartsMagic, 0, 1, 1, {}};
  if (!wire::SendWith(connection, &parts, sizeof parts, nullptr, 0, kPeerMs)) return WentBack();
  return {};
}

// The memory that its data are in.
Result<> Parcel::Lend(int connection) {
  const auto& pieces = stowage_->layout().pieces;
  for (std::size_t from = 0; from < pieces.size() || from == 0; from += wire::kMostParts) {
    wire::Parts parts{wire::kPartsMagic, 0, from + wire::kMostParts >= pieces.size() ? 1u : 0u, 0, {}};
    std::vector<Fd> made;
    std::vector<int> files;
    for (std::size_t i = from; i < pieces.size() && i < from + wire::kMostParts; ++i) {
      // What it came by serves again; what was made here is passed on.
      if (i < files_.size()) {
        files.push_back(files_[i].get());
      } else {
        auto file = gpus_.Export(memory_[i]);
        if (!file) {
          Refuse(connection, wire::Trouble::kNoMover);
          return Fail(file.error());
        }
        files.push_back(file->get());
        made.push_back(std::move(*file));
      }
      parts.part[parts.count++] = {pieces[i].address, pieces[i].bytes};
    }
    if (!wire::SendWith(connection, &parts, sizeof parts, files.data(), parts.count, kPeerMs))
      return WentBack();
  }
  return {};
}

// The process makes the memory, where it cannot have ours.
Result<> Parcel::Fill(int connection, Answer& answer, const std::function<void()>& safe) {
  const bool straight = elsewhere_ && GoesStraight(*elsewhere_);
  if (!straight) {
    if (const auto secured = DoSecure(); secured.outcome != Outcome::kDone)
      return Fail(ErrorCode::kInternal, secured.message);
    safe();
  }
  GPUMAN_TRY(SayDone(connection));
  GPUMAN_ASSIGN(Offer own, Receive(connection));
  if (own.pieces != stowage_->layout().pieces)
    return Fail(ErrorCode::kInternal, "the process has other memory than it had");
  answer = {.outcome = Outcome::kDone, .straight = straight};
  if (straight) {
    GPUMAN_TRY(MoveAcross(own.memory, answer));
  } else {
    memory_ = std::move(own.memory);
    const auto filled = Move(Direction::kIn, answer);
    memory_.clear();  // it is the process's
    GPUMAN_TRY(filled);
  }
  return SayDone(connection);
}

}  // namespace gpuman::mover
