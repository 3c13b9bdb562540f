// The page of one job: facts, memory over time, states over time, why, and the end of its log. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/top/picture.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

// At most `rows` lines for State::job_page, which must be there. The log has what the rest leaves, at least a
// third.
std::vector<Line> JobPageLines(const State& state, std::size_t columns, std::size_t rows);

// The most that the log can be scrolled back on a page of that size.
std::size_t MostBack(const State& state, std::size_t columns, std::size_t rows);

}  // namespace gpuman::cli::top
