// The way back to the GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "mover/in_all_lanes.h"
#include "mover/process_memory.h"

namespace gpuman::mover {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;
using suspend::Answer;
using suspend::Outcome;
namespace wire = ledger::wire;

Result<> Send(int connection, const wire::Parts& parts, const int* files) {
  if (!wire::SendWith(connection, &parts, sizeof parts, files, parts.count, kPeerMs)) return WentBack();
  return {};
}

// `own`: the process makes memory of its own, for the mover to fill.
Result<> SendLast(int connection, bool own) {
  return Send(connection, {wire::kPartsMagic, 0, 1, own ? 1u : 0u, 0, {}}, nullptr);
}

// Memory of several GPUs comes back to where it was.
Result<> MayGoTo(std::span<Lane* const> lanes, const std::string& gpu) {
  if (gpu.empty() || lanes.size() == 1) return {};
  return Fail(ErrorCode::kInvalidArgument, "memory of several GPUs cannot come back to one of them");
}

}  // namespace

// If one lane fails, the others give up, and none of them stays loaded.
Answer ProcessMemory::LoadAll(std::span<Lane* const> lanes, const std::string& gpu, Credit& credit,
                              Progress& progress, const Lane::SendParts& send) {
  if (auto may = MayGoTo(lanes, gpu); !may) return AnswerOf(may.error());
  std::atomic<bool> failed{false};
  std::mutex sending;
  const Lane::SendParts send_one_by_one = [&](const wire::Parts& parts, const int* files) {
    const std::lock_guard lock(sending);
    return send(parts, files);
  };
  // Without `send` the lanes must not export their pieces: while copies run, that takes half as long as a
  // copy.
  const Lane::SendParts nothing;
  const auto answer = InAllLanes(lanes, [&](Lane& lane) -> std::optional<Answer> {
    Answer loaded = lane.Load(gpu, credit, progress, send ? send_one_by_one : nothing, failed);
    if (loaded.outcome != Outcome::kDone && lanes.size() > 1) {
      if (failed.exchange(true)) return std::nullopt;  // the first failure says why
      credit.CallOff();
    }
    return loaded;
  });
  if (failed)
    for (Lane* const lane : lanes) lane->Unload();
  return answer.value_or(Answer{.message = "nothing was loaded"});
}

Answer ProcessMemory::Load(const std::string& name, const std::string& gpu, Progress& progress) {
  if (!name.empty() && !gpu.empty() && suspend::LaneOf(name) != suspend::LaneOf(gpu))
    return {.message = "one lane alone cannot go to another GPU"};
  const auto step = LockLanes(name);
  Credit& credit = CreditOf(name);
  const Answer answer = step ? LoadAll(step->lanes, gpu, credit, progress, {}) : AnswerOf(step.error());
  credit.End();
  return answer;
}

Answer ProcessMemory::Give(Fd connection, const std::string& gpu, Progress& progress) {
  const auto step = LockLanes({});
  const int socket = connection.get();
  const auto goes_elsewhere = [&] {
    return step && std::ranges::any_of(step->lanes, [](const Lane* lane) { return lane->GoesElsewhere(); });
  };
  Answer answer{.outcome = Outcome::kDone};
  if (!step) {
    answer = AnswerOf(step.error());
  } else if (!goes_elsewhere()) {
    answer = LoadAll(step->lanes, gpu, credit_, progress,
                     [&](const wire::Parts& parts, const int* files) { return Send(socket, parts, files); });
  }
  credit_.End();
  if (answer.outcome != Outcome::kDone) {
    const bool room = answer.outcome == Outcome::kNoRoom;
    Refuse(socket, room ? wire::Trouble::kNoRoom : wire::Trouble::kNoMover);
    return answer;
  }
  if (auto sent = SendLast(socket, goes_elsewhere()); !sent) return AnswerOf(sent.error());
  auto receipt = AwaitReceipt(socket, means_.process);
  if (receipt && *receipt == Receipt::kOwn) {
    if (auto filled = FillOwn(step->lanes, socket, progress, answer); !filled) {
      Refuse(socket, wire::Trouble::kNoMover);
      return AnswerOf(filled.error());
    }
    receipt = AwaitReceipt(socket, means_.process);
  }
  if (!receipt) return AnswerOf(receipt.error());
  for (Lane* const lane : step->lanes) lane->Clear();
  return answer;
}

// Receives memory for all pieces that are away, each once, in the order in which it comes.
Result<ProcessMemory::OwnByLane> ProcessMemory::ReceiveOwn(std::span<Lane* const> lanes, int connection) {
  struct Away {
    Lane* lane = nullptr;
    Lane::PieceRef ref;
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, Away> away;
  for (Lane* const lane : lanes)
    lane->ForEachPiece([&](const Piece& piece, Lane::PieceRef ref) {
      away[piece.address] = {lane, ref, piece.bytes};
    });
  OwnByLane own;
  for (Lane* const lane : lanes) own.try_emplace(lane);
  for (bool last = false; !last;) {
    GPUMAN_ASSIGN(const PartsMessage message, ReceiveParts(connection));
    last = message.parts.last != 0;
    for (unsigned i = 0; i < message.parts.count; ++i) {
      const wire::Part& part = message.parts.part[i];
      const auto found = away.extract(part.address);
      if (!found || found.mapped().bytes != part.bytes)
        return Fail(ErrorCode::kInternal, "the process has other memory than it had");
      GPUMAN_ASSIGN(Memory memory, means_.gpus.Import(message.files[i].get(), part.bytes));
      own[found.mapped().lane].push_back({found.mapped().ref, std::move(memory)});
    }
  }
  if (!away.empty()) return Fail(ErrorCode::kInternal, "the process has less memory than it had");
  return own;
}

// The process makes the memory where it cannot import the mover's memory.
Result<> ProcessMemory::FillOwn(std::span<Lane* const> lanes, int connection, Progress& progress,
                                Answer& answer) {
  const auto ready =
      InAllLanes(lanes, [&](Lane& lane) { return std::optional<Answer>(lane.MakeReadyToPour(progress)); });
  if (ready->outcome != Outcome::kDone) return Fail(ErrorCode::kInternal, ready->message);
  GPUMAN_TRY(SayDone(connection));
  GPUMAN_ASSIGN(auto own, ReceiveOwn(lanes, connection));
  const auto begin = std::chrono::steady_clock::now();
  const auto poured = InAllLanes(lanes, [&](Lane& lane) -> std::optional<Answer> {
    const auto done = lane.Pour(own.at(&lane));
    return done ? Answer{.outcome = Outcome::kDone} : AnswerOf(done.error());
  });
  if (poured->outcome != Outcome::kDone) return Fail(ErrorCode::kInternal, poured->message);
  answer = {.outcome = Outcome::kDone, .straight = ready->straight};
  for (const auto& [lane, list] : own)
    for (const auto& one : list) answer.bytes.count += one.memory.bytes();
  answer.took = std::chrono::duration_cast<base::Millis>(std::chrono::steady_clock::now() - begin);
  own.clear();  // this memory belongs to the process
  return SayDone(connection);
}

}  // namespace gpuman::mover
