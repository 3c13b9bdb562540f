// The order and the headings in which the help of `gpuman submit` shows its options.
#pragma once

#include "cli/queue/options.h"

namespace gpuman::cli::queue {

// Sorts the table, the most used options first, and gives each option its heading. Options that the list does
// not have go to the end.
void GroupForHelp(Options& table);

}  // namespace gpuman::cli::queue
