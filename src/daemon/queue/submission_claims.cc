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

}  // namespace

// Neighbouring jobs mostly have the same user and project. Text that jobs share counts once.
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
    for (std::size_t at = from; at < to; ++at) text.Add(jobs::TextAccount::EntryOf(prepared[at]));
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

Result<SubmissionClaims::Claim> SubmissionClaims::TakeForProject(const jobs::Job& changed) {
  const auto* const stored = jobs_.Find(changed.id);
  const auto& project = changed.spec->project;
  if (!project || !stored || stored->spec->project == project) return Claim{};
  Counts counts;
  counts.jobs[{AccountKind::kProject, *project}] = 1;
  GPUMAN_TRY(MayQueue(counts));
  return Take(std::move(counts));
}

SubmissionClaims::Claim SubmissionClaims::Take(Counts counts) {
  for (const auto& [account, count] : counts.jobs) claimed_[account] += count;
  for (const auto& [user, text] : counts.text) claimed_text_[user] += text.second;
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
          })};
}

}  // namespace gpuman::daemon
