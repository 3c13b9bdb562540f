// The columns of the lists of `gpuman top`. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/top/picture.h"
#include "cli/top/rows.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

enum class ColumnKind {
  kId,
  kName,
  kUser,
  kState,
  kGpu,
  kUtilization,
  kMemory,
  kLimit,
  kPeak,
  kTime,
  kCommand,
  kPid,
  kCpu,
  kHostMemory,
  kPosition,
  kPriority,
  kGpusAsked,
  kStart,
  kWaited,
  kTimeLimit,
  kReason,
  kAway,
  kWanted,
  kWeight,
  kTurns,
  kStrip,
};

struct Column {
  ColumnKind field;
  std::string_view title;
  std::size_t width = 0;            // at least
  bool right = false;               // numbers
  int rank = 0;                     // where not all fit, the highest rank is left out first; 0: never
  bool grows = false;               // it gets what is left
  std::optional<TopOrder> order{};  // a click on its title chooses this order
};

// The columns of the page that fit, with their final widths.
std::vector<Column> ColumnsOf(Page page, std::size_t columns);

Line TitleLine(const State& state, const std::vector<Column>& columns);
Line RowLine(const State& state, const std::vector<Column>& columns, const Row& row);

// "2h03m", "n/a".
std::string AgeText(std::optional<base::Millis> age);
Ink InkOf(spec::JobState state);

}  // namespace gpuman::cli::top
