// The movers' lives: when they are started, and what becomes of requests when one ends.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "suspend/checkpointer.h"

namespace gpuman::suspend {

namespace asio = boost::asio;
namespace {

constexpr int kMostLosses = 2;

}  // namespace

std::optional<pid_t> Checkpointer::HelperPid(const HelperUser& user) const {
  const auto it = helpers_.find(user);
  if (it == helpers_.end() || it->second.link->pid() == 0) return std::nullopt;
  return it->second.link->pid();
}

std::set<pid_t> Checkpointer::HelperPids() const {
  std::set<pid_t> pids;
  for (const auto& [user, helper] : helpers_)
    if (const auto pid = HelperPid(user)) pids.insert(*pid);
  return pids;
}

Checkpointer::Helper& Checkpointer::HelperOf(const HelperUser& user) {
  if (const auto it = helpers_.find(user); it != helpers_.end()) return it->second;
  // Callbacks end with Stop, which comes before this object is gone.
  auto link = std::make_shared<HelperLink>(
      loop_, workers_, closer_,
      HelperLink::Callbacks{[this, user](const Answer& answer, std::vector<base::Fd> files) {
                              OnAnswer(user, answer, std::move(files));
                            },
                            [this, user](const base::Error& error) { OnGone(user, error); }});
  Helper& helper = helpers_
                       .emplace(user, Helper{.link = std::move(link),
                                             .idle = std::make_unique<asio::steady_timer>(loop_),
                                             .start = std::make_unique<asio::steady_timer>(loop_)})
                       .first->second;
  const auto deaths = deaths_.find(PartyOf(user));
  const auto delay = deaths == deaths_.end() ? base::Millis(0) : RestartDelay(deaths->second.count);
  if (delay.count() == 0) {
    Start(user, helper);
    return helper;
  }
  helper.start->expires_at(deaths->second.last + delay);
  helper.start->async_wait(
      [weak = std::weak_ptr(self_), user, link = helper.link](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (error || !self) return;
        const auto found = (*self)->helpers_.find(user);
        if (found != (*self)->helpers_.end() && found->second.link == link)
          (*self)->Start(user, found->second);
      });
  return helper;
}

void Checkpointer::Start(const HelperUser& user, Helper& helper) {
  helper.link->Start(options_.program, user);
  helper.start->expires_after(options_.start_limit);
  helper.start->async_wait([weak = std::weak_ptr(self_), user, link = helper.link,
                            limit = options_.start_limit](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self) return;
    const auto found = (*self)->helpers_.find(user);
    // It may have got ready in the same round of the loop.
    if (found == (*self)->helpers_.end() || found->second.link != link || found->second.ready) return;
    (*self)->OnGone(user, {base::ErrorCode::kTimeout, fmt::format("gpuman-mover did not get ready within {}",
                                                                  base::FormatDuration(limit))});
  });
}

void Checkpointer::OnGone(const HelperUser& given, const base::Error& error) {
  const HelperUser user = given;  // which may be of what ends here
  const auto it = helpers_.find(user);
  if (it == helpers_.end()) return;
  const bool was_ready = it->second.ready;
  if (!it->second.was_of_use) CountDeath(user);
  it->second.link->Kill();
  helpers_.erase(it);
  FailTransfers(user, {.outcome = Outcome::kLost, .message = error.message});
  // One that never got so far as to be asked has done nothing.
  if (!was_ready) return FailRequests(user, {.outcome = Outcome::kFailed, .message = error.message});
  std::vector<std::pair<std::uint64_t, Outcome>> over;
  for (auto& [id, pending] : requests_) {
    if (pending.user != user || pending.at == Pending::At::kHere) continue;
    const bool sent = pending.at == Pending::At::kSent;
    if (sent || ++pending.losses > kMostLosses) {
      over.emplace_back(id, sent ? Outcome::kLost : Outcome::kFailed);
      continue;
    }
    turns_.End(id, std::chrono::steady_clock::now());
    pending.at = Pending::At::kHere;
  }
  for (const auto& [id, outcome] : over) FinishRequest(id, {.outcome = outcome, .message = error.message});
  Soon([user](Checkpointer& me) { me.Admit(user); });
}

void Checkpointer::OfUse(const HelperUser& user) {
  deaths_.erase(PartyOf(user));
  if (const auto helper = helpers_.find(user); helper != helpers_.end()) helper->second.was_of_use = true;
}

void Checkpointer::CountDeath(const HelperUser& user) {
  Deaths& deaths = deaths_[PartyOf(user)];
  deaths = {deaths.count + 1, std::chrono::steady_clock::now()};
}

bool Checkpointer::IsIdle(const HelperUser& user) const {
  const auto is_users = [&](const auto& entry) { return entry.second.user == user; };
  const auto demand = demands_.find(user);
  return std::none_of(requests_.begin(), requests_.end(), is_users) &&
         std::none_of(transfers_.begin(), transfers_.end(), is_users) &&
         std::none_of(held_.begin(), held_.end(), is_users) &&
         (demand == demands_.end() || demand->second.wanted.count == 0);
}

void Checkpointer::StopNow(const HelperUser& user) {
  const auto helper = helpers_.find(user);
  if (helper == helpers_.end()) return;
  helper->second.link->Stop();
  helpers_.erase(helper);
}

void Checkpointer::Retire(const HelperUser& user) {
  ForgetDead();
  if (IsIdle(user)) return StopNow(user);
  // One that holds what is to go straight to another GPU: the process may end before it is asked for.
  if (std::any_of(held_.begin(), held_.end(), [&](const auto& one) { return one.second.user == user; }))
    StopWhenIdle(user);
}

std::set<pid_t> Checkpointer::RetireIdle() {
  ForgetDead();
  std::set<pid_t> leaving;
  std::vector<HelperUser> idle;
  for (const auto& [user, helper] : helpers_) {
    if (!IsIdle(user)) continue;
    idle.push_back(user);
    if (const auto pid = HelperPid(user)) leaving.insert(*pid);
  }
  for (const auto& user : idle) StopNow(user);
  return leaving;
}

void Checkpointer::StopWhenIdle(const HelperUser& user) {
  const auto it = helpers_.find(user);
  if (it == helpers_.end()) return;
  it->second.idle->expires_after(it->second.has_moved ? options_.rest_limit : options_.idle_limit);
  it->second.idle->async_wait([weak = std::weak_ptr(self_), user](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) (*self)->Retire(user);
  });
}

}  // namespace gpuman::suspend
