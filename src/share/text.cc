#include "share/text.h"

#include <fmt/format.h>

namespace gpuman::share {
namespace {

std::string Job(TenantId id) { return fmt::format("job {}", id.value); }

std::string Because(const std::string& why) { return why.empty() ? std::string() : ": " + why; }

std::string OfIt(base::Bytes unchanged) {
  return unchanged.count == 0 ? std::string() : fmt::format(", {} of it not copied", unchanged.count);
}

std::string ShareOf(const std::optional<ComputeShare>& share) {
  return share ? fmt::format(", {:g} % of the time{}", 100 * share->part, share->may_exceed ? " or more" : "")
               : std::string();
}

struct TextVisitor {
  std::string operator()(const event::Joined& e) const {
    return Job(e.tenant) + " joined" + ShareOf(e.options.compute);
  }
  std::string operator()(const event::Left& e) const { return Job(e.tenant) + " left"; }
  std::string operator()(const event::DemandChanged& e) const {
    std::string text = Job(e.tenant) + " demands";
    for (const auto& [gpu, d] : e.gpus)
      text += fmt::format(" {}: resident {}, away {}, pinned {}, wants {}", gpu, d.resident.count,
                          d.away.count, d.pinned.count, d.wants.count);
    return text;
  }
  std::string operator()(const event::ActivityChanged& e) const {
    return fmt::format("{} is {}", Job(e.tenant), ToString(e.activity));
  }
  std::string operator()(const event::Completed& e) const {
    return fmt::format("{} completed {}", Job(e.tenant), e.count);
  }
  std::string operator()(const event::GateClosed& e) const { return Job(e.tenant) + " closed"; }
  std::string operator()(const event::GateNotClosed& e) const {
    return Job(e.tenant) + " not closed" + (e.for_room ? " before it has room" : "") + Because(e.why);
  }
  std::string operator()(const event::ResponsivenessChanged& e) const {
    return Job(e.tenant) + (e.answers ? " answers" : " does not answer") + Because(e.why);
  }
  std::string operator()(const event::MovedOut& e) const {
    return fmt::format("{} moved out {} of {}{}", Job(e.tenant), e.bytes.count, e.gpu, OfIt(e.unchanged));
  }
  std::string operator()(const event::EvictDone& e) const {
    return fmt::format("{} is out of {}", Job(e.tenant), e.gpu) + Because(e.why);
  }
  std::string operator()(const event::MovedIn& e) const {
    return fmt::format("{} has {} back on {}{}", Job(e.tenant), e.bytes.count, e.gpu, OfIt(e.unchanged));
  }
  std::string operator()(const event::RestoreDone& e) const {
    return Job(e.tenant) + " is back" + Because(e.why);
  }
  std::string operator()(const event::Suspended& e) const { return Job(e.tenant) + " suspended"; }
  std::string operator()(const event::Unsuspended& e) const { return Job(e.tenant) + " unsuspended"; }
  std::string operator()(const event::OptionsChanged& e) const {
    const TenantOptions& is = e.options;
    return fmt::format("{} weighs {}, priority {}{}{}{}", Job(e.tenant), is.weight, is.priority,
                       is.interactive ? ", interactive" : "", ShareOf(is.compute),
                       is.latency ? ", goes first" : "");
  }
  std::string operator()(const event::SettingsChanged&) const { return "settings changed"; }
  std::string operator()(const event::CapacityChanged& e) const {
    return fmt::format("{} has room for {}", e.gpu, e.bytes.count);
  }
  std::string operator()(const event::Tick&) const { return "tick"; }

  std::string operator()(const action::Open& a) const { return "open " + Job(a.tenant); }
  std::string operator()(const action::Close& a) const {
    return "close " + Job(a.tenant) + (a.in_part ? " in part" : "");
  }
  std::string operator()(const action::Evict& a) const {
    return fmt::format("evict {} of {} on {}", a.bytes.count, Job(a.tenant), a.gpu);
  }
  std::string operator()(const action::Restore& a) const { return "restore " + Job(a.tenant); }
  std::string operator()(const action::CancelRestore& a) const { return "cancel restore of " + Job(a.tenant); }
  std::string operator()(const action::MemoryGrant& a) const {
    return fmt::format("grant {} {} on {}{}", Job(a.tenant), a.bytes.count, a.gpu,
                       a.for_restore ? " to come back" : "");
  }
  std::string operator()(const action::Deny& a) const {
    return fmt::format("deny {} on {}{}", Job(a.tenant), a.gpu, a.for_others ? " for others" : "");
  }
  std::string operator()(const action::Escalate& a) const {
    return (a.forced ? "force " : "escalate ") + Job(a.tenant) + Because(a.why);
  }
  std::string operator()(const action::EventReport& a) const {
    return fmt::format("report {} {}", Job(a.tenant), a.kind) + Because(a.message);
  }
};

}  // namespace

std::string_view ToString(TenantActivity activity) {
  switch (activity) {
    case TenantActivity::kUnknown:
      return "unknown";
    case TenantActivity::kBusy:
      return "busy";
    case TenantActivity::kIdle:
      return "idle";
    case TenantActivity::kWaiting:
      return "waiting";
  }
  return "unknown";
}

std::string TextOf(const Event& event) { return std::visit(TextVisitor{}, event); }
std::string TextOf(const Action& action) { return std::visit(TextVisitor{}, action); }

}  // namespace gpuman::share
