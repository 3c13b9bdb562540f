#include "suspend/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace gpuman::suspend {

namespace asio = boost::asio;
namespace {

constexpr std::uint64_t kNobodyWaits = UINT64_MAX;  // the id of kPrepare

}  // namespace

Checkpointer::Checkpointer(asio::io_context& loop, asio::thread_pool& workers, CheckpointerOptions options)
    : loop_(loop),
      workers_(workers),
      options_(std::move(options)),
      limit_(loop),
      self_(std::make_shared<Checkpointer*>(this)) {}

Checkpointer::~Checkpointer() {
  for (auto& [user, helper] : helpers_) helper.link->Stop();
}

void Checkpointer::Ask(const HelperUser& user, Request request, Done done) {
  request.id = next_id_++;
  queue_.push_back({user, std::move(request), std::move(done)});
  asio::post(loop_, [weak = std::weak_ptr(self_)] {
    if (const auto self = weak.lock()) (*self)->Pump();
  });
}

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

std::set<pid_t> Checkpointer::IdleHelperPids() const {
  std::set<pid_t> pids;
  for (const auto& [user, helper] : helpers_)
    if (const auto pid = HelperPid(user); pid && IsIdle(user)) pids.insert(*pid);
  return pids;
}

void Checkpointer::Pump() {
  if (active_ || queue_.empty()) return;
  active_ = std::move(queue_.front());
  queue_.pop_front();
  Helper& helper = HelperOf(active_->user);
  helper.idle->cancel();
  if (helper.ready) return SendActive();
  SetLimit(options_.start_limit, "get ready");
}

Checkpointer::Helper& Checkpointer::HelperOf(const HelperUser& user) {
  if (const auto it = helpers_.find(user); it != helpers_.end()) return it->second;
  // Callbacks end with Stop, which comes before this object is gone.
  auto link = std::make_shared<HelperLink>(
      loop_, workers_,
      HelperLink::Callbacks{[this, user](const Answer& answer, std::vector<base::Fd> files) {
                              OnAnswer(user, answer, std::move(files));
                            },
                            [this, user](const base::Error& error) { OnGone(user, error); }});
  link->Start(options_.program, user);
  return helpers_.emplace(user, Helper{.link = link, .idle = std::make_unique<asio::steady_timer>(loop_)})
      .first->second;
}

void Checkpointer::SendActive() {
  const Helper& helper = helpers_.at(active_->user);
  if (helper.cannot) return FinishActive(*helper.cannot);
  if (active_->request.verb == Verb::kCan) return FinishActive({.outcome = Outcome::kDone});
  SetLimit(options_.request_limit + active_->request.lock_timeout, "answer");
  helper.link->Send(active_->request);
}

void Checkpointer::SetLimit(base::Millis limit, const char* what) {
  limit_.expires_after(limit);
  limit_.async_wait([weak = std::weak_ptr(self_), id = active_->request.id, what,
                     limit](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self) return;
    Checkpointer& me = **self;
    // It may have been answered in the same round of the loop.
    if (!me.active_ || me.active_->request.id != id) return;
    const HelperUser user = me.active_->user;
    me.OnGone(user, {base::ErrorCode::kTimeout,
                     fmt::format("gpuman-mover did not {} within {}", what, base::FormatDuration(limit))});
  });
}

void Checkpointer::Prepare(const HelperUser& user, const std::string& gpu, base::Bytes bytes) {
  Demand& demand = demands_[user];
  const bool last = demand.wanted.count > 0 && bytes.count == 0;
  demand.gpu = gpu;
  demand.wanted = bytes;
  if (bytes.count == 0 && !helpers_.contains(user)) return;
  if (last) StopWhenIdle(user);
  if (HelperOf(user).ready) SendDemand(user);
}

base::Bytes Checkpointer::Prepared(const HelperUser& user) const {
  const auto found = demands_.find(user);
  return found == demands_.end() || !helpers_.contains(user) ? base::Bytes{} : found->second.ready;
}

void Checkpointer::SendDemand(const HelperUser& user) {
  Demand& demand = demands_[user];
  Helper& helper = helpers_.at(user);
  helper.has_moved = helper.has_moved || demand.wanted.count > 0;
  helper.link->Send({.id = kNobodyWaits, .verb = Verb::kPrepare, .gpu = demand.gpu, .bytes = demand.wanted});
}

void Checkpointer::OnAnswer(const HelperUser& user, const Answer& answer, std::vector<base::Fd> files) {
  Helper& helper = helpers_.at(user);
  if (!helper.ready) {
    if (answer.outcome == Outcome::kDone || answer.outcome == Outcome::kUnsupported) {
      helper.ready = true;
      if (answer.outcome != Outcome::kDone) helper.cannot = answer;
      SendDemand(user);
      SendTransfers(user);
      if (active_ && active_->user == user) SendActive();
      return;
    }
    helper.link->Stop();
    helpers_.erase(user);
    FailTransfers(user, answer);
    if (active_ && active_->user == user) FinishActive(answer);
    return;
  }
  if (const auto it = transfers_.find(answer.id); it != transfers_.end() && it->second.user == user) {
    const bool notice = answer.outcome == Outcome::kHolding || answer.outcome == Outcome::kTaken ||
                        answer.outcome == Outcome::kMoving;
    return notice ? OnNotice(answer.id, it->second, answer, std::move(files))
                  : FinishTransfer(answer.id, answer);
  }
  if (answer.id == kNobodyWaits) {
    demands_[user].ready = answer.bytes;
    return;
  }
  if (!active_ || active_->user != user || active_->request.id != answer.id)
    return OnGone(user, {base::ErrorCode::kCorrupt, "gpuman-mover answers what nobody asked"});
  FinishActive(answer);
}

void Checkpointer::OnGone(const HelperUser& user, const base::Error& error) {
  const auto it = helpers_.find(user);
  if (it == helpers_.end()) return;
  const bool was_ready = it->second.ready;
  it->second.link->Kill();
  helpers_.erase(it);
  FailTransfers(user, {.outcome = Outcome::kLost, .message = error.message});
  if (!active_ || active_->user != user) return;
  // One that never got so far as to be asked has done nothing.
  FinishActive({.outcome = was_ready ? Outcome::kLost : Outcome::kFailed, .message = error.message});
}

void Checkpointer::FinishActive(Answer answer) {
  limit_.cancel();
  const Pending finished = std::exchange(active_, std::nullopt).value();
  answer.id = finished.request.id;
  StopWhenIdle(finished.user);
  asio::post(loop_, [weak = std::weak_ptr(self_)] {
    if (const auto self = weak.lock()) (*self)->Pump();
  });
  finished.done(answer);
}

bool Checkpointer::IsIdle(const HelperUser& user) const {
  const auto is_users = [&](const auto& entry) { return entry.second.user == user; };
  const auto demand = demands_.find(user);
  return !(active_ && active_->user == user) &&
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

// The last descriptor gives the memory back, which takes the driver its time.
void Checkpointer::LetGo(std::map<base::ProcessId, Held>::iterator held) {
  asio::post(workers_, [files = std::move(held->second.files)]() mutable { files.clear(); });
  held_.erase(held);
}

void Checkpointer::ForgetDead() {
  for (auto it = held_.begin(); it != held_.end();) {
    const auto held = it++;
    if (!base::IsAlive(held->first)) LetGo(held);
  }
}

void Checkpointer::Forget(const HelperUser& user, const base::ProcessId& process) {
  const auto held = held_.find(process);
  for (const auto& [id, transfer] : transfers_) {
    if (transfer.request.process != process) continue;
    if (held != held_.end()) held->second.over = true;
    return;
  }
  if (held != held_.end()) LetGo(held);
  if (const auto helper = helpers_.find(user); helper != helpers_.end() && helper->second.ready)
    helper->second.link->Send({.id = kNobodyWaits, .verb = Verb::kForget, .process = process});
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
