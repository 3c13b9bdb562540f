#include "queue/plan.h"

#include "base/words.h"

namespace gpuman::queue {
namespace {

constexpr base::Words<WaitReason, 16> kReasons{{
    {WaitReason::kStarts, ""},
    {WaitReason::kHeld, "held_by_user"},
    {WaitReason::kPaused, "paused"},
    {WaitReason::kDependency, "dependency"},
    {WaitReason::kDependencyNever, "dependency_never"},
    {WaitReason::kBeginTime, "begin_time"},
    {WaitReason::kRetryDelay, "retry_delay"},
    {WaitReason::kArrayLimit, "array_limit"},
    {WaitReason::kGroupLimit, "group_limit"},
    {WaitReason::kQuota, "quota"},
    {WaitReason::kReservation, "reservation"},
    {WaitReason::kUnmanaged, "unmanaged"},
    {WaitReason::kUnavailable, "unavailable"},
    {WaitReason::kResources, "resources"},
    {WaitReason::kPriority, "priority"},
    {WaitReason::kMakingRoom, "making_room"},
}};

}  // namespace

std::string_view ToString(WaitReason reason) { return base::WordOf(kReasons, reason); }

}  // namespace gpuman::queue
