#include "daemon/queue/submission_claims.h"

#include <algorithm>
#include <utility>

#include "jobs/job_manager.h"
#include "queue/admission.h"

namespace gpuman::daemon {
namespace {

using base::Result;
using queue::AccountKind;

constexpr std::size_t kMax = 1'000'000'000;  // more than any bound

bool HaveSameDependencies(const jobs::Job& a, const jobs::Job& b) {
  return a.spec.pointer() == b.spec.pointer() || a.spec->depends == b.spec->depends;
}

}  // namespace

// Neighbouring jobs mostly have the same user, project and dependencies. Text that jobs share counts once.
SubmissionClaims::Counts SubmissionClaims::CountOf(const std::vector<jobs::Job>& prepared) {
  Counts counts;
  std::map<uid_t, jobs::TextAccount> texts;
  for (std::size_t from = 0, to = 0; from < prepared.size(); from = to) {
    const auto& first = prepared[from];
    while (to < prepared.size() && prepared[to].owner->uid == first.owner->uid &&
           prepared[to].spec->project == first.spec->project)
      ++to;
    const int count = static_cast<int>(to - from);
    counts.jobs[{AccountKind::kUser, first.owner->user}] += count;
    if (first.spec->project) counts.jobs[{AccountKind::kProject, *first.spec->project}] += count;
    auto& text = texts[first.owner->uid];
    std::size_t dependencies = 0;
    for (std::size_t at = from; at < to; ++at) {
      text.Add(jobs::TextAccount::EntryOf(prepared[at]));
      const auto& depends = prepared[at].spec->depends;
      if (at == from || !HaveSameDependencies(prepared[at - 1], prepared[at]))
        dependencies += depends.list.size();
    }
    if (dependencies > 0) {
      auto& [user, all] = counts.dependencies[first.owner->uid];
      user = first.owner->user;
      all += dependencies;
    }
    counts.text[first.owner->uid] = {*first.owner, text.bytes()};
  }
  return counts;
}

Result<> SubmissionClaims::MayQueue(const Counts& counts) {
  for (const auto& [account, count] : counts.jobs) {
    const auto& [kind, name] = account;
    const bool user = kind == AccountKind::kUser;
    const auto row = updater_.AccountOf(kind, name);
    const auto& snapshot = updater_.snapshot();
    const auto claimed = claimed_.find(account);
    const int queued = updater_.Queued(kind, name) + (claimed == claimed_.end() ? 0 : claimed->second);
    GPUMAN_TRY(queue::MayQueue(user ? snapshot.users[row] : snapshot.projects[row], user ? "user" : "project",
                               queued, count));
  }
  for (const auto& [user, text] : counts.text) {
    const auto claimed = claimed_text_.find(user);
    const auto& [owner, more] = text;
    GPUMAN_TRY(
        jobs_.MayAddText(owner, claimed == claimed_text_.end() ? base::Bytes{} : claimed->second, more));
  }
  for (const auto& [uid, dependencies] : counts.dependencies) {
    const auto claimed = claimed_dependencies_.find(uid);
    const auto& [user, more] = dependencies;
    const std::size_t on_their_way = claimed == claimed_dependencies_.end() ? 0 : claimed->second;
    GPUMAN_TRY(queue::MayDepend(user, dependents_.CountOf(uid) + on_their_way, more));
  }
  return {};
}

Result<SubmissionClaims::Claim> SubmissionClaims::TakeForUser(const jobs::JobOwner& owner, std::size_t jobs,
                                                              base::Bytes text) {
  Counts counts;
  counts.jobs[{AccountKind::kUser, owner.user}] = static_cast<int>(std::min<std::size_t>(jobs, kMax));
  counts.text[owner.uid] = {owner, text};
  GPUMAN_TRY(MayQueue(counts));
  return Take(std::move(counts));
}

Result<SubmissionClaims::Claim> SubmissionClaims::TakeForChange(const jobs::Job& changed) {
  const auto* const stored = jobs_.Find(changed.id);
  if (!stored) return Claim{};
  Counts counts;
  const auto& project = changed.spec->project;
  if (project && stored->spec->project != project) counts.jobs[{AccountKind::kProject, *project}] = 1;
  const uid_t user = changed.owner->uid;
  const bool depends_anew = !HaveSameDependencies(*stored, changed);
  if (const auto more = depends_anew ? dependents_.MoreWith(changed.id, user, changed.spec->depends) : 0;
      more > 0)
    counts.dependencies[user] = {changed.owner->user, more};
  if (counts.jobs.empty() && counts.dependencies.empty()) return Claim{};
  GPUMAN_TRY(MayQueue(counts));
  return Take(std::move(counts));
}

SubmissionClaims::Claim SubmissionClaims::Take(Counts counts) {
  for (const auto& [account, count] : counts.jobs) claimed_[account] += count;
  for (const auto& [user, text] : counts.text) claimed_text_[user] += text.second;
  for (const auto& [user, dependencies] : counts.dependencies)
    claimed_dependencies_[user] += dependencies.second;
  return {nullptr, self_.Bind([counts = std::move(counts)](SubmissionClaims& me, void*) {
            auto& claimed = me.claimed_;
            for (const auto& [account, count] : counts.jobs)
              if (const auto it = claimed.find(account); it != claimed.end() && (it->second -= count) == 0)
                claimed.erase(it);
            auto& texts = me.claimed_text_;
            for (const auto& [user, text] : counts.text)
              if (const auto it = texts.find(user);
                  it != texts.end() && (it->second = it->second - text.second).count == 0)
                texts.erase(it);
            auto& all = me.claimed_dependencies_;
            for (const auto& [user, dependencies] : counts.dependencies)
              if (const auto it = all.find(user); it != all.end() && (it->second -= dependencies.second) == 0)
                all.erase(it);
          })};
}

}  // namespace gpuman::daemon
