// For tests: the history of a job, from records that a test has.
#pragma once

#include <vector>

#include "keeper/journal.h"

namespace gpuman::keeper {

inline JobHistory Summarize(const std::vector<JournalRecord>& records) {
  JobHistory history;
  for (const auto& record : records) Apply(history, record);
  return history;
}

}  // namespace gpuman::keeper
