// Counts runs that have ended for fair share and quotas, as long as they count.
#include <algorithm>
#include <iterator>

#include "daemon/queue/dispatcher.h"

namespace gpuman::daemon {

using queue::WallTime;

void Dispatcher::UpdateWindows(WallTime now) {
  for (auto it = windows_.begin(); it != windows_.end();) {
    auto& [account, window] = *it;
    window.Forget(now);
    updater_.SetWindow(account.first, account.second, window.GpuSeconds(), window.Relief());
    it = window.IsEmpty() ? windows_.erase(it) : std::next(it);
  }
}

void Dispatcher::ForgetOldAccounts() {
  const auto now = clock_.Wall();
  UpdateWindows(now);
  updater_.Forget(now);
  MarkChanged();
}

void Dispatcher::Charge(const jobs::RunAccount& run) {
  queue::UsageRate rate;
  rate.gpus = static_cast<double>(run.gpus.size());
  for (const auto& gpu : guard_.inventory().gpus)
    if (std::count(run.gpus.begin(), run.gpus.end(), gpu.uuid) > 0 && gpu.memory.count > 0)
      rate.memory +=
          std::min(1.0, static_cast<double>(run.memory.count) / static_cast<double>(gpu.memory.count));
  using Kind = queue::AccountKind;
  const auto from = run.ended - run.ran;
  windows_.try_emplace({Kind::kUser, run.user}, window_).first->second.Add(rate.gpus, from, run.ended);
  if (!run.project.empty())
    windows_.try_emplace({Kind::kProject, run.project}, window_)
        .first->second.Add(rate.gpus, from, run.ended);
  updater_.Charge(run.user, run.project, rate, run.ended - run.ran, run.ended);
}

}  // namespace gpuman::daemon
