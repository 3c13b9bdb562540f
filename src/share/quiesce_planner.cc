#include "share/quiesce_planner.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gpuman::share {
namespace {

// The most calls of a grant; with the longest stride, and else.
constexpr unsigned kMaxCalls = 512, kCalls = 64, kLongestStride = 3;
// After so many rounds without success, units that never met those that work are granted calls too.
constexpr unsigned kLinkedRounds = 24;
// A link of QuiesceHistory grows by this each time it is seen and is halved with each attempt: what was seen
// once is forgotten after three attempts.
constexpr unsigned kLink = 4;
// Neither the wait before the first grant nor the patience with a unit that works is longer than this part of
// the whole time.
constexpr int kLongestWait = 8, kLongestPatience = 64;
// A host that waits for its GPU on the way to the others' place makes the rest of its calls later.
constexpr unsigned kAlignments = 4;
// Where processes seem to be at the same place and still wait for each other, the places are wrong by a few
// calls, and one process stands just before a call that the others have made. So many more calls of each take
// them away from there; another such call seldom lies between as well.
constexpr unsigned kShift = 8, kShifts = 2;

unsigned Strongest(const std::map<ProcessGpuId, unsigned>& links) {
  unsigned strongest = 0;
  for (const auto& [unit, weight] : links) strongest = std::max(strongest, weight);
  return strongest;
}

}  // namespace

QuiescePlanner::QuiescePlanner(QuiesceSettings settings, QuiesceHistory history, base::MonoTime began,
                               base::MonoTime deadline)
    : settings_(settings),
      history_(std::move(history)),
      began_(began),
      deadline_(deadline),
      changed_(began),
      shut_changed_(began),
      patience_(settings.settle) {
  for (auto& [unit, by] : history_.freed_by) {
    for (auto& [other, weight] : by) weight /= 2;
    std::erase_if(by, [](const auto& link) { return link.second == 0; });
  }
  std::erase_if(history_.freed_by, [](const auto& links) { return links.second.empty(); });
}

QuiesceHistory QuiescePlanner::Take() && { return std::move(history_); }

QuiesceDecision QuiescePlanner::Decide(const QuiesceView& view, base::MonoTime now) {
  Note(view, now);
  if (over_) {
    const bool holds = all_shut_ && !AnyWorks() && !view.broken;
    return over_->kind == QuiesceDecision::Kind::kRested && !holds ? Fail(now) : *over_;
  }
  if (view.broken) return Fail(now);
  if (all_shut_ && !AnyWorks() && open_.empty()) return Rest(now);
  if (now >= deadline_) return Fail(now);
  if (HasUsableGrant() || !settings_.call_grants) return WaitUntil(deadline_);
  if (aligning_ && !open_.empty() && now < aligned_at_ + settings_.host_patience)
    return WaitUntil(aligned_at_ + settings_.host_patience);
  if (auto grants = GrantsToAlign(); !grants.empty())
    return now < AlignAt() ? WaitUntil(AlignAt()) : Align(std::move(grants), now);
  if (auto grants = GrantsToShift(); !grants.empty()) {
    if (now < GrantAt()) return WaitUntil(GrantAt());
    ++shifts_;
    return Align(std::move(grants), now);
  }
  const bool behind = Candidates().empty();
  if (behind && AnyForRoom()) {
    const base::MonoTime due = changed_ + settings_.host_patience;
    return now < due ? WaitUntil(due) : Fail(now);
  }
  if (const base::MonoTime due = behind ? BehindAt() : GrantAt(); now < due) return WaitUntil(due);
  EndRound();
  if (behind) return GrantBehind(now);
  return now < GrantAt() ? WaitUntil(GrantAt()) : GrantCalls(now);  // EndRound may have learned patience
}

// --- what is seen

void QuiescePlanner::Note(const QuiesceView& view, base::MonoTime now) {
  NoteEnds(view, now);
  if (std::exchange(all_shut_, view.all_shut) != view.all_shut) changed_ = shut_changed_ = now;
  std::set<ProcessGpuId> present;
  for (const ProcessGpuState& seen : view.units) {
    present.insert(seen.id);
    NoteUnit(seen, now);
  }
  for (auto unit = units_.begin(); unit != units_.end();) {
    if (present.count(unit->first) > 0) {
      ++unit;
      continue;
    }
    changed_ = now;
    unit = units_.erase(unit);
  }
  std::erase_if(open_, [&](const auto& grant) { return present.count(grant.second.unit) == 0; });
}

void QuiescePlanner::NoteEnds(const QuiesceView& view, base::MonoTime now) {
  for (const GateCallResult& ended : view.ended) {
    const auto grant = open_.find(ended.unit.process);
    if (grant == open_.end() || grant->second.unit != ended.unit) continue;
    open_.erase(grant);
    changed_ = now;
    figures_.calls += ended.calls;
    const auto unit = units_.find(ended.unit);
    if (unit == units_.end()) continue;
    unit->second.calls += ended.calls;
    unit->second.run += ended.calls;
  }
}

void QuiescePlanner::NoteUnit(const ProcessGpuState& seen, base::MonoTime now) {
  const auto [place, is_new] = units_.try_emplace(seen.id);
  Unit& unit = place->second;
  if (is_new || unit.works != seen.works || unit.waits != seen.waits) changed_ = now;
  if (seen.works && !unit.works) unit.works_since = now;
  if (unit.works && !seen.works && worked_.count(seen.id) > 0) rested_.insert(seen.id);
  unit.works = seen.works;
  unit.waits = seen.waits;
  unit.takes_grants = seen.takes_grants;
  unit.for_room = seen.for_room;
  unit.calls_made = seen.calls;
}

// Learns from the last round, once.
void QuiescePlanner::EndRound() {
  const bool overshot = std::any_of(granted_.begin(), granted_.end(), [&](const ProcessGpuId& id) {
    const auto unit = units_.find(id);
    return unit != units_.end() && unit->second.works;
  });
  if (!rested_.empty() && overshot && !behind_) {
    ++figures_.leaps;
    patience_ =
        std::min<Span>(2 * patience_, std::max<Span>((deadline_ - began_) / kLongestPatience, patience_));
  }
  if (granted_.size() == 1 && !rested_.empty()) Link();
  granted_.clear();
  rested_.clear();
}

// One was granted calls, and others came to rest: they had met.
void QuiescePlanner::Link() {
  const ProcessGpuId& granted = *granted_.begin();
  for (const ProcessGpuId& one : rested_) {
    if (one == granted) continue;
    history_.freed_by[one][granted] += kLink;
    history_.freed_by[granted][one] += kLink;
  }
}

bool QuiescePlanner::AnyWorks() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit.second.works; });
}

bool QuiescePlanner::AnyForRoom() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit.second.for_room; });
}

bool QuiescePlanner::AllWork() const {
  return std::all_of(units_.begin(), units_.end(), [](const auto& unit) { return unit.second.works; });
}

bool QuiescePlanner::HasUsableGrant() const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& grant) {
    const auto unit = units_.find(grant.second.unit);
    return unit != units_.end() && !unit->second.works;
  });
}

std::vector<ProcessGpuId> QuiescePlanner::Candidates() const {
  std::vector<ProcessGpuId> candidates;
  for (const auto& [id, unit] : units_)
    if (!unit.works && unit.waits && unit.takes_grants) candidates.push_back(id);
  return candidates;
}

std::optional<ProcessGpuId> QuiescePlanner::LongestWorking() const {
  std::optional<ProcessGpuId> longest;
  for (const auto& [id, unit] : units_)
    if (unit.works && (!longest || unit.works_since < units_.at(*longest).works_since)) longest = id;
  return longest;
}

// --- what is decided

QuiesceDecision QuiescePlanner::Rest(base::MonoTime now) {
  EndRound();
  if (figures_.rounds == 0) LearnUsual();
  figures_.took = now - began_;
  using Way = LockstepTracker::Way;
  const Way aligned = figures_.rounds == alignments_ ? Way::kAligned : Way::kAlignedAndMore;
  const Way without = figures_.rounds == 0 ? Way::kNoCalls : Way::kWithout;
  history_.lockstep.LearnCut(Calls(), alignments_ > 0 ? aligned : without, figures_.took);
  over_ = QuiesceDecision{QuiesceDecision::Kind::kRested, {}, {}};
  return *over_;
}

QuiesceDecision QuiescePlanner::Fail(base::MonoTime now) {
  if (alignments_ > 0 && !over_) history_.lockstep.Doubt();
  figures_.took = now - began_;
  over_ = QuiesceDecision{QuiesceDecision::Kind::kFailed, {}, {}};
  return *over_;
}

QuiesceDecision QuiescePlanner::WaitUntil(base::MonoTime time) const {
  return {QuiesceDecision::Kind::kWait, {}, std::min(time, deadline_)};
}

void QuiescePlanner::LearnUsual() {
  const Span drained = changed_ - began_;
  history_.usual = history_.usual == Span{} ? drained : (history_.usual + drained) / 2;
}

CallsByProcess QuiescePlanner::Calls() const {
  CallsByProcess calls;
  for (const auto& [id, unit] : units_) calls[id.process] = unit.calls_made;
  return calls;
}

// The view has to stay the same for a while, and a unit that works has to do so for a while. A gate that is
// open is waited for first: a stream is captured. Before the first grant, queues that need none are left to
// drain.
base::MonoTime QuiescePlanner::GrantAt() const {
  base::MonoTime due = changed_ + settings_.settle;
  if (!all_shut_) due = std::max(due, shut_changed_ + settings_.host_patience);
  if (const auto longest = LongestWorking()) due = std::max(due, units_.at(*longest).works_since + patience_);
  // The work that was launched for those that were behind has to end first.
  const Span drains = std::min<Span>(history_.usual * 5 / 4, (deadline_ - began_) / kLongestWait);
  if (alignments_ > 0) due = std::max(due, aligned_at_ + drains);
  if (figures_.rounds > 0) return due;
  return std::max(due, began_ + drains);
}

// When a call may be made behind work. A unit that is alone waits for no other: its work is long, and would
// be longer with each call.
base::MonoTime QuiescePlanner::BehindAt() const {
  if (units_.size() == 1) return deadline_;
  Span patience = AllWork() ? settings_.behind_patience : settings_.host_patience;
  const unsigned uses = AllWork() ? behind_uses_ : host_uses_;
  for (unsigned i = 0; i < uses && patience < deadline_ - began_; ++i)
    patience = patience * (AllWork() ? 3 : 4) / 2;
  const bool any = std::any_of(units_.begin(), units_.end(), [](const auto& unit) {
    return unit.second.waits && unit.second.takes_grants;
  });
  return any ? changed_ + patience : deadline_;
}

QuiesceDecision QuiescePlanner::GrantCalls(base::MonoTime now) {
  const std::vector<ProcessGpuId> candidates = Choose();
  if (figures_.leaps >= settings_.one_by_one)
    return Order({{LeastGranted(candidates), 1, 0, true, false}}, now);
  if (figures_.leaps >= settings_.together)
    return Order({{LeastGranted(candidates), kCalls, 0, true, false}}, now);
  std::map<base::ProcessId, std::vector<ProcessGpuId>> by_process;
  for (const ProcessGpuId& unit : candidates) by_process[unit.process].push_back(unit);
  std::vector<GateCallGrant> grants;
  for (const auto& [process, units] : by_process) {
    const ProcessGpuId unit = LeastGranted(units);
    grants.push_back(
        {unit, StrideOf(unit) == kLongestStride ? kMaxCalls : kCalls, StrideOf(unit), false, false});
  }
  return Order(std::move(grants), now);
}

// One grant for each process that is behind and has a thread at its gate.
std::vector<GateCallGrant> QuiescePlanner::GrantsToAlign() const {
  std::vector<GateCallGrant> grants;
  if (!all_shut_ || !open_.empty() || alignments_ >= kAlignments + 2 * shifts_ || AnyForRoom()) return grants;
  std::map<base::ProcessId, unsigned> behind = history_.lockstep.Behind(Calls());
  for (const auto& [id, unit] : units_) {
    const auto by = behind.find(id.process);
    if (by == behind.end() || by->second == 0 || !unit.waits || !unit.takes_grants) continue;
    grants.push_back({id, by->second, 0, false, true});
    behind.erase(by);
  }
  return grants;
}

// A few calls for each process, if none is behind and that has been right before.
std::vector<GateCallGrant> QuiescePlanner::GrantsToShift() const {
  std::vector<GateCallGrant> grants;
  if (!all_shut_ || !open_.empty() || shifts_ >= kShifts || AnyForRoom() || AllWork() ||
      !history_.lockstep.proven)
    return grants;
  const std::map<base::ProcessId, unsigned> behind = history_.lockstep.Behind(Calls());
  if (std::any_of(behind.begin(), behind.end(), [](const auto& by) { return by.second != 0; })) return grants;
  std::set<base::ProcessId> chosen;
  for (const auto& [id, unit] : units_)
    if (behind.count(id.process) != 0 && unit.waits && unit.takes_grants && chosen.insert(id.process).second)
      grants.push_back({id, kShift, 0, false, true});
  return grants;
}

// Where the hosts are does not depend on how long their GPUs work.
base::MonoTime QuiescePlanner::AlignAt() const {
  return (alignments_ == 0 ? shut_changed_ : changed_) + settings_.settle;
}

QuiesceDecision QuiescePlanner::Align(std::vector<GateCallGrant> grants, base::MonoTime now) {
  EndRound();
  ++alignments_;
  aligned_at_ = now;
  QuiesceDecision decision = Order(std::move(grants), now);
  behind_ = aligning_ = true;
  return decision;
}

// Returns the candidates that the working units most probably wait for. Links may be wrong: if grants by them
// do not help the longest working unit, every second round takes all.
std::vector<ProcessGpuId> QuiescePlanner::Choose() {
  std::vector<ProcessGpuId> all = Candidates(), linked = Linked(all);
  if (linked.empty()) return all;
  if (const auto longest = LongestWorking(); longest != target_) {
    target_ = longest;
    linked_rounds_ = 0;
  }
  return ++linked_rounds_ <= kLinkedRounds || linked_rounds_ % 2 == 0 ? linked : all;
}

// Nobody rests and waits, so any that waits may be the one whose call is needed. Where all work, each process
// may make a call. Where the host of some unit computes, the others most probably wait for it, and go ahead
// of it with each call: one may make a call, each in its turn.
QuiesceDecision QuiescePlanner::GrantBehind(base::MonoTime now) {
  std::map<base::ProcessId, ProcessGpuId> chosen;
  const auto fewer = [&](const ProcessGpuId& a, const ProcessGpuId& b) {
    return units_.at(a).behind < units_.at(b).behind;
  };
  for (const auto& [id, unit] : units_) {
    if (!unit.waits || !unit.takes_grants) continue;
    const auto [place, is_first] = chosen.try_emplace(AllWork() ? id.process : base::ProcessId{}, id);
    if (!is_first && fewer(id, place->second)) place->second = id;
  }
  ++(AllWork() ? behind_uses_ : host_uses_);
  std::vector<GateCallGrant> grants;
  for (const auto& [process, unit] : chosen) {
    ++units_.at(unit).behind;
    grants.push_back({unit, 1, 0, false, true});
  }
  QuiesceDecision decision = Order(std::move(grants), now);
  behind_ = true;
  return decision;
}

QuiesceDecision QuiescePlanner::Order(std::vector<GateCallGrant> grants, base::MonoTime now) {
  if (figures_.rounds++ == 0) LearnUsual();
  behind_ = aligning_ = false;
  worked_.clear();
  for (auto& [id, unit] : units_) {
    if (!unit.works) continue;
    worked_.insert(id);
    unit.run = 0;
  }
  for (const GateCallGrant& grant : grants) {
    granted_.insert(grant.unit);
    open_[grant.unit.process] = grant;
  }
  changed_ = now;
  return {QuiesceDecision::Kind::kGrant, std::move(grants), deadline_};
}

// A unit that has made many calls without having to wait is far behind, and may overshoot by an eighth of
// that.
unsigned QuiescePlanner::StrideOf(const ProcessGpuId& unit) const {
  return std::min(static_cast<unsigned>(std::bit_width(units_.at(unit).run / 16)), kLongestStride);
}

ProcessGpuId QuiescePlanner::LeastGranted(const std::vector<ProcessGpuId>& candidates) const {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const ProcessGpuId& a, const ProcessGpuId& b) {
                             return std::pair(units_.at(a).calls, a) < std::pair(units_.at(b).calls, b);
                           });
}

// The first candidates on the way from the longest working unit (while all are granted calls at once: from
// any) along `freed_by`, through units that work.
std::vector<ProcessGpuId> QuiescePlanner::Linked(const std::vector<ProcessGpuId>& candidates) const {
  std::vector<ProcessGpuId> found, level;
  if (figures_.leaps < settings_.together) {
    for (const auto& [id, unit] : units_)
      if (unit.works) level.push_back(id);
  } else if (const auto longest = LongestWorking()) {
    level.push_back(*longest);
  }
  std::set<ProcessGpuId> seen(level.begin(), level.end());
  while (!level.empty() && found.empty()) {
    std::vector<ProcessGpuId> next;
    for (const ProcessGpuId& unit : level) {
      const auto links = history_.freed_by.find(unit);
      if (links == history_.freed_by.end()) continue;
      const unsigned strongest = Strongest(links->second);
      for (const auto& [other, weight] : links->second) {
        if (weight * 2 < strongest || !seen.insert(other).second) continue;
        if (std::binary_search(candidates.begin(), candidates.end(), other)) found.push_back(other);
        if (const auto through = units_.find(other); through != units_.end() && through->second.works)
          next.push_back(other);
      }
    }
    level = std::move(next);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace gpuman::share
