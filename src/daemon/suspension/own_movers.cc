#include "daemon/suspension/own_movers.h"

#include <utility>
#include <vector>

#include "base/json.h"

namespace gpuman::daemon {
namespace {

constexpr base::json::JsonFormat kFormat{};

struct KeptMovers {
  std::string boot;
  std::vector<base::ProcessId> movers;
};

template <typename V, base::json::Of<KeptMovers> T>
void Fields(V& v, T& x) {
  v.Required("boot", x.boot);
  v.Required("movers", x.movers);
}

}  // namespace

base::Result<> OwnMovers::Recall(std::string_view record, base::MonoTime now) {
  GPUMAN_ASSIGN(const auto kept, base::json::FromText<KeptMovers>(record, kFormat, "the stored movers"));
  if (kept.boot != boot_) return {};
  for (const auto& mover : kept.movers) movers_[mover] = now;
  return {};
}

bool OwnMovers::Refresh(const std::set<pid_t>& linked,
                        const std::function<bool(const base::ProcessId&)>& is_there, base::MonoTime now) {
  for (auto& [mover, let_go] : movers_)
    if (!let_go && !linked.contains(mover.pid)) let_go = now;
  return std::erase_if(movers_, [&](const auto& known) {
           const auto& [mover, let_go] = known;
           return !is_there(mover) || (let_go && now - *let_go >= kFarewell);
         }) > 0;
}

std::set<pid_t> OwnMovers::Pids() const {
  std::set<pid_t> pids;
  for (const auto& [mover, let_go] : movers_) pids.insert(mover.pid);
  return pids;
}

std::string OwnMovers::Record() const {
  KeptMovers kept{boot_, {}};
  for (const auto& [mover, let_go] : movers_) kept.movers.push_back(mover);
  return base::json::ToText(kept, kFormat);
}

}  // namespace gpuman::daemon
