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

// Copies all of it, and says how much and how long.
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

Result<> Parcel::Find() {
  if (stowage_) return {};
  GPUMAN_ASSIGN(stowage_, Stowage::Find(process_));
  return {};
}

Answer Parcel::Secure(std::vector<Fd> holding) {
  const std::lock_guard lock(mutex_);
  return DoSecure(std::move(holding));
}

Answer Parcel::DoSecure(std::vector<Fd> holding) {
  if (auto found = Find(); !found) return AnswerOf(found.error());
  Answer answer{.outcome = Outcome::kDone};
  if (stowage_->content() != Content::kComplete) {
    const auto& pieces = stowage_->layout().pieces;
    if (memory_.empty() && holding.size() == pieces.size()) {
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        auto memory = gpus_.Import(holding[i].get(), pieces[i].bytes);
        if (!memory) {
          memory_.clear();
          return AnswerOf(memory.error());
        }
        memory_.push_back(std::move(*memory));
      }
      files_ = std::move(holding);
    }
    if (memory_.size() != pieces.size())
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

Answer Parcel::Load(const std::string& gpu) {
  const std::lock_guard lock(mutex_);
  return DoLoad(gpu);
}

Answer Parcel::DoLoad(const std::string& gpu) {
  if (auto found = Find(); !found) return AnswerOf(found.error());
  const std::string& wanted = gpu.empty() ? stowage_->layout().gpu : gpu;
  const auto target = gpus_.Find(wanted);
  if (!target) return AnswerOf(target.error());
  if (OnGpu() && memory_.front().gpu() == *target) return {.outcome = Outcome::kDone};
  if (auto secured = DoSecure({}); secured.outcome != Outcome::kDone) return secured;
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

Answer Parcel::Give(Fd connection) {
  const std::lock_guard lock(mutex_);
  Answer answer{.outcome = Outcome::kDone};
  if (!OnGpu()) answer = DoLoad({});
  if (answer.outcome != Outcome::kDone) {
    const bool room = answer.outcome == Outcome::kNoRoom;
    Refuse(connection.get(), room ? wire::Trouble::kNoRoom : wire::Trouble::kNoMover);
    return answer;
  }
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
          Refuse(connection.get(), wire::Trouble::kNoMover);
          return AnswerOf(file.error());
        }
        files.push_back(file->get());
        made.push_back(std::move(*file));
      }
      parts.part[parts.count++] = {pieces[i].address, pieces[i].bytes};
    }
    if (!wire::SendWith(connection.get(), &parts, sizeof parts, files.data(), parts.count, kPeerMs))
      return AnswerOf(WentBack().value());
  }
  auto receipt = AwaitReceipt(connection.get(), process_);
  if (receipt && *receipt == Receipt::kOwn) {
    if (auto filled = Fill(connection.get(), answer); !filled) {
      Refuse(connection.get(), wire::Trouble::kNoMover);
      return AnswerOf(filled.error());
    }
    receipt = AwaitReceipt(connection.get(), process_);
  }
  if (!receipt) return AnswerOf(receipt.error());
  Clear();
  return answer;
}

// The process makes the memory, where it cannot have ours.
Result<> Parcel::Fill(int connection, Answer& answer) {
  if (const auto secured = DoSecure({}); secured.outcome != Outcome::kDone)
    return Fail(ErrorCode::kInternal, secured.message);
  GPUMAN_TRY(SayDone(connection));
  GPUMAN_ASSIGN(Offer own, Receive(connection));
  if (own.pieces != stowage_->layout().pieces)
    return Fail(ErrorCode::kInternal, "the process has other memory than it had");
  memory_ = std::move(own.memory);
  answer.bytes = {};
  auto filled = Move(Direction::kIn, answer);
  memory_.clear();  // it is the process's
  if (filled) filled = SayDone(connection);
  return filled;
}

}  // namespace gpuman::mover
