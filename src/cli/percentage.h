// Parses a share of a GPU's threads as users write it.
#pragma once

#include <string_view>

#include "base/result.h"

namespace gpuman::cli {

// "50%", "12.5%" or without the sign, from 1 to 100; kInvalidArgument for anything else.
base::Result<double> ParsePercentage(std::string_view text);

}  // namespace gpuman::cli
