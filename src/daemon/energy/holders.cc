#include "daemon/energy/holders.h"

#include <algorithm>
#include <iterator>

namespace gpuman::daemon {
namespace {

using Present = std::vector<GpuOccupant>;

// Leaves only those of which `is` is true, if there are any.
template <typename Is>
void Prefer(Present& present, Is is) {
  if (std::any_of(present.begin(), present.end(), is))
    std::erase_if(present, [&](const GpuOccupant& one) { return !is(one); });
}

}  // namespace

energy::Holders HoldersOf(Present present) {
  Present moving;
  std::copy_if(present.begin(), present.end(), std::back_inserter(moving),
               [](const auto& one) { return one.moves; });
  std::erase_if(present, [](const GpuOccupant& one) { return one.moves; });
  Prefer(present, [](const GpuOccupant& one) { return one.process; });
  const bool known = std::all_of(present.begin(), present.end(),
                                 [](const GpuOccupant& one) { return one.work.has_value(); });
  double all = 0;
  for (const GpuOccupant& one : present) all += one.work.value_or(0);
  const bool by_work = known && all > 0;
  if (by_work)
    Prefer(present, [](const GpuOccupant& one) { return *one.work > 0; });
  else
    Prefer(present, [](const GpuOccupant& one) { return !one.idle; });
  energy::Holders holders;
  for (const GpuOccupant& one : present) {
    const double part = one.work.value_or(0) / std::max(all, 1.0) * static_cast<double>(present.size());
    holders.push_back({one.job, by_work ? part : 1, false});
  }
  for (const GpuOccupant& one : moving) holders.push_back({one.job, 1, true});
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) { return a.job < b.job; });
  return holders;
}

}  // namespace gpuman::daemon
