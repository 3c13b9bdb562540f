// When movers are started and stopped, and what becomes of requests when a mover ends.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "suspend/checkpointer.h"

namespace gpuman::suspend {

namespace asio = boost::asio;
namespace {

constexpr int kMaxLosses = 2;

}  // namespace

std::optional<pid_t> Checkpointer::MoverPid(const MoverUser& user) const {
  const auto it = movers_.find(user);
  if (it == movers_.end() || it->second.link->pid() == 0) return std::nullopt;
  return it->second.link->pid();
}

std::set<pid_t> Checkpointer::MoverPids() const {
  std::set<pid_t> pids;
  for (const auto& [user, mover] : movers_)
    if (const auto pid = MoverPid(user)) pids.insert(*pid);
  return pids;
}

Checkpointer::Mover& Checkpointer::MoverOf(const MoverUser& user) {
  if (const auto it = movers_.find(user); it != movers_.end()) return it->second;
  // The callbacks may use `this`: Stop ends them, and it is called before this object is destroyed.
  auto link = std::make_shared<MoverLink>(
      loop_, workers_, closer_,
      MoverLink::Callbacks{[this, user](const MoverAnswer& answer, std::vector<base::Fd> files) {
                             OnAnswer(user, answer, std::move(files));
                           },
                           [this, user](const base::Error& error) { OnGone(user, error); },
                           options_.on_started});
  Mover& mover = movers_
                     .emplace(user, Mover{.link = std::move(link),
                                          .idle = std::make_unique<asio::steady_timer>(loop_),
                                          .start = std::make_unique<asio::steady_timer>(loop_)})
                     .first->second;
  const auto deaths = deaths_.find(PartyOf(user));
  const auto delay = deaths == deaths_.end() ? base::Millis(0) : RestartDelay(deaths->second.count);
  if (delay.count() == 0) {
    Start(user, mover);
    return mover;
  }
  mover.start->expires_at(deaths->second.last + delay);
  mover.start->async_wait(
      self_.Bind([user, link = mover.link](Checkpointer& me, const boost::system::error_code& error) {
        if (error) return;
        const auto found = me.movers_.find(user);
        if (found != me.movers_.end() && found->second.link == link) me.Start(user, found->second);
      }));
  return mover;
}

void Checkpointer::Start(const MoverUser& user, Mover& mover) {
  mover.link->Start(options_.program, user);
  mover.start->expires_after(options_.start_limit);
  mover.start->async_wait(self_.Bind([user, link = mover.link, limit = options_.start_limit](
                                         Checkpointer& me, const boost::system::error_code& error) {
    if (error) return;
    const auto found = me.movers_.find(user);
    // The mover may have become ready in the same round of the loop.
    if (found == me.movers_.end() || found->second.link != link || found->second.ready) return;
    me.OnGone(user, {base::ErrorCode::kTimeout,
                     fmt::format("gpuman-mover did not get ready within {}", base::FormatDuration(limit))});
  }));
}

void Checkpointer::OnGone(const MoverUser& given, const base::Error& error) {
  // `given` may refer to a member of an object that is destroyed below.
  const MoverUser user = given;  // NOLINT(performance-unnecessary-copy-initialization): see above
  const auto it = movers_.find(user);
  if (it == movers_.end()) return;
  const bool was_ready = it->second.ready;
  if (!it->second.was_of_use) CountDeath(user);
  it->second.link->Kill();
  movers_.erase(it);
  FailTransfers(user, {.outcome = MoverOutcome::kLost, .message = error.message});
  // A mover that never became ready has done nothing.
  if (!was_ready) return FailRequests(user, {.outcome = MoverOutcome::kFailed, .message = error.message});
  std::vector<std::pair<std::uint64_t, MoverOutcome>> over;
  for (auto& [id, pending] : requests_) {
    if (pending.user != user || pending.at == Pending::At::kHere) continue;
    const bool sent = pending.at == Pending::At::kSent;
    if (sent || ++pending.losses > kMaxLosses) {
      over.emplace_back(id, sent ? MoverOutcome::kLost : MoverOutcome::kFailed);
      continue;
    }
    turns_.End(id, std::chrono::steady_clock::now());
    pending.at = Pending::At::kHere;
  }
  for (const auto& [id, outcome] : over) FinishRequest(id, {.outcome = outcome, .message = error.message});
  Soon([user](Checkpointer& me) { me.Admit(user); });
}

void Checkpointer::OfUse(const MoverUser& user) {
  deaths_.erase(PartyOf(user));
  if (const auto mover = movers_.find(user); mover != movers_.end()) mover->second.was_of_use = true;
}

void Checkpointer::CountDeath(const MoverUser& user) {
  Deaths& deaths = deaths_[PartyOf(user)];
  deaths = {deaths.count + 1, std::chrono::steady_clock::now()};
}

bool Checkpointer::IsIdle(const MoverUser& user) const {
  const auto is_users = [&](const auto& entry) { return entry.second.user == user; };
  const auto demand = demands_.find(user);
  return std::none_of(requests_.begin(), requests_.end(), is_users) &&
         std::none_of(transfers_.begin(), transfers_.end(), is_users) &&
         std::none_of(held_.begin(), held_.end(), is_users) &&
         (demand == demands_.end() || demand->second.wanted.count == 0);
}

void Checkpointer::StopNow(const MoverUser& user) {
  const auto mover = movers_.find(user);
  if (mover == movers_.end()) return;
  mover->second.link->Stop();
  movers_.erase(mover);
}

void Checkpointer::Retire(const MoverUser& user) {
  ForgetDead();
  if (IsIdle(user)) return StopNow(user);
  // The mover holds memory that is to go straight to another GPU: the memory's process may end before the
  // mover is asked for that memory.
  if (std::any_of(held_.begin(), held_.end(), [&](const auto& one) { return one.second.user == user; }))
    StopWhenIdle(user);
}

std::set<pid_t> Checkpointer::RetireIdle() {
  ForgetDead();
  std::set<pid_t> leaving;
  std::vector<MoverUser> idle;
  for (const auto& [user, mover] : movers_) {
    if (!IsIdle(user)) continue;
    idle.push_back(user);
    if (const auto pid = MoverPid(user)) leaving.insert(*pid);
  }
  for (const auto& user : idle) StopNow(user);
  return leaving;
}

void Checkpointer::StopWhenIdle(const MoverUser& user) {
  const auto it = movers_.find(user);
  if (it == movers_.end()) return;
  it->second.idle->expires_after(it->second.has_moved ? options_.rest_limit : options_.idle_limit);
  it->second.idle->async_wait(self_.Bind([user](Checkpointer& me, const boost::system::error_code& error) {
    if (!error) me.Retire(user);
  }));
}

}  // namespace gpuman::suspend
