// Draws `gpuman top`. Pure: the same state gives the same picture.
#pragma once

#include "cli/top/picture.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

Picture Draw(const State& state);

// "1 Jobs", …
std::string_view TitleOf(Page page);

// The rows of the screen that the page of a job has.
std::size_t RowsOfJobPage(const State& state);

}  // namespace gpuman::cli::top
