// The secret of a page, and the link that has it. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::web {

// A new secret: 128 bits of the kernel's random numbers, in characters that a link may have.
base::Result<std::string> NewSecret();

// `address`: "127.0.0.1:8790". Behind "#" the secret stays in the browser: it is in no request, no log and no
// other page's referrer.
std::string LinkTo(std::string_view address, std::string_view secret);

}  // namespace gpuman::web
