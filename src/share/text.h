// Events and actions in words, for the log. Pure.
#pragma once

#include <string>
#include <string_view>

#include "share/events.h"

namespace gpuman::share {

// Such as "moved_out job 3 268435456 bytes of GPU-…".
std::string TextOf(const Event& event);
std::string TextOf(const Action& action);
std::string_view ToString(TenantActivity activity);

}  // namespace gpuman::share
