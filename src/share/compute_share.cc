#include "share/compute_share.h"

#include <algorithm>
#include <map>
#include <string>

#include "share/policy.h"
#include "share/seconds.h"
#include "share/tenant.h"

namespace gpuman::share {
namespace {

// A tenant saves up so much of its time while others have the GPU.
constexpr double kMaxSaved = 0.25;  // GPU seconds
constexpr double kNothing = 1e-7;
constexpr Span kPiece = std::chrono::milliseconds(100);

bool IsOfOthers(const Tenant& tenant) { return !tenant.options.compute; }

}  // namespace

void ShareBudget::Pass(Span passed, Span used, double part, Span turn) {
  turn_ = Seconds(turn);
  seconds_ += Seconds(passed) * part - Seconds(used);
  Limit();
}

void ShareBudget::Refund(Span span) {
  seconds_ += Seconds(std::max(span, Span{}));
  Limit();
}

void ShareBudget::Limit() {
  seconds_ = std::clamp(seconds_, -kMaxOwed, std::max(turn_, kMaxSaved));
  spent_ = spent_ ? seconds_ < turn_ - kNothing : seconds_ <= kNothing;
}

Span ShareBudget::ChangesIn(bool has_gpu, double part) const {
  const double rate = has_gpu ? part - 1 : part;  // at which it grows
  const double change = (spent_ ? turn_ : 0) - seconds_;
  if (rate == 0 || change / rate < 0) return Span::max();
  return FromSeconds(std::min(change / rate, 1e6)) + std::chrono::microseconds(1);
}

void RecentUse::Add(base::MonoTime now, Span passed, Span used) {
  if (!pieces_.empty() && pieces_.back().passed < kPiece) {
    pieces_.back().end = now;
    pieces_.back().passed += passed;
    pieces_.back().used += used;
  } else {
    pieces_.push_back({now, passed, used});
  }
  while (pieces_.size() > 1 && pieces_.front().end + kRemembered < now) pieces_.pop_front();
}

std::optional<double> RecentUse::Part() const {
  Span passed{}, used{};
  for (const Piece& piece : pieces_) {
    passed += piece.passed;
    used += piece.used;
  }
  if (passed <= Span{}) return std::nullopt;
  return Seconds(used) / Seconds(passed);
}

bool HaveTurnsByShare(const Group& tenants) {
  return std::any_of(tenants.begin(), tenants.end(), [&](const Tenant* tenant) {
    if (!tenant->options.compute || tenant->parked) return false;
    return tenant->HasUpperLimit() ||
           std::any_of(tenants.begin(), tenants.end(), [tenant](const Tenant* other) {
             return other != tenant && !other->parked && other->Meets(*tenant);
           });
  });
}

void SetTimeParts(const Group& tenants) {
  if (!HaveTurnsByShare(tenants)) {
    for (Tenant* tenant : tenants) tenant->time_part = 0;
    return;
  }
  struct Gpu {
    double asked = 0, weights = 0;  // by those with a share; of the others
    double Others() const { return weights > 0 ? std::max(1 - asked, kPartOfOthers) : 0; }
    double Factor() const { return asked > 1 - Others() ? (1 - Others()) / asked : 1; }
  };
  std::map<std::string, Gpu> gpus;
  for (const Tenant* tenant : tenants) {
    if (tenant->parked) continue;
    for (const auto& [gpu, state] : tenant->parts)
      IsOfOthers(*tenant) ? gpus[gpu].weights += tenant->options.weight
                          : gpus[gpu].asked += tenant->options.compute->part;
  }
  for (Tenant* tenant : tenants) {
    tenant->time_part =
        1;  // a tenant on several GPUs has its turn on all of them: what the fullest of them has
    for (const auto& [name, state] : tenant->parts) {
      const Gpu& gpu = gpus[name];
      const double part = IsOfOthers(*tenant)
                              ? gpu.Others() * tenant->options.weight / std::max(gpu.weights, 1e-9)
                              : tenant->options.compute->part * gpu.Factor();
      tenant->time_part = std::min(tenant->time_part, part);
    }
    tenant->time_part = std::max(tenant->time_part, 1e-4);
  }
}

void ChargeShares(const Group& tenants, Span passed, Span turn, base::MonoTime now) {
  const Contention contention = ContentionOf(tenants);
  for (Tenant* tenant : tenants) {
    if (tenant->time_part == 0) continue;
    const bool has_gpu = tenant->IsComingToRest() || (HasTurn(*tenant) && IsCharged(*tenant, contention));
    const Span used = has_gpu ? passed : Span{};
    if (tenant->HasUpperLimit()) tenant->budget.Pass(passed, used, tenant->options.compute->part, turn);
    tenant->recent_use.Add(now, passed, used);
  }
}

}  // namespace gpuman::share
