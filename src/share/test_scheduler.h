// A scheduler of one GPU, event by event, for the tests of this folder.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "share/scheduler.h"

namespace gpuman::share {

using base::GiB;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

inline constexpr TenantId kA{1}, kB{2}, kC{3};

// Tells a scheduler of one GPU of 16 GiB what happens, and keeps its actions until the test looks at them.
class ShareScheduler : public testing::Test {
 protected:
  ShareScheduler() { Tell(event::CapacityChanged{"gpu", GiB(16)}); }

  void Tell(const Event& event) {
    for (Action& action : scheduler_.On(event, now_)) said_.push_back(std::move(action));
  }
  void Pass(Span span) { now_ += span; }
  void Tick() {
    const auto deadline = scheduler_.Deadline();
    ASSERT_TRUE(deadline);
    now_ = std::max(now_, *deadline);
    Tell(event::Tick{});
  }
  void Has(TenantId tenant, base::Bytes resident, base::Bytes away = {}, base::Bytes wants = {}) {
    Tell(event::DemandChanged{tenant, {{"gpu", {resident, away, {}, wants}}}});
  }
  // A tenant that runs with so much.
  void Join(TenantId tenant, base::Bytes resident, double weight = 1, int priority = 0) {
    Tell(event::Joined{tenant, {weight, priority}});
    Has(tenant, resident);
    Is(tenant, TenantActivity::kBusy);
  }
  // The same with managed memory.
  void JoinManaged(TenantId tenant, base::Bytes managed, GatePosition gate = GatePosition::kOpen) {
    Tell(event::Joined{tenant, {}, gate});
    HasManaged(tenant, managed);
    Is(tenant, gate == GatePosition::kOpen ? TenantActivity::kBusy : TenantActivity::kWaiting);
  }
  void HasManaged(TenantId tenant, base::Bytes managed) {
    Tell(event::DemandChanged{tenant, {{"gpu", {{}, {}, {}, {}, managed}}}});
  }
  // A tenant whose memory is away, and that waits at its gate.
  void JoinAway(TenantId tenant, base::Bytes away, double weight = 1, int priority = 0) {
    Tell(event::Joined{tenant, {weight, priority}, GatePosition::kClosed});
    Tell(event::ActivityChanged{tenant, TenantActivity::kIdle, now_});
    Has(tenant, {}, away);
  }
  void Is(TenantId tenant, TenantActivity activity) { Tell(event::ActivityChanged{tenant, activity, now_}); }

  // The actions since the last look, without reports.
  template <typename Kind>
  std::vector<Kind> Said() {
    std::vector<Kind> found;
    std::vector<Action> rest;
    for (Action& action : said_) {
      if (auto* each = std::get_if<Kind>(&action))
        found.push_back(std::move(*each));
      else
        rest.push_back(std::move(action));
    }
    said_ = std::move(rest);
    return found;
  }
  template <typename Kind>
  Kind One() {
    std::vector<Kind> found = Said<Kind>();
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? Kind{} : found.front();
  }
  bool Silent() { return said_.empty(); }
  void CloseNow(TenantId tenant) {
    const auto close = One<action::Close>();
    EXPECT_EQ(close.tenant, tenant);
    Tell(event::GateClosed{tenant, close.order});
  }

  base::MonoTime now_{1h};
  Scheduler scheduler_{SchedulerSettings{}};
  std::vector<Action> said_;
};

}  // namespace gpuman::share
