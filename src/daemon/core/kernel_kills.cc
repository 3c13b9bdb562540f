#include "daemon/core/kernel_kills.h"

#include <algorithm>
#include <variant>

#include "base/boot.h"
#include "base/text.h"

namespace gpuman::daemon {
namespace {

// The loop waits for one call: 8 MiB of records take a tenth of a second, and few kernels keep as much. The
// next call goes on there.
constexpr std::size_t kLogAtOnce = 8U << 20U;
// A user can have many processes ended in a cgroup.
constexpr std::size_t kKillsKept = 4'096;

}  // namespace

std::optional<jobs::KernelKill> KernelKills::Find(const jobs::Job& job, const keeper::JournalRecord& record) {
  const auto* const ended = std::get_if<keeper::RunEnded>(&record.body);
  if (!ended || !job.process || job.boot_id.empty() || job.boot_id != base::BootId()) return std::nullopt;
  ReadLog();
  const auto kill = std::find_if(kills_.rbegin(), kills_.rend(), [&](const jobs::KernelKill& one) {
    return jobs::IsEndOf(one, job.process->pid, record.mono, ended->lasted) ||
           jobs::IsWithinEndOf(one, job.cgroup, record.mono, ended->lasted);
  });
  return kill == kills_.rend() ? std::nullopt : std::optional(*kill);
}

void KernelKills::ReadLog() {
  if (path_.empty()) return;
  if (!log_) {
    auto log = base::KernelLog::Open(path_);
    if (!log) return;  // not for this user, or not there
    log_ = std::move(*log);
  }
  const auto text = log_->ReadMore(kLogAtOnce);
  if (!text) return log_.reset();
  for (std::string_view rest = *text; !rest.empty();) {
    const auto line = base::TakeUntil(rest, '\n');
    if (auto victim = jobs::ParseKernelVictim(line)) victim_ = std::move(victim);
    auto kill = jobs::ParseKernelKill(line);
    if (!kill) continue;
    if (victim_ && victim_->pid == kill->pid) kill->cgroup = victim_->cgroup;
    kills_.push_back(std::move(*kill));
  }
  while (kills_.size() > kKillsKept) kills_.pop_front();
}

}  // namespace gpuman::daemon
