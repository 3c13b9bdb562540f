#include "suspend/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

namespace gpuman::suspend {

namespace asio = boost::asio;
namespace {

constexpr std::uint64_t kNobodyWaits = UINT64_MAX;  // the id of kPrepare; its answers belong to no request

base::MonoTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

Checkpointer::Checkpointer(asio::io_context& loop, asio::thread_pool& workers, CheckpointerOptions options)
    : loop_(loop),
      workers_(workers),
      options_(std::move(options)),
      closer_(std::make_shared<base::Closer>()),
      turns_(options_.turns),
      turn_(loop) {}

Checkpointer::~Checkpointer() {
  for (auto& [user, mover] : movers_) mover.link->Stop();
}

void Checkpointer::Soon(std::function<void(Checkpointer&)> what) {
  asio::post(loop_, self_.Bind(std::move(what)));
}

void Checkpointer::Ask(const MoverUser& user, MoverRequest request, Done done) {
  const std::uint64_t id = request.id = next_id_++;
  requests_.emplace(id, Pending{.user = user, .request = std::move(request), .done = std::move(done)});
  Soon([user](Checkpointer& me) { me.Admit(user); });
}

// Puts the user's waiting requests into the turns, as soon as a mover can make their calls.
void Checkpointer::Admit(const MoverUser& user) {
  std::vector<std::uint64_t> asked;
  for (const auto& [id, pending] : requests_)
    if (pending.user == user && pending.at == Pending::At::kHere) asked.push_back(id);
  if (asked.empty()) return;
  Mover& mover = MoverOf(user);
  mover.idle->cancel();
  if (!mover.ready) return;
  const auto cannot = mover.cannot;
  for (const auto id : asked) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;
    if (cannot || found->second.request.verb == Verb::kCan) {
      FinishRequest(id, cannot.value_or(MoverAnswer{.outcome = MoverOutcome::kDone}));
      continue;
    }
    found->second.at = Pending::At::kInTurn;
    const Verb verb = found->second.request.verb;
    const bool returns = verb == Verb::kRestore || verb == Verb::kUnlock;
    turns_.Ask(PartyOf(user), id, returns ? CheckpointQueue::Call::kRestores : CheckpointQueue::Call::kOther);
  }
  Pump();
}

std::set<pid_t> Checkpointer::IdleMoverPids() const {
  std::set<pid_t> pids;
  for (const auto& [user, mover] : movers_)
    if (const auto pid = MoverPid(user); pid && IsIdle(user)) pids.insert(*pid);
  return pids;
}

void Checkpointer::Pump() {
  for (const auto id : turns_.Begin(Now())) Send(id);
  const auto deadline = turns_.Deadline();
  if (!deadline) {
    turn_.cancel();
    return;
  }
  turn_.expires_at(*deadline);
  turn_.async_wait(self_.Bind([](Checkpointer& me, const boost::system::error_code& error) {
    if (!error) me.Pump();
  }));
}

void Checkpointer::Send(std::uint64_t id) {
  Pending& pending = requests_.at(id);
  const MoverUser& user = pending.user;
  pending.at = Pending::At::kSent;
  const base::Millis limit = options_.request_limit + pending.request.lock_timeout;
  pending.limit = std::make_unique<asio::steady_timer>(loop_, limit);
  pending.limit->async_wait(self_.Bind([id, limit](Checkpointer& me, const boost::system::error_code& error) {
    // The request may have been answered in the same round of the loop.
    if (error || !me.requests_.contains(id)) return;
    const MoverUser whose = me.requests_.at(id).user;
    me.OnGone(whose, {base::ErrorCode::kTimeout,
                      fmt::format("gpuman-mover did not answer within {}", base::FormatDuration(limit))});
  }));
  movers_.at(user).link->Send(pending.request);
}

void Checkpointer::Prepare(const MoverUser& user, HostDemand each, std::optional<base::Bytes> keep) {
  Demand& demand = demands_[user];
  const base::Bytes bytes = SumOf(each);
  const bool last = demand.wanted.count > 0 && bytes.count == 0;
  demand.each = std::move(each);
  demand.keep = keep;
  demand.wanted = bytes;
  if (bytes.count == 0 && !movers_.contains(user)) return;
  if (last) StopWhenIdle(user);
  if (MoverOf(user).ready) SendDemand(user);
}

void Checkpointer::SetUnchanged(base::ChangeDetection how, base::Bytes hash_from) {
  const bool same = unchanged_ == how && hash_from_ == hash_from;
  unchanged_ = how;
  hash_from_ = hash_from;
  if (same) return;
  for (const auto& [user, mover] : movers_)
    if (mover.ready) SendDemand(user);
}

// The mover's own figure counts only up to the bytes that Prepare asked for.
base::Bytes Checkpointer::Prepared(const MoverUser& user) const {
  const auto found = demands_.find(user);
  if (found == demands_.end() || !movers_.contains(user)) return {};
  return std::min(found->second.ready, found->second.wanted);
}

// A mover's own figure counts only up to the bytes that it was allowed.
base::Bytes Checkpointer::Kept() const {
  base::Bytes kept;
  for (const auto& [user, demand] : demands_)
    if (movers_.contains(user))
      kept += std::min({demand.kept, demand.wanted, demand.keep.value_or(demand.wanted)});
  return kept;
}

void Checkpointer::SendDemand(const MoverUser& user) {
  Demand& demand = demands_[user];
  Mover& mover = movers_.at(user);
  mover.has_moved = mover.has_moved || demand.wanted.count > 0;
  mover.link->Send({.id = kNobodyWaits,
                    .verb = Verb::kPrepare,
                    .gpu = demand.each.empty() ? std::string() : demand.each.begin()->first,
                    .bytes = demand.wanted,
                    .each = demand.each,
                    .unchanged = unchanged_,
                    .hash_from = hash_from_,
                    .check_kept = options_.check_kept,
                    .keep = demand.keep});
}

void Checkpointer::OnAnswer(const MoverUser& user, const MoverAnswer& answer, std::vector<base::Fd> files) {
  Mover& mover = movers_.at(user);
  if (!mover.ready) {
    if (answer.outcome == MoverOutcome::kDone || answer.outcome == MoverOutcome::kUnsupported) {
      mover.ready = true;
      mover.start->cancel();
      if (answer.outcome != MoverOutcome::kDone) mover.cannot = answer;
      SendDemand(user);
      SendTransfers(user);
      return Admit(user);
    }
    mover.link->Stop();
    CountDeath(user);
    movers_.erase(user);
    FailTransfers(user, answer);
    return FailRequests(user, answer);
  }
  // The id may belong to a transfer of another user: a mover cannot answer that.
  if (const auto it = transfers_.find(answer.id);
      it != transfers_.end() && it->second.sent && it->second.user == user)
    return OnAnswerOf(answer.id, it->second, answer, std::move(files));
  if (answer.id == kNobodyWaits && files.empty()) {
    Demand& demand = demands_[user];
    demand.ready = answer.bytes;
    demand.kept = answer.kept;
    if (!answer.message.empty() && !std::exchange(mover.said_not_hashed, true) && options_.on_not_hashed)
      options_.on_not_hashed(user, answer.message);
    if (answer.damaged != 0 && options_.on_damaged) options_.on_damaged(user, answer.damaged);
    return;
  }
  const auto it = requests_.find(answer.id);
  if (it == requests_.end() || it->second.at != Pending::At::kSent || it->second.user != user ||
      !IsLast(answer.outcome) || !files.empty())
    return OnGone(user, {base::ErrorCode::kCorrupt, "gpuman-mover answers what nobody asked"});
  FinishRequest(answer.id, answer);
}

void Checkpointer::OnAnswerOf(std::uint64_t id, Transfer& transfer, const MoverAnswer& answer,
                              std::vector<base::Fd> files) {
  if (!MayAnswer(transfer.request, answer) ||
      (!files.empty() && (answer.outcome != MoverOutcome::kHolding || transfer.request.verb != Verb::kTake)))
    return OnGone(transfer.user, {base::ErrorCode::kCorrupt,
                                  fmt::format("gpuman-mover answers '{}' to '{}'", ToString(answer.outcome),
                                              ToString(transfer.request.verb))});
  if (!IsLast(answer.outcome)) return OnNotice(id, transfer, answer, std::move(files));
  FinishTransfer(id, answer);
}

void Checkpointer::FinishRequest(std::uint64_t id, MoverAnswer answer) {
  auto node = requests_.extract(id);
  if (!node) return;
  const Pending& finished = node.mapped();
  answer.id = id;
  if (finished.at != Pending::At::kHere) turns_.End(id, Now());
  if (finished.at == Pending::At::kSent && answer.outcome != MoverOutcome::kLost) OfUse(finished.user);
  StopWhenIdle(finished.user);
  Soon([](Checkpointer& me) { me.Pump(); });
  finished.done(answer);
}

void Checkpointer::FailRequests(const MoverUser& user, const MoverAnswer& answer) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, pending] : requests_)
    if (pending.user == user) ids.push_back(id);
  for (const auto id : ids) FinishRequest(id, answer);
}

std::vector<Checkpointer::ProcessGpu> Checkpointer::HeldOf(const base::ProcessId& process) const {
  std::vector<ProcessGpu> keys;
  for (auto it = held_.lower_bound({process, {}}); it != held_.end() && it->first.first == process; ++it)
    keys.push_back(it->first);
  return keys;
}

// Closing the last descriptor gives the memory back, which takes the driver some time.
void Checkpointer::LetGo(const ProcessGpu& key) {
  auto held = held_.extract(key);
  if (held) asio::post(workers_, [files = std::move(held.mapped().files)]() mutable { files.clear(); });
}

void Checkpointer::ForgetDead() {
  std::vector<ProcessGpu> dead;
  for (const auto& [key, held] : held_)
    if (!base::IsAlive(key.first)) dead.push_back(key);
  for (const auto& key : dead) LetGo(key);
}

void Checkpointer::Forget(const MoverUser& user, const base::ProcessId& process) {
  const auto keys = HeldOf(process);
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.request.process != process) continue;
    for (const auto& key : keys) held_.at(key).over = true;
    return;
  }
  for (const auto& key : keys) LetGo(key);
  if (const auto mover = movers_.find(user); mover != movers_.end() && mover->second.ready)
    mover->second.link->Send({.id = kNobodyWaits, .verb = Verb::kForget, .process = process});
}

}  // namespace gpuman::suspend
