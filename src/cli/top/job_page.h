// The page of one job: facts, memory over time, states over time, why, and the end of its log. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/top/picture.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

// Returns at most `rows` lines. State::job_page must have a value. The log gets the rows that the other parts
// leave, at least a third of them all.
std::vector<Line> JobPageLines(const State& state, std::size_t columns, std::size_t rows);

// Returns how many lines at most the log can be scrolled back on a page of that size.
std::size_t MostBack(const State& state, std::size_t columns, std::size_t rows);

}  // namespace gpuman::cli::top
