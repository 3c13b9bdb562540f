// The output of a job as lines that a screen can show. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuman::cli::top {

// Of a line that was written over (a progress bar, by '\r') the last writing; without the sequences that
// terminals obey (colours), tabs as blanks, the rest printable.
std::vector<std::string> LogLines(std::string_view text);

}  // namespace gpuman::cli::top
