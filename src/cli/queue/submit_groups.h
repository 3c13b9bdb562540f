// The order and the headings in which the help of `gpuman submit` shows its options.
#pragma once

#include "cli/queue/options.h"

namespace gpuman::cli::queue {

// Sorts the table, what most jobs need first, and gives each option its heading. An option that the list does
// not have stands at the end.
void GroupForHelp(Options& table);

}  // namespace gpuman::cli::queue
