// Decides which process the server answers when, and with what. The server keeps a process that it cannot
// answer yet, and asks about it again.
#include <sys/eventfd.h>

#include <vector>

#include "base/passed_files.h"
#include "base/peer.h"
#include "ledger/server.h"
#include "ledger/timer.h"
#include "ledger/wire/messages.h"
#include "ledger/wire/transfer.h"

namespace gpuman::ledger {
namespace {

constexpr std::chrono::milliseconds kRetry{50};  // before the next look for a process's job

LedgerRequest CallerOf(const base::Peer& peer, const wire::ShimHello& hello) {
  LedgerRequest caller{peer.process(), peer.uid(), std::nullopt, {}};
  if (hello.job != 0) caller.claimed_job = base::JobId{static_cast<std::int64_t>(hello.job)};
  caller.key.assign(hello.key, ::strnlen(hello.key, sizeof hello.key));
  return caller;
}

// Sends one message with the descriptors of a slot, or without any.
void Send(int connection, const wire::Welcome& welcome, const JoinedSlot* joined) {
  std::vector<int> files;
  if (joined != nullptr) files = {joined->owner.get(), joined->file.get()};
  (void)base::SendWithFiles(connection, {reinterpret_cast<const char*>(&welcome), sizeof welcome}, files);
}

}  // namespace

void Server::EnterTurn(uid_t user, Number number) {
  turns_.Enter(user, number);
  (void)::eventfd_write(wakers_.turn.get(), 1);
}

// A process that has left meanwhile uses up no turn.
void Server::TakeTurn() {
  while (!turns_.empty()) {
    const Number number = turns_.Next();
    if (auto heard = waiting_.extract(number)) {
      Hear(std::move(heard.mapped()), number);
      break;
    }
    if (early_.contains(number)) {
      AskAbout(number);
      break;
    }
  }
  if (turns_.empty()) Take(wakers_.turn);
}

void Server::Hear(Waiting waiting, Number number) {
  wire::ShimHello hello{};
  if (base::ReceiveData(waiting.connection.get(), &hello, sizeof hello) != static_cast<ssize_t>(sizeof hello))
    return waiting.connection.HangUp();
  const auto awaited = Treat(waiting, hello);
  if (!awaited) return;
  if (early_.size() >= kMaxWaiting) return waiting.connection.HangUp();
  Keep({std::move(waiting), hello, {}}, number, *awaited);
}

void Server::Keep(Early early, Number number, const Awaited& awaited) {
  early.job = awaited.job;
  early.in_turn = false;
  if (awaited.retry && !std::exchange(early.listed, true)) to_retry_[early.waiting.user].push_back(number);
  early_.insert_or_assign(number, std::move(early));
  if (!to_retry_.empty() && !retries_) retries_ = Start(wakers_.retry, kRetry);
}

// A notification only says that the process's slot is to be read, and somebody may wait for that: a pid of
// the ledger of the job that the process claims may have it without a further look.
bool Server::HearAtOnce(const Waiting& waiting, const wire::ShimHello& hello) {
  if (hello.magic != wire::kNotifyMagic || hello.version != wire::kVersion || hello.job == 0) return false;
  const base::JobId job{static_cast<std::int64_t>(hello.job)};
  const auto process = ledgers_->RegisteredPid(job, waiting.pid);
  if (process && slot_listener_) slot_listener_(job, *process);
  return process.has_value();
}

std::optional<Server::Awaited> Server::Treat(Waiting& waiting, const wire::ShimHello& hello) {
  if (HearAtOnce(waiting, hello)) {
    waiting.connection.HangUp();
    return std::nullopt;
  }
  if (hello.magic == wire::kOutMagic || hello.magic == wire::kBackMagic || hello.magic == wire::kNotifyMagic)
    return PassOn(waiting, hello);
  std::optional<Awaited> awaited;
  if (hello.magic == wire::kHelloMagic) awaited = Answer(waiting, hello);
  if (!awaited) waiting.connection.HangUp();
  return awaited;
}

// Passes on a process that counts in the ledger of the job that it belongs to.
std::optional<Server::Awaited> Server::PassOn(Waiting& waiting, const wire::ShimHello& hello) {
  const auto peer = base::PeerOf(waiting.connection.get(), waiting.accepted);
  if (!peer || hello.version != wire::kVersion) return std::nullopt;
  const auto found = attribute_(CallerOf(*peer, hello));
  if (found.outcome == AttributionOutcome::kNotYet && peer->Lives()) return Awaited{found.job, true};
  if (found.outcome != AttributionOutcome::kJob || !ledgers_->Registered(found.job, peer->process()) ||
      !peer->Lives())
    return std::nullopt;
  if (hello.magic == wire::kNotifyMagic) {
    if (slot_listener_) slot_listener_(found.job, peer->process());
    waiting.connection.HangUp();
  } else if (transfer_listener_) {
    const bool out = hello.magic == wire::kOutMagic;
    transfer_listener_(found.job, peer->process(), out ? TransferDirection::kOut : TransferDirection::kBack,
                       std::move(waiting.connection));
  }
  return std::nullopt;
}

void Server::AskAgain() { AskAgain(std::optional<base::JobId>()); }
void Server::AskAgain(base::JobId job) { AskAgain(std::optional(job)); }

void Server::AskAgain(std::optional<base::JobId> job) {
  for (auto& [number, early] : early_) {
    if (job && early.job != *job && early.job != base::JobId{}) continue;
    if (!std::exchange(early.in_turn, true)) EnterTurn(early.waiting.user, number);
  }
}

void Server::AskAbout(Number number) {
  Early early = std::move(early_.extract(number).mapped());
  const uid_t user = early.waiting.user;
  const auto awaited = Treat(early.waiting, early.hello);
  if (awaited) Keep(std::move(early), number, *awaited);
  // This process needs no further look, so the server can ask about the user's next process.
  if (!awaited || !awaited->retry) RetryNextOf(user);
}

void Server::Retry() {
  Take(wakers_.retry);
  retries_ = false;
  std::vector<uid_t> users;
  for (const auto& [user, numbers] : to_retry_) users.push_back(user);
  for (const uid_t user : users) RetryNextOf(user);
  if (!to_retry_.empty()) retries_ = Start(wakers_.retry, kRetry);
}

void Server::RetryNextOf(uid_t user) {
  const auto found = to_retry_.find(user);
  if (found == to_retry_.end()) return;
  auto& numbers = found->second;
  while (!numbers.empty()) {
    const auto early = early_.find(numbers.front());
    numbers.pop_front();
    if (early == early_.end()) continue;
    early->second.listed = false;
    if (std::exchange(early->second.in_turn, true)) continue;
    EnterTurn(user, early->first);
    break;
  }
  if (numbers.empty()) to_retry_.erase(found);
}

std::optional<Server::Awaited> Server::Answer(const Waiting& waiting, const wire::ShimHello& hello) {
  const int connection = waiting.connection.get();
  wire::Welcome welcome{};
  welcome.magic = wire::kWelcomeMagic;
  welcome.version = wire::kVersion;
  welcome.bytes = sizeof(wire::Ledger);
  const auto say = [&](wire::JoinAnswer answer, const JoinedSlot* joined) -> std::optional<Awaited> {
    welcome.answer = answer;
    Send(connection, welcome, joined);
    return std::nullopt;
  };
  const auto peer = base::PeerOf(connection, waiting.accepted);
  if (!peer)
    return say(peer.error().code == base::ErrorCode::kNotFound ? wire::JoinAnswer::kNoJob
                                                               : wire::JoinAnswer::kTryLater,
               nullptr);
  const auto caller = CallerOf(*peer, hello);
  const auto found = attribute_(caller);
  // The result is about a pid: it holds for the peer only if the peer still lives.
  if (!peer->Lives()) return say(wire::JoinAnswer::kNoJob, nullptr);
  if (found.outcome == AttributionOutcome::kLater || found.outcome == AttributionOutcome::kNotYet)
    return Awaited{found.job, found.outcome == AttributionOutcome::kNotYet};
  if (found.outcome == AttributionOutcome::kNobody || !ledgers_->Has(found.job))
    return say(wire::JoinAnswer::kNoJob, nullptr);
  if (hello.version != wire::kVersion) {
    (void)say(wire::JoinAnswer::kOtherVersion, nullptr);
    if (other_version_) other_version_(found.job, caller, hello.version);
    return std::nullopt;
  }
  const auto joined = ledgers_->Join(found.job, caller.process);
  if (joined) welcome.slot = joined->slot;
  return say(joined ? wire::JoinAnswer::kJoined : wire::JoinAnswer::kTryLater, joined ? &*joined : nullptr);
}

}  // namespace gpuman::ledger
