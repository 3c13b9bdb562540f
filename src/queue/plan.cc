#include "queue/plan.h"

#include "base/words.h"

namespace gpuman::queue {
namespace {

constexpr base::Words<Reason, 16> kReasons{{
    {Reason::kStarts, ""},
    {Reason::kHeld, "held_by_user"},
    {Reason::kPaused, "paused"},
    {Reason::kDependency, "dependency"},
    {Reason::kDependencyNever, "dependency_never"},
    {Reason::kBeginTime, "begin_time"},
    {Reason::kRetryDelay, "retry_delay"},
    {Reason::kArrayLimit, "array_limit"},
    {Reason::kGroupLimit, "group_limit"},
    {Reason::kQuota, "quota"},
    {Reason::kReservation, "reservation"},
    {Reason::kUnmanaged, "unmanaged"},
    {Reason::kUnavailable, "unavailable"},
    {Reason::kResources, "resources"},
    {Reason::kPriority, "priority"},
    {Reason::kMakingRoom, "making_room"},
}};

}  // namespace

std::string_view ToString(Reason reason) { return base::WordOf(kReasons, reason); }

}  // namespace gpuman::queue
