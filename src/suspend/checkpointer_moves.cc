// Requests that move memory, any number at a time.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <span>
#include <utility>

#include "ledger/wire/transfer.h"
#include "suspend/checkpointer.h"

namespace gpuman::suspend {

namespace asio = boost::asio;

void Checkpointer::SetLimit(Transfer& transfer, std::uint64_t id) {
  transfer.limit->expires_after(options_.start_limit + options_.request_limit);
  transfer.limit->async_wait(self_.Bind([id](Checkpointer& me, const boost::system::error_code& error) {
    if (error || !me.transfers_.contains(id)) return;
    const MoverUser whose = me.transfers_.at(id).user;
    me.OnGone(whose, {base::ErrorCode::kTimeout, "gpuman-mover did not answer in time"});
  }));
}

void Checkpointer::Move(const MoverUser& user, MoverRequest request, base::UntrustedSocket connection,
                        Done done, Progress progress) {
  request.id = next_id_++;
  const std::uint64_t id = request.id;
  // A process may connect as often as it likes, and its connections wait here until its mover is ready.
  if (connection.ok() && !HasRoomFor(user, request.process)) {
    connection.Close();
    return Soon([id, done = std::move(done)](Checkpointer&) {
      if (done)
        done({.id = id, .message = "too many transfers of the process, or of its user, are under way"});
    });
  }
  Transfer transfer;
  transfer.user = user;
  transfer.request = std::move(request);
  transfer.connection = std::move(connection);
  transfer.done = std::move(done);
  transfer.progress = std::move(progress);
  transfer.limit = std::make_unique<asio::steady_timer>(loop_);
  SetLimit(transfers_.emplace(id, std::move(transfer)).first->second, id);
  asio::post(loop_, self_.Bind([user](Checkpointer& me) {
    Mover& mover = me.MoverOf(user);
    mover.idle->cancel();
    if (mover.ready) me.SendTransfers(user);
  }));
}

bool Checkpointer::HasRoomFor(const MoverUser& user, const base::ProcessId& process) const {
  std::size_t of_process = 0, of_party = 0;
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.request.verb != Verb::kTake && transfer.request.verb != Verb::kGive) continue;
    of_process += transfer.request.process == process ? 1U : 0U;
    of_party += PartyOf(transfer.user) == PartyOf(user) ? 1U : 0U;
  }
  return of_process < options_.most_of_process && of_party < options_.most_transfers;
}

std::size_t Checkpointer::HeldBy(const MoverLimitGroup& party) const {
  std::size_t count = 0;
  for (const auto& [key, held] : held_)
    if (PartyOf(held.user) == party) count += held.files.size();
  return count;
}

void Checkpointer::Grant(const MoverUser& user, base::ProcessId process, const std::string& source,
                         base::Bytes bytes) {
  // If the transfer is not sent yet, the room goes with its request.
  for (auto& [id, transfer] : transfers_) {
    if (transfer.sent || transfer.request.process != process || !transfer.request.room ||
        BareUuid(transfer.request.source) != BareUuid(source))
      continue;
    *transfer.request.room += bytes;
    return;
  }
  const auto mover = movers_.find(user);
  if (mover != movers_.end() && mover->second.ready)
    mover->second.link->Send({.verb = Verb::kGrant, .process = process, .source = source, .bytes = bytes});
}

// Another mover needs the descriptors of the process's memory to go on, whatever its first request is.
void Checkpointer::PassOnHeld(MoverLink& link, std::uint64_t id, const base::ProcessId& process) {
  for (const auto& key : HeldOf(process)) {
    HeldDescriptors& held = held_.at(key);
    if (held.by == link.pid()) continue;
    std::vector<int> files;
    for (const auto& file : held.files) files.push_back(file.get());
    for (std::size_t from = 0; from < files.size(); from += ledger::wire::kMaxParts) {
      const auto count = std::min<std::size_t>(ledger::wire::kMaxParts, files.size() - from);
      link.Send(
          {.id = id, .verb = Verb::kHold, .process = process, .source = held.gpu, .first = held.first + from},
          std::span(files).subspan(from, count));
    }
    held.by = link.pid();
  }
}

void Checkpointer::SendTransfers(const MoverUser& user) {
  const auto mover = movers_.find(user);
  if (mover == movers_.end()) return;
  MoverLink& link = *mover->second.link;
  for (auto& [id, transfer] : transfers_) {
    if (transfer.sent || transfer.user != user) continue;
    transfer.sent = true;
    mover->second.has_moved = true;
    PassOnHeld(link, id, transfer.request.process);
    const int connection = transfer.connection.get();
    link.Send(transfer.request, std::span<const int>(&connection, transfer.connection.ok() ? 1 : 0));
    transfer.connection.Close();
  }
}

void Checkpointer::OnHolding(std::uint64_t id, const Transfer& transfer, const MoverAnswer& answer,
                             std::vector<base::Fd> files) {
  const ProcessGpu key{transfer.request.process, BareUuid(answer.gpu)};
  if (files.empty()) return LetGo(key);
  if (!held_.contains(key) && HeldOf(key.first).size() >= options_.most_gpus)
    return OnGone(transfer.user,
                  {base::ErrorCode::kCorrupt, "gpuman-mover names more GPUs than a process has"});
  HeldDescriptors& held = held_[key];
  if (held.take > id) return;  // this notice belongs to an offer that the process took back
  if (held.take != id)
    held = {transfer.user, answer.gpu, movers_.at(transfer.user).link->pid(), id, false, false, 0, {}};
  // With too many descriptors, only the mover and the process hold the memory.
  held.too_many = held.too_many || HeldBy(PartyOf(transfer.user)) + files.size() > options_.most_held;
  if (held.too_many) {
    held.files.clear();
    return;
  }
  for (auto& file : files) held.files.push_back(std::move(file));
}

void Checkpointer::OnNotice(std::uint64_t id, Transfer& transfer, const MoverAnswer& answer,
                            std::vector<base::Fd> files) {
  SetLimit(transfer, id);
  OfUse(transfer.user);
  if (answer.outcome == MoverOutcome::kHolding) return OnHolding(id, transfer, answer, std::move(files));
  if (answer.outcome == MoverOutcome::kTaken) transfer.taken = true;
  // The descriptors keep memory on the GPU, so those of pieces that have left are closed.
  const ProcessGpu key{transfer.request.process, BareUuid(answer.gpu)};
  if (const auto held = held_.find(key); held != held_.end()) {
    for (; held->second.first < answer.pieces && !held->second.files.empty(); ++held->second.first)
      held->second.files.pop_front();
  }
  const auto progress = transfer.progress;  // the callback may start a request
  if (progress) progress(answer);
}

// Whether the descriptors are not needed any more: the memory is whole in host memory, the process has it
// again, or it was never taken.
bool Checkpointer::IsOver(const ProcessGpu& key, const HeldDescriptors& held, const Transfer& finished,
                          std::uint64_t id, const MoverAnswer& answer) const {
  if (held.over) return true;
  if (answer.outcome == MoverOutcome::kLost) return false;
  const bool done = answer.outcome == MoverOutcome::kDone;
  const MoverRequest& request = finished.request;
  switch (request.verb) {
    case Verb::kTake:
      return held.take == id && (request.whole ? done || !finished.taken : !done);
    case Verb::kLoad:
      return false;
    default: {
      if (!request.source.empty() && BareUuid(request.source) != key.second) return false;
      // Another kTake may have begun before this request was answered.
      const auto takes = [&](const auto& entry) {
        return entry.second.request.verb == Verb::kTake && entry.second.request.process == key.first;
      };
      const bool stays = request.verb == Verb::kSecure && answer.straight;
      return done && !stays && held.take < id && std::none_of(transfers_.begin(), transfers_.end(), takes);
    }
  }
}

void Checkpointer::Release(const Transfer& finished, std::uint64_t id, const MoverAnswer& answer) {
  for (const auto& key : HeldOf(finished.request.process))
    if (IsOver(key, held_.at(key), finished, id, answer)) LetGo(key);
}

void Checkpointer::FinishTransfer(std::uint64_t id, MoverAnswer answer) {
  auto node = transfers_.extract(id);
  if (!node) return;
  const Transfer& finished = node.mapped();
  Release(finished, id, answer);
  ForgetDead();
  answer.id = id;
  if (finished.sent && answer.outcome != MoverOutcome::kLost) OfUse(finished.user);
  if (answer.misjudged != 0 && options_.on_misjudged)
    options_.on_misjudged(finished.request.process, answer.misjudged);
  StopWhenIdle(finished.user);
  if (finished.done) finished.done(answer);
}

// Transfers that were sent may have been carried out.
void Checkpointer::FailTransfers(const MoverUser& user, const MoverAnswer& answer) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, transfer] : transfers_)
    if (transfer.user == user) ids.push_back(id);
  for (const auto id : ids) FinishTransfer(id, answer);
}

}  // namespace gpuman::suspend
