// The way back.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "ledger/wire/transfer.h"
#include "mover/parcel.h"
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

constexpr std::size_t kFlying =
    8;  // pieces on their way: so many that the copy engine never waits for a call
constexpr std::uint64_t kBatch = std::uint64_t{256} << 20;  // worth a message
constexpr std::chrono::seconds kSilence{20};  // after which who waits is told that we wait for room

}  // namespace

void Parcel::Begin(std::optional<base::Bytes> room) {
  credit_.Begin(room ? std::optional(room->count) : std::nullopt);
}

// False: not now. Nothing is on its way where it may wait.
Result<bool> Parcel::GetRoom(std::uint64_t bytes, bool wait, const Telling& tell, const Deliver& deliver) {
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

// What the places still need, for spares to wait for it.
class Parcel::Needs {
 public:
  Needs(Spares& spares, int gpu, std::span<const Place> places) : spares_(spares), gpu_(gpu) {
    for (const auto& [lot, piece] : places) {
      if (lot->memory[piece]) continue;
      const std::uint64_t bytes = lot->stowage.layout().pieces[piece].bytes;
      ++open_[bytes];
      spares_.Expect(gpu, bytes);
    }
  }
  ~Needs() {
    for (const auto& [bytes, count] : open_)
      for (std::size_t i = 0; i < count; ++i) spares_.Forgo(gpu_, bytes);
  }
  Needs(const Needs&) = delete;
  Needs& operator=(const Needs&) = delete;

  std::optional<Spares::Spare> Take(std::uint64_t bytes) {
    --open_[bytes];
    return spares_.Take(gpu_, bytes);
  }

 private:
  Spares& spares_;
  int gpu_;
  std::map<std::uint64_t, std::size_t> open_;
};

Result<> Parcel::Begin(Lane& lane, int gpu, const Place& place, Needs& needs) {
  Lot& lot = *place.lot;
  const std::uint64_t bytes = lot.stowage.layout().pieces[place.piece].bytes;
  Memory& memory = lot.memory[place.piece];
  lot.files.resize(lot.memory.size());
  if (auto spare = needs.Take(bytes)) {
    memory = std::move(spare->memory);
    lot.files[place.piece] = std::move(spare->file);
  } else {
    auto made = gpus_.Create(gpu, bytes);
    const bool full = !made && made.error().code == ErrorCode::kExhausted;
    if (full && spares_.Empty()) made = gpus_.Create(gpu, bytes);  // they were of other sizes
    GPUMAN_ASSIGN(memory, std::move(made));
  }
  return lane.Add(CopiesOf(lot, place.piece, memory));
}

// Memory for each of the places that has none, and its data in it.
Result<> Parcel::Fill(std::vector<Place> places, int gpu, const Telling& tell, const Deliver& deliver,
                      Answer& answer) {
  GPUMAN_ASSIGN(Lane lane, Lane::Open(gpus_, gpu, Direction::kIn));
  const auto bytes_of = [](const Place& place) {
    return place.lot->stowage.layout().pieces[place.piece].bytes;
  };
  std::deque<std::pair<Place, bool>> flying;  // and whether it is being copied
  Needs needs(spares_, gpu, places);
  std::vector<Place> ready;
  std::uint64_t ready_bytes = 0;
  const auto flush = [&]() -> Result<> {
    if (ready.empty()) return {};
    GPUMAN_TRY(deliver(ready));
    ready.clear();
    ready_bytes = 0;
    return {};
  };
  for (std::size_t next = 0; next < places.size() || !flying.empty();) {
    while (next < places.size() && flying.size() < kFlying) {
      const Place& place = places[next];
      const bool there = static_cast<bool>(place.lot->memory[place.piece]);
      if (!there) {
        if (flying.empty()) GPUMAN_TRY(flush());
        GPUMAN_ASSIGN(const bool room, GetRoom(bytes_of(place), flying.empty(), tell, deliver));
        if (!room) break;
        GPUMAN_TRY(Begin(lane, gpu, place, needs));
      }
      flying.emplace_back(place, !there);
      ++next;
    }
    const auto [place, copied] = flying.front();
    flying.pop_front();
    if (copied) {
      GPUMAN_TRY(lane.Await());
      answer.bytes.count += bytes_of(place);
      tell.moved(bytes_of(place), 0);
    }
    ready.push_back(place);
    ready_bytes += bytes_of(place);
    if (ready.size() == wire::kMostParts || ready_bytes >= kBatch) GPUMAN_TRY(flush());
  }
  return flush();
}

// For who holds the mutex. Where it fails, nothing is on a GPU that is whole in host memory.
Answer Parcel::LoadAll(const std::string& wanted, const Telling& tell, const Deliver& deliver) {
  const auto begin = std::chrono::steady_clock::now();
  if (auto found = Find(); !found) return AnswerOf(found.error());
  const std::string& home = lots_.front().stowage.layout().gpu;
  if (const auto gpu = NumberOf(wanted); gpu && wanted != home) return MakeReadyFor(*gpu, tell);
  elsewhere_.reset();
  // Without a wish: where it is loaded already, else where it was.
  auto target = gpus_.Find(wanted.empty() ? home : wanted);
  for (Lot& lot : lots_) {
    if (auto regained = Regain(lot); !regained) return AnswerOf(regained.error());
    for (const Memory& one : lot.memory)
      if (wanted.empty() && one) target = one.gpu();
  }
  if (!target) return AnswerOf(target.error());
  const auto elsewhere = [&](const Lot& lot) {
    return std::ranges::any_of(lot.memory, [&](const Memory& one) { return one && one.gpu() != *target; });
  };
  // What no mover could finish so far is finished first, unless it may stay where it is.
  const auto stays = [](const Lot& lot) {
    std::size_t i = lot.stowage.whole();
    while (i < lot.memory.size() && lot.memory[i]) ++i;
    return i == lot.stowage.layout().pieces.size();
  };
  if (std::ranges::any_of(lots_, elsewhere) || !std::ranges::all_of(lots_, stays)) {
    if (auto secured = SecureAll(tell); secured.outcome != Outcome::kDone) return secured;
  }
  std::vector<Place> places;
  for (Lot& lot : lots_) {
    lot.lane.reset();
    lot.memory.resize(lot.stowage.layout().pieces.size());
    for (std::size_t i = 0; i < lot.memory.size(); ++i) places.push_back({&lot, i});
  }
  Answer answer{.outcome = Outcome::kDone};
  const auto filled = Fill(std::move(places), *target, tell, deliver, answer);
  if (!filled) {
    for (Lot& lot : lots_) {
      for (std::size_t i = 0; i < std::min(lot.memory.size(), lot.stowage.whole()); ++i) {
        lot.memory[i] = {};
        if (i < lot.files.size()) lot.files[i].Close();
      }
    }
    return AnswerOf(filled.error());
  }
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  return answer;
}

// The process makes its own memory there, and asks for it to be filled.
Answer Parcel::MakeReadyFor(int gpu, const Telling& tell) {
  elsewhere_ = gpu;
  const Answer secured = SecureAll(tell, gpu);
  if (secured.outcome != Outcome::kDone || secured.straight) return secured;
  if (auto ready = gpus_.Use(gpu); !ready) return AnswerOf(ready.error());
  return {.outcome = Outcome::kDone};
}

Answer Parcel::Load(const std::string& gpu, const Telling& tell) {
  const std::lock_guard lock(mutex_);
  const Answer answer = LoadAll(gpu, tell, [](std::span<const Place>) { return Result<>(); });
  credit_.End();
  return answer;
}

// Pieces by their descriptors; none: we are still here.
Result<> Parcel::Send(int connection, std::span<const Place> places, bool last) {
  wire::Parts parts{wire::kPartsMagic, 0, last ? 1u : 0u, 0, 0, {}};
  std::vector<Fd> made;
  int files[wire::kMostParts];
  for (const auto& [lot, i] : places) {
    // What it came by serves again; what was made here is passed on.
    if (i < lot->files.size() && lot->files[i].ok()) {
      files[parts.count] = lot->files[i].get();
    } else {
      GPUMAN_ASSIGN(Fd file, gpus_.Export(lot->memory[i]));
      files[parts.count] = file.get();
      made.push_back(std::move(file));
    }
    const Piece& piece = lot->stowage.layout().pieces[i];
    parts.part[parts.count++] = {piece.address, piece.bytes};
  }
  if (!wire::SendWith(connection, &parts, sizeof parts, files, parts.count, kPeerMs)) return WentBack();
  return {};
}

Result<> Parcel::AskForOwn(int connection) {
  const wire::Parts parts{wire::kPartsMagic, 0, 1, 1, 0, {}};
  if (!wire::SendWith(connection, &parts, sizeof parts, nullptr, 0, kPeerMs)) return WentBack();
  return {};
}

Answer Parcel::Give(Fd connection, const std::string& gpu, const Telling& tell) {
  const std::lock_guard lock(mutex_);
  Answer answer{.outcome = Outcome::kDone};
  if (!elsewhere_)
    answer = LoadAll(gpu, tell, [&](std::span<const Place> places) {
      return Send(connection.get(), places, /*last=*/false);
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

// Memory for all pieces that are away, each once, in the order that it comes in.
Result<> Parcel::ReceiveOwn(int connection, std::vector<Own>& own) {
  std::map<std::uint64_t, Place> away;
  for (Lot& lot : lots_) {
    const auto& pieces = lot.stowage.layout().pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) away[pieces[i].address] = {&lot, i};
  }
  for (bool last = false; !last;) {
    wire::Parts parts{};
    int numbers[wire::kMostParts];
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
          found ? found.mapped().lot->stowage.layout().pieces[found.mapped().piece].bytes : std::uint64_t{0};
      if (bytes != parts.part[i].bytes)
        return Fail(ErrorCode::kInternal, "the process has other memory than it had");
      GPUMAN_ASSIGN(Memory memory, gpus_.Import(files[i].get(), bytes));
      own.push_back({found.mapped(), std::move(memory)});
    }
  }
  if (!away.empty()) return Fail(ErrorCode::kInternal, "the process has less memory than it had");
  return {};
}

// From the GPU that it stayed on, or from host memory.
Result<> Parcel::Pour(const std::vector<Own>& own) {
  if (own.empty()) return {};
  GPUMAN_ASSIGN(Lane lane, Lane::Open(gpus_, own.front().memory.gpu(), Direction::kIn));
  for (const auto& [place, memory] : own) {
    Lot& lot = *place.lot;
    if (lot.stowage.content() == Content::kComplete)
      GPUMAN_TRY(lane.Add(CopiesOf(lot, place.piece, memory)));
    else
      GPUMAN_TRY(lane.AddAcross(memory, lot.memory[place.piece]));
  }
  while (lane.waiting() != 0) GPUMAN_TRY(lane.Await());
  return {};
}

// The process makes the memory, where it cannot have ours.
Result<> Parcel::FillOwn(int connection, const Telling& tell, Answer& answer) {
  const Answer secured = SecureAll(tell, elsewhere_);
  if (secured.outcome != Outcome::kDone) return Fail(ErrorCode::kInternal, secured.message);
  GPUMAN_TRY(SayDone(connection));
  std::vector<Own> own;
  GPUMAN_TRY(ReceiveOwn(connection, own));
  const auto begin = std::chrono::steady_clock::now();
  GPUMAN_TRY(Pour(own));
  answer = {.outcome = Outcome::kDone, .straight = secured.straight};
  for (const auto& [place, memory] : own) answer.bytes.count += memory.bytes();
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  own.clear();  // it is the process's
  return SayDone(connection);
}

}  // namespace gpuman::mover
